import asyncio

import msgspec
import pytest

from controller.workload_informers import (
    LARGE_OBJECT_BYTES,
    PARALLEL_RESOLVES,
    RESOLVE_INTERVAL,
    RETRY,
    WorkloadInformers,
)
from dra.cel.object_rules import CompiledRule, WorkloadLifecycle, WorkloadRules
from dra.engine.claims.view import WorkloadPhase, WorkloadState
from dra.engine.claims.workload_index import WorkloadKey
from dra.engine.claims.workload_kinds import KINDS_PER_NAMESPACE
from dra.kube.errors import Forbidden
from dra.kube.shared_informers import SharedInformers
from dra.model.claims import ResourceClaim
from dra.model.meta import Uid
from dra.model.references import ConsumerReference
from dra.model.workload_reservations import RESERVED_FOR, RESERVED_FOR_UID
from dra.requests.workload_reader import FORBIDDEN_AFTER, FORBIDDEN_FOR
from tests.controller.cluster import CLAIMS, JOBS, Cluster
from tests.controller.workloads import TRAIN, answer_reads, job, refer, settle
from tests.dra.engine.examples import JOB, NAMESPACE
from tests.dra.engine.examples import JOBS as KIND
from tests.dra.kube.scripted import refusal

DONE = CompiledRule("object.status.conditions.exists(c, c.type == 'Complete' && c.status == 'True')")
RULES = WorkloadRules(finished=DONE, suspended=CompiledRule("object.spec.suspend"))
COMPLETE = {"conditions": [{"type": "Complete", "status": "True"}]}


@pytest.fixture
def cluster():
    return Cluster()


@pytest.fixture
async def workloads(cluster, world, clock, runtime_of):
    """Workloads that are followed from the first claim on; `woken` counts."""
    world.workloads.watched_kinds.exempt(frozenset({KIND}))
    runtime = runtime_of(cluster)
    followed = WorkloadInformers(
        runtime, SharedInformers(runtime.client, clock=clock), cache=world, rules={KIND: RULES}
    )
    followed.start()
    yield followed
    await followed.close()


def watched(cluster):
    return {request.path for request in cluster.requests if request.query.get("watch")}


async def test_a_kind_is_watched_from_the_first_claim_that_refers_to_it(cluster, world, workloads):
    workloads.sync_kinds()
    await settle()
    assert not watched(cluster)
    refer(cluster, world)
    for _ in range(3):
        workloads.sync_kinds()
    await settle()
    assert [r.path for r in cluster.requests if r.query.get("watch")] == [JOBS]
    assert world.workloads.get(TRAIN) == WorkloadState(phase=WorkloadPhase.ABSENT)


async def test_what_the_watch_shows_is_what_the_world_knows(cluster, world, workloads):
    job(cluster, status={})
    refer(cluster, world)
    workloads.sync_kinds()
    await settle()
    assert world.workloads.get(TRAIN) == WorkloadState(phase=WorkloadPhase.PRESENT, uid=JOB.uid)
    job(cluster, status=COMPLETE)
    await settle()
    assert world.workloads.get(TRAIN).phase is WorkloadPhase.FINISHED
    cluster.drop(JOBS, NAMESPACE, "train")
    await settle()
    assert world.workloads.get(TRAIN) == WorkloadState(phase=WorkloadPhase.ABSENT, gone=frozenset({JOB.uid}))


async def test_a_kind_without_a_rule_never_finishes_and_only_its_metadata_are_asked_for(cluster, world, runtime_of):
    runtime = runtime_of(cluster)
    followed = WorkloadInformers(runtime, SharedInformers(runtime.client, clock=runtime.clock), cache=world, rules={})
    job(cluster, status=COMPLETE)
    refer(cluster, world)
    followed.start()
    await settle()
    assert world.workloads.get(TRAIN).phase is WorkloadPhase.PRESENT
    assert all("PartialObjectMetadata" in r.accept for r in cluster.requests if r.path == JOBS)
    await followed.close()


