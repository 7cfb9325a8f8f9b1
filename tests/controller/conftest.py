"""As in tests.dra.kube: virtual time, except in modules that say ``REAL_TIME = True`` because they use sockets."""

import asyncio

import pytest

from controller.metrics import Metrics
from dra.engine.world import World
from tests.dra.kube.virtual import LoopClock, VirtualLoop


def pytest_asyncio_loop_factories(config, item):  # noqa: ARG001 - the hook's signature
    real = getattr(item.module, "REAL_TIME", False)
    return {"real": asyncio.new_event_loop} if real else {"virtual": VirtualLoop}


@pytest.fixture
def clock():
    return LoopClock()


@pytest.fixture
def world():
    return World()


@pytest.fixture
def metrics():
    return Metrics()
