"""Deallocation with a live read: an allocation is taken back only if no pod is being bound to it."""

import pytest

from dra.engine.claims.actions import ClaimPlan, Deallocate, PatchMetadata
from dra.engine.claims.deallocation_check import BoundMeanwhileError
from tests.controller.claim_writes import USES, pod, served, with_an_allocated_claim
from tests.controller.cluster import NODES, PODS
from tests.dra.engine.examples import KEY, NAMESPACE, uid

NOTE = PatchMetadata(claim=KEY, annotations=(("x", "1"),))
FREE = Deallocate(claim=KEY)


@pytest.fixture
def cluster():
    return with_an_allocated_claim()


@pytest.mark.parametrize(
    ("content", "forbidden"),
    [
        pytest.param({}, False, id="waits"),
        pytest.param({"spec": {"resourceClaims": USES, "nodeName": "n1"}}, True, id="bound"),
        pytest.param(
            {"spec": {"resourceClaims": USES, "nodeName": "n1"}, "status": {"phase": "Failed"}}, False, id="ended"
        ),
        pytest.param({"spec": {"nodeName": "n1"}}, False, id="uses-no-claim"),
    ],
)
async def test_an_allocation_is_taken_back_only_if_no_pod_is_being_bound(cluster, world, writer_of, content, forbidden):
    view = served(cluster, world)
    pod(cluster, "a", **content)
    plan = ClaimPlan(actions=(Deallocate(claim=KEY, confirm=True), NOTE))
    if forbidden:
        with pytest.raises(BoundMeanwhileError, match="claim ml/train: pod a"):
            await writer_of().apply(plan, view=view)
        assert not cluster.writes()
        assert world.consumer(uid("a")) is not None
    else:
        await writer_of().apply(plan, view=view)
        assert world.claim(KEY).status.allocation is None


async def test_pods_of_other_namespaces_are_not_asked_for(cluster, world, writer_of):
    view = served(cluster, world)
    cluster.put(PODS, "other", "a", spec={"resourceClaims": USES, "nodeName": "n1"})
    await writer_of().apply(ClaimPlan(actions=(Deallocate(claim=KEY, confirm=True),)), view=view)
    assert world.claim(KEY).status.allocation is None


READY = {"conditions": [{"type": "Ready", "status": "True"}]}
GIVEN_UP = Deallocate(claim=KEY, confirm=True, given_up=frozenset({uid("a")}))


@pytest.mark.parametrize(
    ("pods", "nodes", "forbidden"),
    [
        pytest.param([("a", "n1")], {"n1": {}}, None, id="its-kubelet-does-not-report-in"),
        pytest.param([("a", "n1")], {}, None, id="its-node-is-gone"),
        pytest.param([("a", "n1")], {"n1": READY}, "node n1 reports in", id="its-kubelet-is-back"),
    ],
)
async def test_pods_are_given_up_only_as_long_as_their_kubelets_do_not_report_in(
    cluster, world, writer_of, pods, nodes, forbidden
):
    view = served(cluster, world)
    for name, node in pods:
        pod(cluster, name, spec={"resourceClaims": USES, "nodeName": node})
    for name, status in nodes.items():
        cluster.put(NODES, "", name, status=status)
    plan = ClaimPlan(actions=(GIVEN_UP,))
    if forbidden:
        with pytest.raises(BoundMeanwhileError, match=forbidden):
            await writer_of().apply(plan, view=view)
    else:
        await writer_of().apply(plan, view=view)
    assert (world.claim(KEY).status.allocation is None) is not bool(forbidden)


async def test_a_pod_that_cannot_be_read_may_be_bound(cluster, world, writer_of):
    view = served(cluster, world)
    cluster.put(PODS, NAMESPACE, "a", spec={"resourceClaims": "what is this?"})
    with pytest.raises(BoundMeanwhileError, match="pod ml/a cannot be read"):
        await writer_of().apply(ClaimPlan(actions=(Deallocate(claim=KEY, confirm=True),)), view=view)


async def test_an_ordinary_deallocation_reads_nothing(cluster, world, writer_of):
    await writer_of().apply(ClaimPlan(actions=(FREE,)), view=served(cluster, world))
    assert [request.method for request in cluster.requests] == ["PATCH"]
    assert cluster.writes()[0][2]["status"] == {"allocation": None, "reservedFor": None, "devices": None}