async def test_a_suspended_object_is_known_as_such_until_it_is_resumed_or_has_finished(cluster, world, workloads):
    job(cluster, spec={"suspend": True}, status={})
    refer(cluster, world)
    workloads.sync_kinds()
    await settle()
    assert world.workloads.get(TRAIN) == WorkloadState(phase=WorkloadPhase.PRESENT, uid=JOB.uid, suspended=True)
    job(cluster, spec={"suspend": False}, status={})
    await settle()
    assert not world.workloads.get(TRAIN).suspended
    job(cluster, spec={"suspend": True}, status=COMPLETE)
    await settle()
    assert world.workloads.get(TRAIN) == WorkloadState(phase=WorkloadPhase.FINISHED, uid=JOB.uid)


async def test_another_of_that_name_is_another(cluster, world, workloads):
    job(cluster)
    refer(cluster, world)
    workloads.sync_kinds()
    await settle()
    cluster.drop(JOBS, NAMESPACE, "train")
    job(cluster, uid="second")
    await settle()
    assert world.workloads.get(TRAIN) == WorkloadState(
        phase=WorkloadPhase.PRESENT, uid=Uid("second"), gone=frozenset({JOB.uid})
    )


async def test_a_kind_that_may_not_be_read_is_in_doubt_until_it_may(cluster, world, workloads):
    job(cluster)
    refer(cluster, world)
    cluster.refuse[JOBS] = refusal(403, "Forbidden")
    workloads.sync_kinds()
    await settle(FORBIDDEN_AFTER - 1.0)
    assert world.workloads.get(TRAIN).phase is WorkloadPhase.UNKNOWN
    await settle(FORBIDDEN_AFTER)
    assert world.workloads.get(TRAIN).phase is WorkloadPhase.FORBIDDEN
    cluster.refuse.clear()
    await settle(120.0)
    assert world.workloads.get(TRAIN) == WorkloadState(phase=WorkloadPhase.PRESENT, uid=JOB.uid)


async def test_an_api_server_that_knows_no_rights_yet_makes_nobody_doubt(cluster, world, workloads):
    """It answers 403 for a moment after a restart; an Event about each claim of the cluster would be the price."""
    job(cluster)
    refer(cluster, world)
    workloads.sync_kinds()
    await settle()
    for _ in range(20):
        cluster.refuse[JOBS] = refusal(403, "Forbidden")
        cluster.restore(cluster.objects, cluster.version)  # the watches break
        await settle(FORBIDDEN_AFTER / 2)
        assert world.workloads.get(TRAIN).phase is WorkloadPhase.PRESENT
        cluster.refuse.clear()
        await settle(60.0)
    assert world.workloads.get(TRAIN).phase is WorkloadPhase.PRESENT


async def test_a_kind_that_does_not_exist_is_looked_for_again(cluster, world, workloads):
    reference = ConsumerReference.parse("rayclusters.ray.io/llm", uid=Uid("1"))
    refer(cluster, world, reference)
    workloads.sync_kinds()
    await settle(RETRY[0] * 4)
    assert world.workloads.get(WorkloadKey.from_reference(reference, NAMESPACE)).phase is WorkloadPhase.NO_KIND
    assert [r.path for r in cluster.requests if "ray" in r.path][:1] == ["/apis/ray.io"]


def invent(cluster, world, kinds, *, namespace=lambda number: NAMESPACE):  # noqa: ARG005 - it is a default
    """Let claims name kinds that nobody has."""
    for number in range(kinds):
        annotations = {RESERVED_FOR: f"things.group-{number}.example.com/x", RESERVED_FOR_UID: "1"}
        raw = cluster.put(CLAIMS, namespace(number), f"claim-{number}", metadata={"annotations": annotations})
        world.observe_claim(msgspec.convert(raw, ResourceClaim), now=0.0)


async def test_one_namespace_costs_a_bounded_number_of_looks_however_many_kinds_it_names(cluster, world, workloads):
    invent(cluster, world, 2000)
    workloads.sync_kinds()
    await settle(RETRY[0] - 1.0)
    assert len([r for r in cluster.requests if "example.com" in r.path]) == KINDS_PER_NAMESPACE
    refer(cluster, world)
    workloads.sync_kinds()
    await settle()
    assert world.workloads.get(TRAIN).phase is WorkloadPhase.ABSENT, "kinds with a release rule are exempt"


