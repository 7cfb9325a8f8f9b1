import pytest

from dra.engine.claims.actions import (
    ClaimPlan,
    Deallocate,
    PatchMetadata,
    ResyncPod,
    SetReservedFor,
    Ungate,
)
from dra.engine.claims.codes import Code
from dra.engine.claims.reasons import claim_reason
from dra.kube.errors import Conflict, Forbidden, NotFound, ServerError, Unreachable
from dra.kube.store import ServerRestoredError
from dra.model.meta import Uid
from dra.requests.leadership import Leadership
from tests.controller.claim_writes import ALLOCATION, USES, losing, pod, served, with_an_allocated_claim
from tests.controller.cluster import CLAIMS
from tests.controller.recorded_reasons import RecordedEvents
from tests.dra.engine.examples import GUARD, JOB, KEY, NAMESPACE, uid, waiting
from tests.dra.kube.scripted import Scripted, refusal

UID = Uid("uid-train")
LIST = SetReservedFor(claim=KEY, entries=(JOB, GUARD))
NOTE = PatchMetadata(claim=KEY, annotations=(("x", "1"),))
FREE = Deallocate(claim=KEY)


ENTERED = claim_reason(Code.WORKLOAD_ENTERED, key=KEY, uid=UID, done=True, workload="jobs.batch/train")


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
    recorded = RecordedEvents()
    with pytest.raises(Conflict):
        await writer_of(recorder=recorded).apply(ClaimPlan(actions=(LIST, note), reasons=(ENTERED,)), view=view)
    assert [sub for _, sub, _ in cluster.writes()] == ["status", ""]
    assert world.claim(KEY).status.allocation is None
    assert recorded.codes == [Code.WORKLOAD_ENTERED], "the Event about the list must not be lost with the annotation"


async def test_a_status_that_was_not_written_is_not_reported(cluster, world, writer_of):
    view, recorded = served(cluster, world), RecordedEvents()
    cluster.put(CLAIMS, NAMESPACE, "train", status={})
    with pytest.raises(Conflict):
        await writer_of(recorder=recorded).apply(ClaimPlan(actions=(LIST, NOTE), reasons=(ENTERED,)), view=view)
    assert not recorded.codes


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


# Writes of which nobody tells whether they were done


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
