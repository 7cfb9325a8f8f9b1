"""The extender's cache and metrics, for the runtime of `tests.controller.conftest`."""

import pytest

from controller.extender.metrics import ExtenderMetrics
from dra.engine.scheduling.scheduler_cache import SchedulerCache


@pytest.fixture
def cache():
    return SchedulerCache()


@pytest.fixture
def metrics(cache):
    return ExtenderMetrics(cache)
