"""Questions of plans are answered by live reads, in a loop of its own."""

import asyncio
import contextlib
import dataclasses

import pytest

from controller.claims import WORKERS, Claims
from controller.informers import ControllerInformers
from dra.api.reservations.model import API_VERSION, KIND
from dra.engine.claims import claim_holders
from dra.engine.claims.actions import LookUpNode, LookUpPod, LookUpWorkload
from dra.engine.claims.claim_holders import HolderState
from dra.engine.claims.consumer_entries import LOOKUP_BATCH
from dra.engine.claims.decide import decide
from dra.engine.claims.view import EntryKind
from dra.kube.errors import Unreachable
from tests.controller.claim_writes import ALLOCATION, USES, pod, served, with_an_allocated_claim
from tests.controller.cluster import CLAIMS
from tests.controller.conftest import REPLACE
from tests.dra.engine.examples import JOB, KEY, NAMESPACE, uid
from tests.dra.kube.scripted import client_of, refusal

OF_A, OF_B = (LookUpPod(pod=(NAMESPACE, name), uid=uid(name)) for name in "ab")


@pytest.fixture
def cluster():
    return with_an_allocated_claim()


@contextlib.asynccontextmanager
async def acting(loop):
    """Run a loop."""
    running = asyncio.create_task(loop.run())
    await asyncio.sleep(0.1)
    yield
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@pytest.fixture
async def lookups(cluster, runtime_of, lookups_of):
    """The loop of a leader."""
    loop = lookups_of(runtime_of(cluster))
    async with acting(loop):
        yield loop


@pytest.fixture
def claims_of(world, clock):
    """Makes the loop of claims of a process that has listed everything."""

    def make(runtime, lookups):
        informers = ControllerInformers(runtime.client, clock=clock)
        loop = Claims(runtime, informers, cache=world, lookups=lookups, policy=REPLACE)
        loop._needs = ()
        return loop

    return make


@pytest.fixture
def claims(cluster, runtime_of, lookups, claims_of):
    """The loop of claims of the leader."""
    return claims_of(runtime_of(cluster), lookups)


@pytest.fixture
def answered(lookups):
    """Asks for claims and waits for the answers."""

    async def ask(*questions, claims=(KEY,)):
        for claim in claims:
            lookups.request(questions, claim=claim)
        await asyncio.sleep(20.0)
        assert not lookups.cache

    return ask


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        pytest.param(None, EntryKind.VANISHED, id="gone"),
        pytest.param({"metadata": {"uid": "second"}}, EntryKind.VANISHED, id="another-of-that-name"),
        pytest.param({"spec": {}}, EntryKind.FOREIGN, id="there-and-uses-another-claim"),
        pytest.param({"spec": {}, "status": {"phase": "Failed"}}, EntryKind.FINISHED, id="ended"),
    ],
)
async def test_an_entry_nobody_knows_is_settled_by_a_live_read(cluster, world, answered, content, kind):
    entry = {"resource": "pods", "name": "a", "uid": uid("a")}
    cluster.put(CLAIMS, NAMESPACE, "train", status={"allocation": ALLOCATION, "reservedFor": [entry]})
    served(cluster, world)
    if content is not None:
        pod(cluster, "a", **content)
    await answered(OF_A)
    assert [e.kind for e in world.view(KEY, now=0.0).entries] == [kind]


async def test_a_live_read_of_a_listed_pod_that_looks_gated_shows_that_it_is_bound(cluster, world, answered):
    entry = {"resource": "pods", "name": "a", "uid": uid("a")}
    cluster.put(CLAIMS, NAMESPACE, "train", status={"allocation": ALLOCATION, "reservedFor": [entry]})
    gates = [{"name": "kueue.x-k8s.io/admission"}]
    world.observe_pod(pod(cluster, "a", spec={"resourceClaims": USES, "schedulingGates": gates}), now=0.0)
    view = served(cluster, world)
    assert [e.kind for e in view.entries] == [EntryKind.UNKNOWN]
    pod(cluster, "a", spec={"resourceClaims": USES, "nodeName": "n1"})
    await answered(OF_A)
    assert [e.kind for e in world.view(KEY, now=0.0).entries] == [EntryKind.LIVE]


async def test_a_question_about_a_node_is_handed_on(cluster, world, answered):
    served(cluster, world)
    await answered(LookUpNode(claim=KEY, node="n1"))
    assert not cluster.requests


