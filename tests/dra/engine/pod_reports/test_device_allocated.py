"""What a pod is reported to have been given of which GPUs."""

import json

import pytest

from dra.engine.pod_reports.cards import CardIndex
from dra.engine.pod_reports.device_allocated import UnknownCardError, device_allocated
from dra.model.claims import DeviceRequestAllocationResult
from tests.dra.engine.pod_reports.slices import LARGE, SMALL, gpu, resource_slice
from tests.violations import for_each_case

CARDS = CardIndex()
CARDS.observe(resource_slice("n0", gpu(0, SMALL), gpu(1, SMALL)))
CARDS.observe(resource_slice("n1", gpu(0, LARGE), gpu(1, "")))
CORE, MEMORY, RATIO = (f"koordinator.sh/gpu-{each}" for each in ("core", "memory", "memory-ratio"))


def result(device="gpu-0", *, pool="n0", driver="gpu.reserve.dra", **consumed):
    share = {"share_id": "s", "consumed_capacity": consumed} if consumed else {}
    return DeviceRequestAllocationResult(request="gpu", driver=driver, pool=pool, device=device, **share)


def reported(*results):
    value = device_allocated(results, CARDS)
    return None if value is None else json.loads(value)


def entry(minor, *, node="n0", **resources):
    named = {"core": CORE, "memory": MEMORY, "ratio": RATIO}
    return {
        "minor": minor,
        "resources": {named[key]: value for key, value in resources.items()},
        "id": f"GPU-{node}-{minor}",
    }


@for_each_case(
    [
        pytest.param(
            [result("gpu-1", memory="8Gi", core="50")], [entry(1, core="50", memory="8Gi", ratio="50")], id="half"
        ),
        pytest.param([result()], [entry(0, core="100", memory="16Gi", ratio="100")], id="not-shared"),
        pytest.param([result(memory="8Gi", core="0")], [entry(0, memory="8Gi", ratio="50")], id="memory-alone"),
        pytest.param(
            [result(pool="n1", memory="20389Mi", core="25")],
            [entry(0, node="n1", core="25", memory="20389Mi", ratio="24")],
            id="the-ratio-of-an-odd-size-is-rounded-down",
        ),
        pytest.param(
            [result(pool="n1", memory="81559Mi", core="0")],
            [entry(0, node="n1", memory="81559Mi", ratio="100")],
            id="whole-card-by-the-vendors-name",
        ),
        pytest.param(
            [result("gpu-1", memory="4Gi", core="25"), result("gpu-0", memory="4Gi", core="25")],
            [entry(0, core="25", memory="4Gi", ratio="25"), entry(1, core="25", memory="4Gi", ratio="25")],
            id="two-cards-in-order",
        ),
        pytest.param([result("gpu-1", pool="n1")], [entry(1, node="n1", core="100")], id="memory-not-known"),
    ]
)
def test_each_gpu_is_reported_with_the_part_that_was_given(results, entries):
    assert reported(*results) == {"gpu": entries}


@pytest.mark.parametrize(
    "results",
    [
        pytest.param([], id="nothing"),
        pytest.param([result(driver="cpu.reserve.dra")], id="another-driver"),
        pytest.param(
            [
                DeviceRequestAllocationResult(
                    request="gpu", driver="gpu.reserve.dra", pool="n0", device="gpu-0", admin_access=True
                )
            ],
            id="admin-access",
        ),
    ],
)
def test_without_gpus_nothing_is_reported(results):
    assert reported(*results) is None


def test_a_gpu_that_is_not_published_is_waited_for():
    with pytest.raises(UnknownCardError, match="pool n9: device gpu-0 is in no ResourceSlice"):
        reported(result(pool="n9"))