async def test_first_looks_are_made_a_few_at_a_time(cluster, world, workloads):
    """Many namespaces at once, as after a restart: the server answers slowly, and gets no more at a time for it."""
    under_way, most, answer = 0, 0, cluster.send

    async def slowly(request):
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.5)
        under_way -= 1
        return await answer(request)

    cluster.send = slowly
    invent(cluster, world, 200, namespace=lambda number: f"tenant-{number}")
    workloads.sync_kinds()
    await settle(60.0)
    assert most == PARALLEL_RESOLVES + 1, "the one is a second look: these are made one at a time"


async def test_ten_thousand_invented_kinds_cost_few_requests(cluster, world, workloads):
    invent(cluster, world, 500, namespace=lambda number: f"tenant-{number}")
    workloads.sync_kinds()
    await settle(1.0)
    first = len(cluster.requests)
    await settle(600.0)
    assert (len(cluster.requests) - first) / 600.0 <= 1.0 / RESOLVE_INTERVAL


async def test_a_kind_whose_watch_fails_in_an_unheard_of_way_is_watched_again(cluster, world, workloads, caplog):
    job(cluster, status=COMPLETE)
    refer(cluster, world)
    workloads.reader._rules = {KIND: Unlucky(RULES)}
    workloads.sync_kinds()
    await settle()
    assert world.workloads.get(TRAIN).phase is WorkloadPhase.UNKNOWN
    assert "workloads jobs.batch: watch failed, retrying soon" in caplog.messages
    await settle(2 * RETRY[0])
    assert world.workloads.get(TRAIN).phase is WorkloadPhase.FINISHED


async def test_an_object_that_a_rule_gives_no_answer_for_does_not_end_the_watch_of_its_kind(
    cluster, world, workloads, caplog
):
    refer(cluster, world)
    job(cluster, name="mallory", uid="m", status={"conditions": [{"type": str(n)} for n in range(20_000)]})
    mallory = ConsumerReference.parse("jobs.batch/mallory", uid=Uid("m"))
    annotations = {RESERVED_FOR: "jobs.batch/mallory", RESERVED_FOR_UID: "m"}
    raw = cluster.put(CLAIMS, NAMESPACE, "mallory", metadata={"annotations": annotations})
    world.observe_claim(msgspec.convert(raw, ResourceClaim), now=0.0)
    workloads.sync_kinds()
    await settle()
    job(cluster, status=COMPLETE)
    await settle()
    assert world.workloads.get(TRAIN).phase is WorkloadPhase.FINISHED
    found = world.workloads.get(WorkloadKey.from_reference(mallory, NAMESPACE))
    assert found.phase is WorkloadPhase.PRESENT
    assert "more than 10,000 iterations" in found.rule_error
    assert not caplog.messages


class Unlucky:
    """Rules that fail the first time."""

    def __init__(self, rules):
        self._rules = [rules]

    def evaluate(self, content):
        if len(self._rules) == 1:
            self._rules.append(None)
            raise RuntimeError("once")
        return self._rules[0].evaluate(content)


async def test_a_server_that_is_down_leaves_everything_unknown(cluster, world, workloads):
    async def down(request):
        cluster.requests.append(request)
        return refusal(503, "ServiceUnavailable")

    cluster.send = down
    refer(cluster, world)
    workloads.sync_kinds()
    await settle(RETRY[0] * 4)
    assert world.workloads.get(TRAIN).phase is WorkloadPhase.UNKNOWN
    assert len(cluster.requests) >= 2


async def test_a_kind_that_is_watched_and_may_not_be_read_one_by_one_is_unreadable_for_a_while(
    cluster, world, workloads
):
    refer(cluster, world)
    workloads.sync_kinds()
    await settle()
    answer_reads(cluster, refusal(403, "Forbidden"))
    with pytest.raises(Forbidden):
        await workloads.reader.look_up(JOB, namespace=NAMESPACE)
    await settle(FORBIDDEN_AFTER)
    await workloads.reader.look_up(JOB, namespace=NAMESPACE)
    await settle(FORBIDDEN_FOR - 3.0)
    assert world.workloads.get(TRAIN).phase is WorkloadPhase.FORBIDDEN
    await settle(6.0)
    assert world.workloads.get(TRAIN).phase is WorkloadPhase.ABSENT