async def test_a_read_that_fails_settles_nothing_and_is_repeated(cluster, world, lookups, answered):
    served(cluster, world)
    plain, failures = cluster.send, 0

    async def unreachable(_request):
        nonlocal failures
        failures += 1
        raise Unreachable("x", "gone away", outcome_unknown=True)

    cluster.send = unreachable
    lookups.request([OF_A], claim=KEY)
    await asyncio.sleep(1.0)
    assert (failures > 1, len(lookups.cache)) == (True, 1)
    assert not cluster.requests
    cluster.send = plain
    await answered(OF_A)
    assert [request.path for request in cluster.requests] == [f"/api/v1/namespaces/{NAMESPACE}/pods/a"]


async def test_one_read_that_fails_is_repeated_alone(cluster, world, lookups, answered):
    entries = [{"resource": "pods", "name": name, "uid": uid(name)} for name in "ab"]
    cluster.put(CLAIMS, NAMESPACE, "train", status={"allocation": ALLOCATION, "reservedFor": entries})
    served(cluster, world)
    path_of_a = f"/api/v1/namespaces/{NAMESPACE}/pods/a"
    cluster.answer["GET", path_of_a] = refusal(500)
    lookups.request([OF_A, OF_B], claim=KEY)
    await asyncio.sleep(0.1)
    assert [entry.kind for entry in world.view(KEY, now=0.0).entries] == [EntryKind.UNKNOWN, EntryKind.VANISHED]
    cluster.answer.clear()
    await answered(OF_A)
    assert [entry.kind for entry in world.view(KEY, now=0.0).entries] == [EntryKind.VANISHED, EntryKind.VANISHED]
    assert [request.path.rpartition("/")[2] for request in cluster.requests] == ["a", "b", "a"]


async def test_what_a_claim_asks_is_answered_together_so_that_its_list_is_written_once(
    cluster, world, runtime_of, lookups_of, claims_of
):
    runtime = dataclasses.replace(runtime_of(cluster), client=client_of(cluster, qps=10.0, burst=1.0))
    entries = [{"resource": "pods", "name": name, "uid": uid(name)} for name in "abcdef"]
    cluster.put(CLAIMS, NAMESPACE, "train", status={"allocation": ALLOCATION, "reservedFor": entries})
    served(cluster, world)
    loop = lookups_of(runtime)
    claims = claims_of(runtime, loop)
    async with acting(loop), acting(claims):
        while loop.cache or claims.cache.dirty:
            await asyncio.sleep(0.01)
            claims.enqueue_dirty()  # events of other objects come all the time
        await asyncio.sleep(300.0)
        claims.enqueue_dirty()
        await asyncio.sleep(60.0)
    assert not world.claim(KEY).status.allocation
    assert [request.method for request in cluster.requests].count("PATCH") == 1


async def test_a_read_that_is_refused_is_repeated_only_as_long_as_a_decision_asks_for_it(cluster, lookups):
    cluster.answer["GET"] = refusal(403, "Forbidden")
    lookups.request([OF_A, OF_B], claim=KEY)
    await asyncio.sleep(60.0)
    lookups.request([OF_B], claim=KEY)
    await asyncio.sleep(60.0)
    before = [request.path for request in cluster.requests].count(f"/api/v1/namespaces/{NAMESPACE}/pods/a")
    lookups.request([OF_B], claim=KEY)
    await asyncio.sleep(60.0)
    asked = [request.path for request in cluster.requests]
    assert asked.count(f"/api/v1/namespaces/{NAMESPACE}/pods/a") == before
    assert asked[-5:] == 5 * [f"/api/v1/namespaces/{NAMESPACE}/pods/b"]
    assert lookups.cache.questions(KEY) == (OF_B,)


async def test_lists_that_others_write_leave_no_questions_behind(cluster, world, lookups, claims):
    cluster.answer["GET"] = refusal(403, "Forbidden")
    async with acting(claims):
        for version in range(8):
            entries = [{"resource": "pods", "name": f"{version}-{n}", "uid": uid(f"{version}-{n}")} for n in range(64)]
            cluster.put(CLAIMS, NAMESPACE, "train", status={"allocation": ALLOCATION, "reservedFor": entries})
            view = served(cluster, world)
            claims.enqueue_dirty()
            await asyncio.sleep(1.0)
        assert len(lookups.cache.questions(KEY)) == LOOKUP_BATCH
        world.forget_claim(KEY, view.claim.metadata.uid)
        claims.enqueue_dirty()
        await asyncio.sleep(1.0)
        assert not lookups.cache


async def test_what_was_asked_before_the_loop_began_is_answered(cluster, world, runtime_of, lookups_of):
    served(cluster, world)
    loop = lookups_of(runtime_of(cluster))
    loop.request([OF_A], claim=KEY)
    async with acting(loop):
        assert (len(loop.cache), len(cluster.requests)) == (0, 1)


async def test_the_same_question_is_asked_once_at_a_time(cluster, world, answered):
    served(cluster, world)
    questions = OF_A, LookUpWorkload(claim=KEY, reference=JOB)
    await answered(*questions, claims=5 * [KEY])
    asked = [request.path for request in cluster.requests]
    assert len(asked) == len(set(asked))


