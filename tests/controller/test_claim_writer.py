import asyncio
import contextlib

import msgspec
import pytest

from controller.claim_pod_writer import RESYNC_ATTEMPTS
from controller.leadership import Leadership
from controller.parallel_requests import PARALLEL_MAX, PartialFailureError
from dra.engine.claims import claim_holders
from dra.engine.claims.actions import (
    ClaimPlan,
    Deallocate,
    LookUpNode,
    LookUpPod,
    LookUpWorkload,
    PatchMetadata,
    ResyncPod,
    SetReservedFor,
    Ungate,
)
from dra.engine.claims.claim_holders import HolderState
from dra.engine.claims.consumers import SCHEDULING_GATE
from dra.engine.claims.reasons import Code, claim_reason
from dra.engine.claims.view import EntryKind
from dra.kube.errors import Conflict, Forbidden, NotFound, ServerError, Unreachable
from dra.kube.store import ServerRestoredError
from dra.model.meta import Uid
from dra.model.nodes import Node
from tests.controller.claim_writes import ALLOCATION, USES, pod, served, with_an_allocated_claim
from tests.controller.cluster import CLAIMS, NODES, PODS
from tests.dra.engine.examples import GUARD, JOB, KEY, NAMESPACE, uid, waiting
from tests.dra.kube.scripted import Scripted, refusal

UID = Uid("uid-train")
LIST = SetReservedFor(claim=KEY, entries=(JOB, GUARD))
NOTE = PatchMetadata(claim=KEY, annotations=(("x", "1"),))
FREE = Deallocate(claim=KEY)
READY = {"nodeInfo": {"bootID": "boot-1"}, "conditions": [{"type": "Ready", "status": "True"}]}


ENTERED = claim_reason(Code.WORKLOAD_ENTERED, key=KEY, uid=UID, done=True, workload="jobs.batch/train")


class Told:
    """In the place of the recorder: notes of which reasons there are Events."""

    def __init__(self):
        self.codes = []

    def record(self, event):
        self.codes.append(event.reason)


class FromNow(Leadership):
    """A lease that ends at some instant."""

    def __init__(self, until):
        super().__init__()
        self.until = until

    def write_until(self):
        return self.until


@pytest.fixture
def cluster():
    return with_an_allocated_claim()


async def test_writes_on_a_claim_are_a_chain_of_versions(cluster, world, writer_of):
    view = served(cluster, world)
    first = view.claim.metadata.resource_version
    await writer_of().apply(ClaimPlan(actions=(LIST, NOTE)), view=view)
    (_, sub_1, list_), (_, sub_2, note) = cluster.writes()
    assert (sub_1, sub_2) == ("status", "")
    assert (list_["metadata"]["resourceVersion"], note["metadata"]["resourceVersion"]) == (first, "102")
    assert list_["metadata"]["uid"] == note["metadata"]["uid"] == UID
    assert note["metadata"]["annotations"] == {"x": "1"}
    found = world.claim(KEY)
    assert (found.metadata.resource_version, found.entries) == ("103", (JOB, GUARD))
    assert world.view(KEY, now=0.0).history.written_at == 0.0


async def test_fields_that_we_do_not_know_survive(cluster, world, writer_of):
    cluster.put(
        CLAIMS, NAMESPACE, "train", status={"allocation": {**ALLOCATION, "new": 1}, "future": [2]}, spec={"n": 3}
    )
    await writer_of().apply(ClaimPlan(actions=(LIST,)), view=served(cluster, world))
    after = cluster.objects[cluster.path(CLAIMS, NAMESPACE, "train")]
    assert (after["status"]["future"], after["status"]["allocation"]["new"], after["spec"]) == ([2], 1, {"n": 3})


async def test_a_conflict_ends_the_chain_and_the_claim_is_read_again(cluster, world, writer_of, metrics):
    view = served(cluster, world)
    cluster.put(CLAIMS, NAMESPACE, "train", status={"allocation": ALLOCATION, "devices": []})
    with pytest.raises(Conflict):
        await writer_of().apply(ClaimPlan(actions=(LIST, NOTE)), view=view)
    assert len(cluster.writes()) == 1
    assert world.claim(KEY).metadata.resource_version == "102"
    assert b"dra_reserve_claim_conflicts_total 1.0" in metrics.render()


