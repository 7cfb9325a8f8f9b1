"""Questions of plans are answered by live reads."""

import asyncio

import pytest

from dra.engine.claims import claim_holders
from dra.engine.claims.actions import (
    ClaimPlan,
    LookUpNode,
    LookUpPod,
    LookUpWorkload,
)
from dra.engine.claims.claim_holders import HolderState
from dra.engine.claims.view import EntryKind
from dra.kube.errors import Unreachable
from tests.controller.claim_writes import ALLOCATION, USES, pod, served, with_an_allocated_claim
from tests.controller.cluster import CLAIMS, PODS
from tests.dra.engine.examples import JOB, KEY, NAMESPACE, uid
from tests.dra.kube.scripted import refusal


@pytest.fixture
def cluster():
    return with_an_allocated_claim()


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        pytest.param(None, EntryKind.VANISHED, id="gone"),
        pytest.param({"metadata": {"uid": "second"}}, EntryKind.VANISHED, id="another-of-that-name"),
        pytest.param({"spec": {}}, EntryKind.FOREIGN, id="there-and-uses-another-claim"),
        pytest.param({"spec": {}, "status": {"phase": "Failed"}}, EntryKind.FINISHED, id="ended"),
    ],
)
async def test_an_entry_nobody_knows_is_settled_by_a_live_read(cluster, world, writer_of, content, kind):
    entry = {"resource": "pods", "name": "a", "uid": uid("a")}
    cluster.put(CLAIMS, NAMESPACE, "train", status={"allocation": ALLOCATION, "reservedFor": [entry]})
    view = served(cluster, world)
    if content is not None:
        pod(cluster, "a", **content)
    await writer_of().apply(ClaimPlan(actions=(LookUpPod(pod=(NAMESPACE, "a"), uid=uid("a")),)), view=view)
    assert [e.kind for e in world.view(KEY, now=0.0).entries] == [kind]


async def test_a_live_read_of_a_listed_pod_that_looks_gated_shows_that_it_is_bound(cluster, world, writer_of):
    entry = {"resource": "pods", "name": "a", "uid": uid("a")}
    cluster.put(CLAIMS, NAMESPACE, "train", status={"allocation": ALLOCATION, "reservedFor": [entry]})
    gates = [{"name": "kueue.x-k8s.io/admission"}]
    world.observe_pod(pod(cluster, "a", spec={"resourceClaims": USES, "schedulingGates": gates}), now=0.0)
    view = served(cluster, world)
    assert [e.kind for e in view.entries] == [EntryKind.UNKNOWN]
    pod(cluster, "a", spec={"resourceClaims": USES, "nodeName": "n1"})
    await writer_of().apply(ClaimPlan(actions=(LookUpPod(pod=(NAMESPACE, "a"), uid=uid("a")),)), view=view)
    assert [e.kind for e in world.view(KEY, now=0.0).entries] == [EntryKind.LIVE]


async def test_a_question_about_a_node_is_handed_on_and_holds_up_no_worker(cluster, world, writer_of):
    view = served(cluster, world)
    await writer_of().apply(ClaimPlan(actions=(LookUpNode(claim=KEY, node="n1"),)), view=view)
    assert not cluster.requests


async def test_a_read_that_fails_settles_nothing(cluster, world, writer_of):
    view = served(cluster, world)
    cluster.refuse[PODS] = refusal(500)

    async def unreachable(_request):
        raise Unreachable("x", "gone away", outcome_unknown=True)

    cluster.send = unreachable
    for _ in range(2):  # the second one asks again
        with pytest.raises(Unreachable):
            await writer_of().apply(ClaimPlan(actions=(LookUpPod(pod=(NAMESPACE, "a"), uid=uid("a")),)), view=view)


async def test_the_same_question_is_asked_once_at_a_time(cluster, world, writer_of):
    view, writer = served(cluster, world), writer_of()
    plan = ClaimPlan(actions=(LookUpPod(pod=(NAMESPACE, "a"), uid=uid("a")), LookUpWorkload(claim=KEY, reference=JOB)))
    await asyncio.gather(*(writer.apply(plan, view=view) for _ in range(5)))
    asked = [request.path for request in cluster.requests]
    assert len(asked) == len(set(asked))


async def test_each_claim_gets_its_answer_about_a_pod_that_several_list(cluster, world, writer_of):
    entry = {"resource": "pods", "name": "a", "uid": uid("a")}
    for name in ("train", "eval"):
        cluster.put(CLAIMS, NAMESPACE, name, status={"allocation": ALLOCATION, "reservedFor": [entry]})
    views, writer = [served(cluster, world, name) for name in ("train", "eval")], writer_of()
    plan = ClaimPlan(actions=(LookUpPod(pod=(NAMESPACE, "a"), uid=uid("a")),))
    await asyncio.gather(*(writer.apply(plan, view=view) for view in views))
    found = [world.view(view.key, now=0.0).entries[0].kind for view in views]
    assert found == [EntryKind.VANISHED, EntryKind.VANISHED]


RESERVATIONS = "/apis/scheduling.koordinator.sh/v1alpha1/reservations"
HELD_FOR = claim_holders.reserved_for_entry("r", uid("r"))


@pytest.mark.parametrize(
    ("there", "standing"),
    [
        pytest.param(None, HolderState.OVER, id="gone"),
        pytest.param({"uid": uid("another")}, HolderState.OVER, id="another-of-its-name"),
        pytest.param({"uid": uid("r")}, HolderState.UNKNOWN, id="there-the-watch-will-show-it"),
    ],
)
async def test_whether_a_reservation_is_gone_a_live_read_tells(cluster, world, writer_of, there, standing):
    if there is not None:
        cluster.put(RESERVATIONS, "", "r", metadata=there)
    view = served(cluster, world)
    await writer_of().apply(ClaimPlan(actions=(LookUpWorkload(claim=KEY, reference=HELD_FOR),)), view=view)
    assert world.holders.state(uid("r")) is standing


async def test_a_kind_that_is_not_served_just_now_tells_nothing(cluster, world, writer_of):
    view = served(cluster, world)
    cluster.answer["GET", f"{RESERVATIONS}/r"] = refusal(404, "NotFound", "the server could not find the resource")
    await writer_of().apply(ClaimPlan(actions=(LookUpWorkload(claim=KEY, reference=HELD_FOR),)), view=view)
    assert world.holders.state(uid("r")) is HolderState.UNKNOWN
