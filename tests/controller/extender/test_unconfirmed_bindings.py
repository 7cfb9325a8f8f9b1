from types import SimpleNamespace

import pytest

from controller.extender.unconfirmed_bindings import UnconfirmedBinding, UnconfirmedBindings
from dra.engine.reservations.statuses import AssignedPod
from dra.engine.scheduling.scheduler_cache import SchedulerCache
from tests.dra.engine.scheduling.examples import NODE, pod
from tests.dra.kube.virtual import LoopClock


@pytest.mark.parametrize("node", ["n1", "n2"], ids=["there", "elsewhere"])
async def test_a_read_that_shows_the_pod_bound_ends_the_doubt_before_the_watch_does(node):
    picture, bound = SchedulerCache(), pod(node=node)
    picture.observe_node(NODE)
    claimant = picture.pod_info(pod(node=""))
    assert picture.accounting.assume_pod(claimant, "n1").node == "n1"

    async def read(*_, **__):
        return bound

    doubts = UnconfirmedBindings(cache=picture, writer=SimpleNamespace(read_pod=read), clock=LoopClock(), seconds=2.0)
    consumer = AssignedPod(uid=claimant.uid, key=claimant.key, amounts=claimant.amounts, binding=True)
    doubts.add(UnconfirmedBinding(pod=consumer, node="n1", reservation=None))
    await doubts._read_outcome(UnconfirmedBinding(pod=consumer, node="n1", reservation=None))
    seat = picture.accounting.assignment(claimant.uid)
    assert (len(doubts), seat.node, seat.assumed) == (0, node, False)