async def test_a_live_read_that_is_older_than_what_was_known_before_ends_it_all(cluster, world, writer_of):
    """The server was restored from a backup: every write of ours would be a conflict, for ever."""
    view = served(cluster, world)
    cluster.version = 50
    cluster.put(CLAIMS, NAMESPACE, "train", status={"allocation": ALLOCATION})
    with pytest.raises(
        ServerRestoredError, match=r"^ResourceClaim ml/train: the API server shows version 51 after it .* 101"
    ):
        await writer_of().apply(ClaimPlan(actions=(LIST,)), view=view)


async def test_a_live_read_that_something_newer_has_overtaken_proves_nothing(cluster, world, writer_of):
    view = served(cluster, world)
    plain = cluster.send

    async def slow(request):
        answer = await plain(request)
        if request.method == "GET":
            cluster.put(CLAIMS, NAMESPACE, "train", status={"allocation": ALLOCATION})
            served(cluster, world)  # by the watch
        return answer

    cluster.put(CLAIMS, NAMESPACE, "train", status={"allocation": ALLOCATION})
    cluster.send = slow
    with pytest.raises(Conflict):
        await writer_of().apply(ClaimPlan(actions=(LIST,)), view=view)
    assert world.claim(KEY).metadata.resource_version == "103"


async def test_a_conflict_in_the_middle_leaves_what_was_written(cluster, world, writer_of):
    view = served(cluster, world)
    path = cluster.path(CLAIMS, NAMESPACE, "train")
    note = PatchMetadata(claim=KEY, finalizers=())

    def meanwhile():
        cluster.disturb[path] = lambda: cluster.put(CLAIMS, NAMESPACE, "train", status={})

    cluster.disturb[path] = meanwhile
    told = Told()
    with pytest.raises(Conflict):
        await writer_of(recorder=told).apply(ClaimPlan(actions=(LIST, note), reasons=(ENTERED,)), view=view)
    assert [sub for _, sub, _ in cluster.writes()] == ["status", ""]
    assert world.claim(KEY).status.allocation is None
    assert told.codes == [Code.WORKLOAD_ENTERED], "the Event about the list must not be lost with the annotation"


async def test_a_status_that_was_not_written_is_not_reported(cluster, world, writer_of):
    view, told = served(cluster, world), Told()
    cluster.put(CLAIMS, NAMESPACE, "train", status={})
    with pytest.raises(Conflict):
        await writer_of(recorder=told).apply(ClaimPlan(actions=(LIST, NOTE), reasons=(ENTERED,)), view=view)
    assert not told.codes


async def test_a_claim_of_another_uid_is_a_conflict(cluster, world, writer_of):
    view = served(cluster, world)
    cluster.put(CLAIMS, NAMESPACE, "train", metadata={"uid": "another"})
    with pytest.raises(Conflict):
        await writer_of().apply(ClaimPlan(actions=(LIST,)), view=view)
    assert world.claim(KEY).metadata.uid == "another"


async def test_a_claim_that_is_gone_is_left_to_the_watch(cluster, world, writer_of):
    view = served(cluster, world)
    cluster.drop(CLAIMS, NAMESPACE, "train")
    with pytest.raises(NotFound):
        await writer_of().apply(ClaimPlan(actions=(LIST, NOTE)), view=view)
    assert len(cluster.writes()) == 1


async def test_after_a_failed_claim_write_no_pod_is_touched(cluster, world, writer_of):
    view = served(cluster, world)
    gated = pod(cluster, "a")
    ungate = Ungate(pod=gated.metadata.key, uid=uid("a"), resource_version=gated.metadata.resource_version)
    cluster.put(CLAIMS, NAMESPACE, "train")
    with pytest.raises(Conflict):
        await writer_of().apply(ClaimPlan(actions=(LIST, ungate)), view=view)
    assert [name for name, _, _ in cluster.writes()] == ["train"]


# Pods


def gated(cluster, name):
    spec = {"resourceClaims": USES, "schedulingGates": [{"name": SCHEDULING_GATE}]}
    return pod(cluster, name, spec=spec)


