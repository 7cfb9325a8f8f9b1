import pytest

from controller.extender.unconfirmed_bindings import UnconfirmedBinding, UnconfirmedBindings
from controller.extender.writer import ExtenderWriter
from dra.engine.reservations.statuses import AssignedPod
from tests.dra.engine.scheduling.examples import NODE, pod
from tests.dra.kube.scripted import Handling


@pytest.mark.parametrize("node", ["n1", "n2"], ids=["there", "elsewhere"])
async def test_a_read_that_shows_the_pod_bound_ends_the_doubt_before_the_watch_does(node, cache, runtime_of):
    bound = pod(node=node)
    cache.observe_node(NODE)
    claimant = cache.pod_info(pod(node=""))
    assert cache.accounting.assume_pod(claimant, "n1").node == "n1"

    async def read(*_, **__):
        return bound

    runtime = runtime_of(Handling(None))
    writer = ExtenderWriter(runtime, cache=cache, seconds=2.0)
    writer.read_pod = read
    doubts = UnconfirmedBindings(runtime, cache=cache, writer=writer)
    consumer = AssignedPod(uid=claimant.uid, key=claimant.key, amounts=claimant.amounts, binding=True)
    doubts.add(UnconfirmedBinding(pod=consumer, node="n1", reservation=None))
    await doubts._read_outcome(UnconfirmedBinding(pod=consumer, node="n1", reservation=None))
    seat = cache.accounting.assignment(claimant.uid)
    assert (len(doubts), seat.node, seat.assumed) == (0, node, False)