async def test_each_claim_gets_its_answer_about_a_pod_that_several_list(cluster, world, answered):
    entry = {"resource": "pods", "name": "a", "uid": uid("a")}
    for name in ("train", "eval"):
        cluster.put(CLAIMS, NAMESPACE, name, status={"allocation": ALLOCATION, "reservedFor": [entry]})
    keys = [served(cluster, world, name).key for name in ("train", "eval")]
    await answered(OF_A, claims=keys)
    kinds = [world.view(key, now=0.0).entries[0].kind for key in keys]
    assert kinds == [EntryKind.VANISHED, EntryKind.VANISHED]


async def test_no_pod_waits_for_the_live_reads_of_other_claims(
    cluster, world, runtime_of, lookups_of, claims_of, clock
):
    """A controller takes over; more claims than it has workers list pods that ended meanwhile."""
    runtime = dataclasses.replace(runtime_of(cluster), client=client_of(cluster, qps=200.0, burst=20.0))
    for number in range(4 * WORKERS):
        entry = {"resource": "pods", "name": f"p{number}", "uid": uid(f"p{number}")}
        cluster.put(CLAIMS, NAMESPACE, f"c{number}", status={"allocation": ALLOCATION, "reservedFor": [entry]})
        served(cluster, world, f"c{number}")
    served(cluster, world)
    loop = lookups_of(runtime)
    claims = claims_of(runtime, loop)
    async with acting(loop), acting(claims):
        world.observe_pod(pod(cluster, "new", spec={"resourceClaims": USES, "nodeName": "n1"}), now=clock.now())
        claims.enqueue_dirty()
        await asyncio.sleep(0.5)
        assert [request.path for request in cluster.requests if request.method == "PATCH"][:1] == [
            f"/apis/resource.k8s.io/v1/namespaces/{NAMESPACE}/resourceclaims/train/status"
        ]
        assert len(loop.cache) > WORKERS


RESERVATIONS = "/apis/scheduling.koordinator.sh/v1alpha1/reservations"
HELD_FOR = claim_holders.reserved_for_entry("r", uid("r"))
HELD_FOR_ENTRY = {"apiGroup": HELD_FOR.api_group, "resource": HELD_FOR.resource, "name": "r", "uid": uid("r")}


def owner_reference(name):
    return {"apiVersion": API_VERSION, "kind": KIND, "name": name, "uid": uid("r")}


@pytest.mark.parametrize(
    ("there", "standing"),
    [
        pytest.param(None, HolderState.OVER, id="gone"),
        pytest.param({"uid": uid("another")}, HolderState.OVER, id="another-of-its-name"),
        pytest.param({"uid": uid("r")}, HolderState.UNKNOWN, id="there-the-watch-will-show-it"),
    ],
)
async def test_whether_a_reservation_is_gone_a_live_read_tells(cluster, world, answered, there, standing):
    if there is not None:
        cluster.put(RESERVATIONS, "", "r", metadata=there)
    served(cluster, world)
    await answered(LookUpWorkload(claim=KEY, reference=HELD_FOR))
    assert world.holders.state("r", uid("r")) is standing


async def test_no_claim_ends_the_reservation_of_others_by_its_uid_and_another_name(cluster, world, answered):
    """Right after a start, before reservations are listed; anybody may write an owner reference."""
    world.watch_reservations()
    cluster.put(RESERVATIONS, "", "r", metadata={"uid": uid("r")})
    status = {"allocation": ALLOCATION, "reservedFor": [HELD_FOR_ENTRY]}
    cluster.put(CLAIMS, NAMESPACE, "train", status=status, metadata={"ownerReferences": [owner_reference("r")]})
    cluster.put(CLAIMS, NAMESPACE, "forged", status={}, metadata={"ownerReferences": [owner_reference("bogus")]})
    served(cluster, world)
    forged = decide(served(cluster, world, "forged"), policy=REPLACE, now=0.0)
    await answered(*forged.actions, claims=[(NAMESPACE, "forged")])
    held = decide(world.view(KEY, now=0.0), policy=REPLACE, now=0.0)
    assert held.actions == (LookUpWorkload(claim=KEY, reference=HELD_FOR),)


async def test_a_kind_that_is_not_served_just_now_tells_nothing(cluster, world, answered):
    served(cluster, world)
    cluster.answer["GET", f"{RESERVATIONS}/r"] = refusal(404, "NotFound", "the server could not find the resource")
    await answered(LookUpWorkload(claim=KEY, reference=HELD_FOR))
    assert world.holders.state("r", uid("r")) is HolderState.UNKNOWN