async def test_a_pod_is_let_go_as_the_version_that_was_decided_on(cluster, world, writer_of, metrics):
    found = gated(cluster, "a")
    world.observe_pod(found, now=0.0)
    version = found.metadata.resource_version
    await writer_of().apply(ClaimPlan(actions=(Ungate(pod=(NAMESPACE, "a"), uid=uid("a"), resource_version=version),)))
    ((name, _, body),) = cluster.writes()
    assert (name, body["metadata"]) == ("a", {"resourceVersion": version, "uid": uid("a")})
    assert body["spec"] == {"schedulingGates": None}
    assert world.consumer(uid("a")).gates == ()
    assert b"dra_reserve_pods_ungated_total 1.0" in metrics.render()


async def test_a_pod_that_has_changed_is_read_again_and_decided_again(cluster, world, writer_of):
    found = gated(cluster, "a")
    world.observe_pod(found, now=0.0)
    cluster.put(
        PODS, NAMESPACE, "a", spec={**cluster.objects[cluster.path(PODS, NAMESPACE, "a")]["spec"], "priority": 5}
    )
    world.dirty.clear()
    stale = Ungate(pod=(NAMESPACE, "a"), uid=uid("a"), resource_version=found.metadata.resource_version)
    await writer_of().apply(ClaimPlan(actions=(stale,)))
    assert (world.consumer(uid("a")).priority, world.consumer(uid("a")).gates) == (5, (SCHEDULING_GATE,))
    assert set(world.dirty) == {KEY}


async def test_a_pod_that_was_made_anew_is_not_let_go_in_the_place_of_the_old_one(cluster, world, writer_of):
    found = gated(cluster, "a")
    world.observe_pod(found, now=0.0)
    cluster.put(PODS, NAMESPACE, "a", metadata={"uid": "second"}, spec={"resourceClaims": USES})
    stale = Ungate(pod=(NAMESPACE, "a"), uid=uid("a"), resource_version=found.metadata.resource_version)
    await writer_of().apply(ClaimPlan(actions=(stale,)))
    assert world.consumer(uid("a")) is None
    assert world.consumer(Uid("second")) is not None


async def test_a_pod_that_is_gone_is_forgotten(cluster, world, writer_of):
    world.observe_pod(gated(cluster, "a"), now=0.0)
    cluster.drop(PODS, NAMESPACE, "a")
    await writer_of().apply(ClaimPlan(actions=(Ungate(pod=(NAMESPACE, "a"), uid=uid("a"), resource_version="1"),)))
    assert world.consumer(uid("a")) is None


async def test_a_pod_is_not_forgotten_when_a_server_does_not_serve_its_kind(cluster, world, writer_of):
    """A proxy without a server behind it, or a server that has just started, says that the page is not found."""
    world.observe_pod(gated(cluster, "a"), now=0.0)
    cluster.answer["PATCH"] = refusal(404, "NotFound", "the server could not find the requested resource")
    with pytest.raises(NotFound):
        await writer_of().apply(ClaimPlan(actions=(Ungate(pod=(NAMESPACE, "a"), uid=uid("a"), resource_version="1"),)))
    assert world.consumer(uid("a")) is not None


async def test_a_window_of_pods_is_let_go_a_few_at_a_time(cluster, writer_of):
    under_way, most = 0, 0
    plain = cluster.send

    async def counted(request):
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.01)
        under_way -= 1
        return await plain(request)

    cluster.send = counted
    pods = [gated(cluster, f"p{number}").metadata for number in range(2 * PARALLEL_MAX)]
    plan = ClaimPlan(actions=tuple(Ungate(pod=m.key, uid=m.uid, resource_version=m.resource_version) for m in pods))
    await writer_of().apply(plan)
    assert (most, len(cluster.writes())) == (PARALLEL_MAX, 2 * PARALLEL_MAX)


# Writes of which nobody tells whether they were done


def losing(cluster, *, answers, done=True):
    """Let so many writes have no answer; they are done, or not."""
    plain = cluster.send
    left = iter(range(answers))

    async def send(request):
        if request.method != "PATCH" or next(left, None) is None:
            return await plain(request)
        if done:
            await plain(request)
        else:
            cluster.requests.append(request)
        return refusal(500, "InternalError")

    cluster.send = send


