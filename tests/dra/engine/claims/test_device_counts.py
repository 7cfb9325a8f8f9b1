"""Every allocated device is counted once, under the first thing that holds it."""

import msgspec
import pytest

from dra.engine.claims import device_counts
from dra.engine.claims.claim_cache import ClaimCache
from dra.engine.claims.consumers import SCHEDULING_GATE
from dra.engine.claims.device_counts import HeldBy
from dra.engine.claims.view import guard_entry, lost_node_entry
from tests.dra.engine.devices.test_taints import slice_of
from tests.dra.engine.examples import FOREIGN, JOB, allocation, claim, observe_all, pod

DRIVER = "gpu.example.com"
USED = claim(workload=JOB, allocation=allocation("gpu-0", "gpu-1"), list=[JOB])


@pytest.mark.parametrize(
    ("found", "pods", "holder"),
    [
        pytest.param(USED, [pod("a", node="n1"), pod("b")], HeldBy.PODS, id="pods-that-are-bound"),
        pytest.param(USED, [pod("a")], HeldBy.WAITING, id="pods-that-wait"),
        pytest.param(USED, [pod("a", gates=[SCHEDULING_GATE])], HeldBy.WAITING, id="pods-behind-gates"),
        pytest.param(USED, [], HeldBy.WORKLOAD, id="a-workload-without-pods"),
        pytest.param(claim(allocation=allocation("gpu-0", "gpu-1"), list=[FOREIGN]), [], HeldBy.OTHERS, id="others"),
        pytest.param(claim(allocation=allocation("gpu-0", "gpu-1"), list=[]), [], HeldBy.NOTHING, id="nothing"),
    ],
)
def test_devices_are_held_by_the_first_that_applies(found, pods, holder):
    world = ClaimCache()
    observe_all(world, found, *pods)
    assert dict(device_counts.count_devices(world).held) == {(DRIVER, holder): 2}


def test_a_guard_alone_holds_nothing_and_a_lost_entry_does():
    alone = claim(allocation=allocation(), list=[])
    for entry, holder in ((guard_entry(alone), HeldBy.NOTHING), (lost_node_entry("n1", "boot"), HeldBy.OTHERS)):
        world = ClaimCache()
        observe_all(world, claim(allocation=allocation(), list=[entry]))
        assert dict(device_counts.count_devices(world).held) == {(DRIVER, holder): 1}


def test_claims_without_devices_are_not_counted_and_pods_are_by_stage():
    world = ClaimCache()
    observe_all(world, claim(allocation=None), pod("a"), pod("b", node="n1"))
    counted = device_counts.count_devices(world)
    assert not counted.held
    assert counted.pods == {"gated": 0, "waiting": 1, "starting": 1, "started": 0}


def test_offered_are_the_devices_of_the_newest_generation():
    world = ClaimCache()
    world.taints.observe_slice(slice_of("old", generation=1, gpu_0=(), gpu_1=()))
    world.taints.observe_slice(slice_of("new", generation=2, gpu_0=()))
    world.taints.observe_slice(slice_of("other", pool="else", gpu_5=(), gpu_6=()))
    assert device_counts.count_devices(world).offered == {DRIVER: 3}
    world.taints.forget_slice("other")
    assert device_counts.count_devices(world).offered == {DRIVER: 1}


def in_pool_of(found, *, count):
    pool = msgspec.structs.replace(found.spec.pool, resource_slice_count=count)
    return msgspec.structs.replace(found, spec=msgspec.structs.replace(found.spec, pool=pool))


def test_devices_of_a_pool_that_lacks_a_slice_are_counted_by_driver():
    world, counts = ClaimCache(), []
    for found in (
        in_pool_of(slice_of("a", gpu_0=(), gpu_1=()), count=1),
        in_pool_of(slice_of("b", pool="else", gpu_5=()), count=2),
        in_pool_of(slice_of("c", pool="else", gpu_6=()), count=2),
    ):
        world.taints.observe_slice(found)
        counts.append(device_counts.count_devices(world).incomplete)
    assert counts == [{DRIVER: 0}, {DRIVER: 1}, {DRIVER: 0}]
