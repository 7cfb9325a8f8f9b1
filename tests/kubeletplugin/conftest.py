"""As in tests.dra.local: modules that say ``VIRTUAL_TIME = True`` run in virtual time; grpc.aio needs real time."""

import asyncio

from tests.dra.kube.virtual import VirtualLoop


def pytest_asyncio_loop_factories(config, item):  # noqa: ARG001 - the hook's signature
    virtual = getattr(item.module, "VIRTUAL_TIME", False)
    return {"virtual": VirtualLoop} if virtual else {"real": asyncio.new_event_loop}