async def test_a_write_whose_answer_was_lost_is_looked_for_and_the_chain_goes_on(cluster, world, writer_of, metrics):
    """Nobody would plan the kick again, nor the end of the finalizer."""
    view = served(cluster, world)
    pod(cluster, "a", spec={"resourceClaims": USES, "nodeName": "n1"})
    losing(cluster, answers=2)
    listing = SetReservedFor(claim=KEY, entries=(JOB, waiting("a").entry))
    await writer_of().apply(
        ClaimPlan(actions=(listing, NOTE, ResyncPod(pod=(NAMESPACE, "a"), uid=uid("a")))), view=view
    )
    assert [name for name, _, _ in cluster.writes()] == ["train", "train", "a"]
    assert world.view(KEY, now=0.0).history.written_at == 0.0
    assert b'dra_reserve_claim_writes_total{write="Annotate"} 1.0' in metrics.render()


@pytest.mark.parametrize("form", ["not-done", "done-and-changed-again", "nor-the-read"])
async def test_a_write_that_cannot_be_found_has_failed(cluster, world, writer_of, form):
    view = served(cluster, world)
    losing(cluster, answers=1, done=form == "done-and-changed-again")
    if form == "done-and-changed-again":
        path, lost = cluster.path(CLAIMS, NAMESPACE, "train"), cluster.send

        async def changed(request):
            answer = await lost(request)
            if request.method == "PATCH":
                cluster.put(CLAIMS, NAMESPACE, "train", **{**cluster.objects[path], "status": {}})
            return answer

        cluster.send = changed
    elif form == "nor-the-read":
        plain = cluster.send

        async def unreadable(request):
            return refusal(500) if request.method == "GET" else await plain(request)

        cluster.send = unreadable
    with pytest.raises(ServerError):
        await writer_of().apply(ClaimPlan(actions=(LIST, NOTE)), view=view)
    assert len(cluster.writes()) == 1
    assert world.view(KEY, now=0.0).history.written_at is None


async def test_a_refusal_is_known_to_have_done_nothing(cluster, world, writer_of):
    view = served(cluster, world)
    cluster.send = Scripted(refusal(403, "Forbidden")).send
    with pytest.raises(Forbidden):
        await writer_of().apply(ClaimPlan(actions=(LIST,)), view=view)


@pytest.mark.parametrize("done", [True, False], ids=["done", "not-done"])
async def test_whether_a_pod_was_let_go_is_looked_for_as_well(cluster, world, writer_of, metrics, done):
    found = gated(cluster, "a")
    world.observe_pod(found, now=0.0)
    world.dirty.clear()
    losing(cluster, answers=1, done=done)
    version = found.metadata.resource_version
    plan = ClaimPlan(actions=(Ungate(pod=(NAMESPACE, "a"), uid=uid("a"), resource_version=version),))
    with contextlib.nullcontext() if done else pytest.raises(ServerError):
        await writer_of().apply(plan)
    assert (SCHEDULING_GATE in world.consumer(uid("a")).gates) is not done
    assert bool(world.dirty) is done, "what is not done is no news: the pause before the next attempt must last"
    assert (b"dra_reserve_pods_ungated_total 1.0" in metrics.render()) is done


async def test_a_kick_is_repeated(cluster, writer_of, clock):
    pod(cluster, "a")
    losing(cluster, answers=RESYNC_ATTEMPTS - 1, done=False)
    await writer_of().apply(ClaimPlan(actions=(ResyncPod(pod=(NAMESPACE, "a"), uid=uid("a")),)))
    assert len(cluster.writes()) == RESYNC_ATTEMPTS
    assert "annotations" in cluster.objects[cluster.path(PODS, NAMESPACE, "a")]["metadata"]
    assert 0.0 < clock.now() < 5.0


async def test_a_kick_is_not_repeated_for_ever(cluster, writer_of):
    pod(cluster, "a")
    losing(cluster, answers=100, done=False)
    with pytest.raises(ServerError):
        await writer_of().apply(ClaimPlan(actions=(ResyncPod(pod=(NAMESPACE, "a"), uid=uid("a")),)))
    assert len(cluster.writes()) == RESYNC_ATTEMPTS


