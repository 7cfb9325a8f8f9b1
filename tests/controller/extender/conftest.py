"""The extender's cache, informers and metrics, for the runtime of `tests.controller.conftest`."""

import pytest

from controller.extender.metrics import ExtenderMetrics
from dra.engine.scheduling.scheduler_cache import SchedulerCache
from tests.controller.extender.answering import Informers


@pytest.fixture
def cache():
    return SchedulerCache()


@pytest.fixture
def informers():
    return Informers()


@pytest.fixture
def metrics(cache):
    return ExtenderMetrics(cache)
