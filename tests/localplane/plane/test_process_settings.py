"""The settings of a process that runs a plane."""

import gc

import pytest

from localplane.plane.process_settings import GC_THRESHOLDS, relax_garbage_collector


@pytest.fixture
def collector():
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


@pytest.mark.usefixtures("collector")
def test_the_garbage_collector_looks_less_often_and_not_at_what_was_there_before():
    relax_garbage_collector()
    assert gc.get_threshold() == GC_THRESHOLDS
    assert gc.get_freeze_count() > 0
