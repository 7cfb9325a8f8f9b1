"""Every allocated device is counted once, under the first thing that holds it."""

import pytest

from dra.engine import census
from dra.engine.census import HeldBy
from dra.engine.claims.view import guard, lost_entry
from dra.engine.consumers import GATE
from dra.engine.world import World
from tests.dra.engine.examples import FOREIGN, JOB, allocation, claim, pod, told
from tests.dra.engine.test_taints import slice_of

DRIVER = "gpu.example.com"
USED = claim(workload=JOB, allocation=allocation("gpu-0", "gpu-1"), list=[JOB])


@pytest.mark.parametrize(
    ("found", "pods", "holder"),
    [
        pytest.param(USED, [pod("a", node="n1"), pod("b")], HeldBy.PODS, id="pods-that-are-bound"),
        pytest.param(USED, [pod("a")], HeldBy.WAITING, id="pods-that-wait"),
        pytest.param(USED, [pod("a", gates=[GATE])], HeldBy.WAITING, id="pods-behind-gates"),
        pytest.param(USED, [], HeldBy.WORKLOAD, id="a-workload-without-pods"),
        pytest.param(claim(allocation=allocation("gpu-0", "gpu-1"), list=[FOREIGN]), [], HeldBy.OTHERS, id="others"),
        pytest.param(claim(allocation=allocation("gpu-0", "gpu-1"), list=[]), [], HeldBy.NOTHING, id="nothing"),
    ],
)
def test_devices_are_held_by_the_first_that_applies(found, pods, holder):
    world = World()
    told(world, found, *pods)
    assert dict(census.count(world).held) == {(DRIVER, holder): 2}


def test_a_guard_alone_holds_nothing_and_a_lost_entry_does():
    alone = claim(allocation=allocation(), list=[])
    for entry, holder in ((guard(alone), HeldBy.NOTHING), (lost_entry("n1", "boot"), HeldBy.OTHERS)):
        world = World()
        told(world, claim(allocation=allocation(), list=[entry]))
        assert dict(census.count(world).held) == {(DRIVER, holder): 1}


def test_claims_without_devices_are_not_counted_and_pods_are_by_stage():
    world = World()
    told(world, claim(allocation=None), pod("a"), pod("b", node="n1"))
    counted = census.count(world)
    assert not counted.held
    assert counted.pods == {"gated": 0, "waiting": 1, "starting": 1, "started": 0}


def test_offered_are_the_devices_of_the_newest_generation():
    world = World()
    world.taints.observe_slice(slice_of("old", generation=1, gpu_0=(), gpu_1=()))
    world.taints.observe_slice(slice_of("new", generation=2, gpu_0=()))
    world.taints.observe_slice(slice_of("other", pool="else", gpu_5=(), gpu_6=()))
    assert census.count(world).offered == {DRIVER: 3}
    world.taints.forget_slice("other")
    assert census.count(world).offered == {DRIVER: 1}
