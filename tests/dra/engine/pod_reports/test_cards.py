"""The GPUs that slices publish, as slices come and go."""

import pytest

from dra.engine.pod_reports.cards import Card, CardIndex
from dra.model.meta import ObjectMeta
from dra.model.slices import Device, ResourcePool, ResourceSlice, ResourceSliceSpec
from tests.dra.engine.pod_reports.slices import LARGE, SMALL, gpu, resource_slice


@pytest.fixture
def index():
    return CardIndex()


def test_a_published_gpu_is_found(index):
    index.observe(resource_slice("n0", gpu(3, SMALL)))
    assert index.find("n0", "gpu-3") == Card(minor=3, uuid="GPU-n0-3", memory=SMALL)
    assert index.find("n1", "gpu-3") is None


def test_a_slice_that_changes_changes_its_gpus(index):
    index.observe(resource_slice("n0", gpu(0, SMALL)))
    index.observe(resource_slice("n0", gpu(0, LARGE)))
    assert index.find("n0", "gpu-0") == Card(minor=0, uuid="GPU-n0-0", memory=LARGE)


def test_a_gpu_that_a_slice_publishes_no_more_is_gone(index):
    index.observe(resource_slice("n0", gpu(0, SMALL), gpu(1, SMALL)))
    index.observe(resource_slice("n0", gpu(1, SMALL)))
    assert index.find("n0", "gpu-0") is None
    assert index.find("n0", "gpu-1") is not None


def test_a_gpu_that_moved_to_another_slice_stays(index):
    first, second = (resource_slice("n0", gpu(0, SMALL), name=name) for name in ("a", "b"))
    index.observe(first)
    index.observe(second)
    index.forget(first)
    assert index.find("n0", "gpu-0") is not None
    index.forget(second)
    assert index.find("n0", "gpu-0") is None


def test_slices_of_other_drivers_are_ignored(index):
    index.observe(resource_slice("n0", gpu(0, SMALL), driver="gpu.example.com"))
    assert index.find("n0", "gpu-0") is None


@pytest.mark.parametrize(
    ("fields", "card"),
    [
        pytest.param({}, None, id="nothing"),
        pytest.param({"attributes": {"minor": {"string": "0"}}}, None, id="number-of-another-type"),
        pytest.param({"attributes": {"minor": {"int": 0}}}, Card(minor=0), id="number-alone"),
        pytest.param({"attributes": {"minor": {"int": 0}}, "capacity": {"memory": {}}}, Card(minor=0), id="no-amount"),
    ],
)
def test_what_a_device_does_not_say_is_unknown(index, fields, card):
    spec = ResourceSliceSpec(
        driver="gpu.reserve.dra", pool=ResourcePool(name="n0"), devices=[Device(name="gpu-0", **fields)]
    )
    index.observe(ResourceSlice(metadata=ObjectMeta(name="a"), spec=spec))
    assert index.find("n0", "gpu-0") == card