def large(conditions=(), **content):
    """Return content of an object that is judged in its turn."""
    return {"status": {"conditions": [*conditions]}, "spec": {"bulk": "x" * (LARGE_OBJECT_BYTES + 1)}, **content}


async def test_a_large_object_is_judged_in_its_turn(cluster, world, workloads):
    job(cluster, **large())
    refer(cluster, world)
    workloads.sync_kinds()
    await settle()
    assert world.workloads.get(TRAIN) == WorkloadState(phase=WorkloadPhase.PRESENT, uid=JOB.uid)
    job(cluster, **large(COMPLETE["conditions"]))
    await settle()
    assert world.workloads.get(TRAIN).phase is WorkloadPhase.FINISHED


async def test_an_object_that_is_too_large_counts_as_unfinished_and_says_so(cluster, world, workloads):
    job(cluster, **large(COMPLETE["conditions"], x=[{}] * 200_000))
    refer(cluster, world)
    workloads.sync_kinds()
    await settle()
    found = world.workloads.get(TRAIN)
    assert found.phase is WorkloadPhase.PRESENT
    assert found.rule_error.startswith("too large to be evaluated: ")


async def test_large_objects_that_are_written_all_the_time_leave_half_of_the_time_to_others(
    cluster, world, workloads, monkeypatch
):
    """Decoding and judging a megabyte take a second; of ten versions a second the newest one counts."""
    loop, gaps = asyncio.get_running_loop(), []

    def evaluate(self, content):
        del self, content
        loop.pass_without_rest(1.0)
        return WorkloadLifecycle()

    monkeypatch.setattr(WorkloadRules, "evaluate", evaluate)

    async def work():
        while True:
            began = loop.time()
            await asyncio.sleep(0.05)
            gaps.append(loop.time() - began)

    refer(cluster, world)
    workloads.sync_kinds()
    await settle()
    working = asyncio.create_task(work())
    for number in range(100):
        job(cluster, "mallory", uid=Uid("uid-m"), **large(number=number))
        await asyncio.sleep(0.1)
    working.cancel()
    assert max(gaps) <= 1.1
    assert sum(gap for gap in gaps if gap > 0.5) <= 0.6 * sum(gaps)


async def test_a_large_object_that_cannot_be_read_is_judged_later(cluster, world, workloads):
    read = ("GET", cluster.path(JOBS, NAMESPACE, "train"))
    cluster.answer[read] = refusal(500)
    job(cluster, **large(COMPLETE["conditions"]))
    refer(cluster, world)
    workloads.sync_kinds()
    await settle()
    assert world.workloads.get(TRAIN).phase is WorkloadPhase.PRESENT
    del cluster.answer[read]
    await settle()
    assert world.workloads.get(TRAIN).phase is WorkloadPhase.FINISHED


async def test_a_large_object_of_a_kind_that_no_claim_refers_to_any_more_is_not_read(cluster, world, workloads):
    path = cluster.path(JOBS, NAMESPACE, "train")
    cluster.answer["GET", path] = refusal(500)
    job(cluster, **large(COMPLETE["conditions"]))
    refer(cluster, world)
    workloads.sync_kinds()
    await settle()
    claim = cluster.objects[cluster.path(CLAIMS, NAMESPACE, "train")]
    world.forget_claim((NAMESPACE, "train"), claim["metadata"]["uid"])
    workloads.sync_kinds()
    await settle()
    before = sum(request.path == path for request in cluster.requests)
    await settle(30.0)
    assert sum(request.path == path for request in cluster.requests) == before > 0


async def test_a_large_object_that_is_gone_when_its_turn_comes_is_gone(cluster, world, workloads):
    job(cluster, **large(COMPLETE["conditions"]))
    refer(cluster, world)
    workloads.sync_kinds()
    cluster.drop(JOBS, NAMESPACE, "train")
    await settle()
    assert world.workloads.get(TRAIN).phase is WorkloadPhase.ABSENT