async def test_one_pod_that_cannot_be_written_does_not_keep_the_others(cluster, writer_of):
    pods = [gated(cluster, name).metadata for name in "abc"]
    plain = cluster.send

    async def broken(request):
        return refusal(500) if request.path.endswith("/a") else await plain(request)

    cluster.send = broken
    plan = ClaimPlan(actions=tuple(Ungate(pod=m.key, uid=m.uid, resource_version=m.resource_version) for m in pods))
    with pytest.raises(PartialFailureError, match="1 of 3 requests about pods failed, the first: Pod ml/a: "):
        await writer_of().apply(plan)
    assert [name for name, _, _ in cluster.writes()] == ["b", "c"]


async def test_a_kick_changes_an_annotation_of_that_very_pod(cluster, writer_of):
    pod(cluster, "a")
    await writer_of().apply(ClaimPlan(actions=(ResyncPod(pod=(NAMESPACE, "a"), uid=uid("a")),)))
    ((_, _, body),) = cluster.writes()
    assert body["metadata"]["annotations"] == {"reserve.dra/listed-at": "2026-11-20T12:00:00.000000Z"}
    assert body["metadata"]["uid"] == uid("a")
    assert "resourceVersion" not in body["metadata"]


@pytest.mark.parametrize("form", [None, {"uid": "second"}], ids=["gone", "made-anew"])
async def test_nobody_is_left_to_be_kicked(cluster, writer_of, form):
    if form:
        pod(cluster, "a", metadata=form)
    await writer_of().apply(ClaimPlan(actions=(ResyncPod(pod=(NAMESPACE, "a"), uid=uid("a")),)))
    assert (
        "annotations" not in (cluster.objects.get(cluster.path(PODS, NAMESPACE, "a")) or {"metadata": {}})["metadata"]
    )


# Questions


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


@pytest.mark.parametrize(
    ("status", "lost"),
    [
        pytest.param(READY, [], id="its-kubelet-reports-in"),
        pytest.param({**READY, "conditions": []}, ["n1"], id="its-kubelet-does-not"),
        pytest.param(None, [], id="there-is-no-such-node"),
    ],
)
async def test_the_node_of_a_vanished_pod_is_read_live(cluster, world, writer_of, status, lost):
    served(cluster, world)
    world.observe_node(msgspec.convert(cluster.put(NODES, "", "n1", status=READY), Node), now=0.0)
    cluster.drop(NODES, "", "n1")
    world.observe_pod(pod(cluster, "a", spec={"resourceClaims": USES, "nodeName": "n1"}), now=0.0)
    world.forget_pod(uid("a"))
    view = world.view(KEY, now=-1000.0)
    assert [each.node for each in view.vanished] == ["n1"]
    cluster.put(NODES, "", "n2", status=READY)
    if status is not None:
        cluster.put(NODES, "", "n1", status=status)
    await writer_of().apply(ClaimPlan(actions=(LookUpNode(claim=KEY, node="n1"),)), view=view)
    after = world.view(KEY, now=0.0)
    assert ([each.name for each in after.lost_nodes], after.vanished) == (lost, ())


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


# Leadership


async def test_a_write_must_be_over_before_the_lease_can_be(cluster, world, writer_of):
    await writer_of(FromNow(3.0)).apply(ClaimPlan(actions=(LIST,)), view=served(cluster, world))
    assert cluster.requests[-1].timeout == pytest.approx(3.0)


async def test_without_a_lease_nothing_is_written(cluster, world, writer_of):
    with pytest.raises(Unreachable):
        await writer_of(FromNow(-1.0)).apply(ClaimPlan(actions=(LIST,)), view=served(cluster, world))
    assert not cluster.writes()


async def test_writes_and_how_long_pods_waited_for_them_are_counted(cluster, world, writer_of, metrics):
    write = SetReservedFor(claim=KEY, entries=(waiting("a").entry,))
    world.observe_pod(pod(cluster, "a"), now=0.0)
    await writer_of().apply(ClaimPlan(actions=(write,)), view=served(cluster, world))
    shown = metrics.render()
    assert b'dra_reserve_pod_listing_seconds_count{room="free"}' in shown
    assert b'dra_reserve_claim_writes_total{write="SetReservedFor"} 1.0' in shown
