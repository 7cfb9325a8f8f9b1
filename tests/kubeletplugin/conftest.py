"""As in tests.localplane: modules that say ``VIRTUAL_TIME = True`` run in virtual time; grpc.aio needs real time."""

import asyncio

import pytest

from kubeletplugin import claim_preparer
from tests.dra.kube.virtual import VirtualLoop


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """A claim whose device another one has is refused at once, but where a test is about waiting."""
    monkeypatch.setattr(claim_preparer, "HANDOVER_TIMEOUT", 0.0)


def pytest_asyncio_loop_factories(config, item):  # noqa: ARG001 - the hook's signature
    virtual = getattr(item.module, "VIRTUAL_TIME", False)
    return {"virtual": VirtualLoop} if virtual else {"real": asyncio.new_event_loop}
