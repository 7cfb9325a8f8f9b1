import asyncio
from datetime import timedelta

import msgspec
import pytest

from controller.eviction import Evictions
from controller.informers import ControllerInformers
from dra.engine.claims.codes import Code
from dra.engine.claims.policy import REPLACE
from dra.engine.instants import NEVER
from dra.model.claims import ResourceClaim
from dra.model.pods import Pod
from dra.model.slices import ResourceSliceTaints
from dra.model.taints import DeviceTaintRule
from dra.requests.leadership import Leadership
from tests.controller.cluster import CLAIMS, PODS, Cluster
from tests.controller.recorded_reasons import RecordedReasons, RecordingClaimEvents
from tests.dra.engine.examples import KEY, NAMESPACE, uid
from tests.dra.kube.scripted import refusal
from tests.dra.kube.virtual import NOON

USES = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "train"}], "nodeName": "n1"}
RUNNING = {"phase": "Running", "conditions": [{"type": "PodScheduled", "status": "True"}]}
WAITS = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30}


class Expiring(Leadership):
    """A lease that ends in a second."""

    def write_until(self):
        return asyncio.get_running_loop().time() + 1.0


@pytest.fixture
def cluster():
    return Cluster()


@pytest.fixture
def recorded():
    return RecordedReasons()


@pytest.fixture
def evictor_of(cluster, world, clock, metrics, recorded, runtime_of):
    def make(*, policy=REPLACE, leadership=None):
        runtime = runtime_of(cluster, leadership)
        informers = ControllerInformers(runtime.client, clock=clock)
        return Evictions(runtime, informers, cache=world, events=RecordingClaimEvents(recorded, metrics), policy=policy)

    return make


async def evict(evictions):
    """Have the evictions of the claim decided, as its loop does."""
    return await evictions.reconcile(KEY, evictions._runtime.moment())


def allocate(cluster, world, *tolerations):
    result = {"driver": "d", "pool": "p", "device": "gpu-0", "tolerations": list(tolerations)}
    raw = cluster.put(CLAIMS, NAMESPACE, "train", status={"allocation": {"devices": {"results": [result]}}})
    world.observe_claim(msgspec.convert(raw, ResourceClaim), now=0.0)


def run(cluster, world, *names, **content):
    for name in names:
        raw = cluster.put(PODS, NAMESPACE, name, **{"spec": USES, "status": RUNNING, **content})
        world.observe_pod(msgspec.convert(raw, Pod), now=0.0)


def put_taint(world, *, at=NOON):
    taint = {"key": "sick", "effect": "NoExecute", "timeAdded": at.isoformat()}
    spec = {"driver": "d", "pool": {"name": "p", "generation": 1}, "devices": [{"name": "gpu-0", "taints": [taint]}]}
    world.taints.observe_slice(msgspec.convert({"metadata": {"name": "s"}, "spec": spec}, ResourceSliceTaints))
    world.taints.slices_known()


def steps(cluster, name):
    """What was done to a pod, in order."""
    path = cluster.path(PODS, NAMESPACE, name)
    return [r.method for r in cluster.requests if r.path.removesuffix("/status") == path]


def state(cluster, name):
    return cluster.objects[cluster.path(PODS, NAMESPACE, name)]


async def test_a_pod_is_looked_at_then_marked_then_deleted_and_told_why(cluster, world, evictor_of, recorded, metrics):
    allocate(cluster, world)
    run(cluster, world, "a")
    put_taint(world)
    assert await evict(evictor_of()) == NEVER
    assert steps(cluster, "a") == ["GET", "PATCH", "DELETE"]
    marked, scheduled = state(cluster, "a")["status"]["conditions"]
    assert marked == {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "DeletionByDeviceTaintManager",
        "message": "Device Taint manager: deleting due to NoExecute taint",
        "lastTransitionTime": "2026-11-20T12:00:00Z",
    }
    assert scheduled == RUNNING["conditions"][0]
    assert "deletionTimestamp" in state(cluster, "a")["metadata"]
    assert [(r.code, r.subject.uid) for r in recorded.reasons] == [(Code.EVICTED, uid("a"))]
    assert b'dra_reserve_pods_evicted_total{source="slice"} 1.0' in metrics.render()
    assert b'dra_reserve_pods_evicted_total{source="rule"} 0.0' in metrics.render()


async def test_a_pod_is_evicted_once_however_late_the_watch_is(cluster, world, evictor_of, recorded):
    allocate(cluster, world)
    run(cluster, world, "a")
    put_taint(world)
    evictor = evictor_of()
    for _ in range(3):
        await evict(evictor)
    assert steps(cluster, "a") == ["GET", "PATCH", "DELETE", "GET"]
    assert len(recorded.reasons) == 1


async def test_a_rule_is_counted_as_such(cluster, world, evictor_of, metrics):
    allocate(cluster, world)
    run(cluster, world, "a")
    taint = {"key": "sick", "effect": "NoExecute", "timeAdded": NOON.isoformat()}
    rule = {"metadata": {"name": "r"}, "spec": {"deviceSelector": {}, "taint": taint}}
    world.taints.observe_rule(msgspec.convert(rule, DeviceTaintRule))
    world.taints.slices_known()
    await evict(evictor_of())
    assert b'dra_reserve_pods_evicted_total{source="rule"} 1.0' in metrics.render()


async def test_nothing_is_asked_about_a_claim_without_tainted_devices(cluster, world, evictor_of):
    allocate(cluster, world)
    run(cluster, world, "a")
    assert await evict(evictor_of()) == NEVER
    evictor = evictor_of()
    assert await evictor.reconcile((NAMESPACE, "unknown"), evictor._runtime.moment()) == NEVER
    assert cluster.requests == []


async def test_a_deadline_is_one_of_the_time_of_day(cluster, world, evictor_of, clock):
    allocate(cluster, world, WAITS)
    run(cluster, world, "a")
    put_taint(world, at=NOON - timedelta(seconds=20))
    evictor = evictor_of()
    assert await evict(evictor) == pytest.approx(10.0)
    await asyncio.sleep(10.0)
    await evict(evictor)
    assert steps(cluster, "a") == ["GET", "PATCH", "DELETE"]
    assert clock.now() == pytest.approx(10.0)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param({"status": {"phase": "Succeeded"}}, id="finished"),
        pytest.param({"metadata": {"deletionTimestamp": "2026-11-20T12:00:00Z"}}, id="being-deleted"),
        pytest.param({"metadata": {"uid": "another"}}, id="replaced"),
        pytest.param(None, id="gone"),
    ],
)
async def test_a_pod_that_is_not_what_the_watch_says_is_left_alone(cluster, world, evictor_of, recorded, content):
    allocate(cluster, world)
    run(cluster, world, "a")
    put_taint(world)
    if content is None:
        cluster.drop(PODS, NAMESPACE, "a")
    else:
        cluster.put(PODS, NAMESPACE, "a", **{"spec": USES, **content})
    evictor = evictor_of()
    assert await evict(evictor) == NEVER
    assert steps(cluster, "a") == ["GET"]
    assert recorded.reasons == []


@pytest.mark.parametrize("writes", [1, 2], ids=["before-it-is-marked", "before-it-is-deleted"])
async def test_another_pod_of_that_name_is_not_harmed(cluster, world, evictor_of, recorded, writes):
    allocate(cluster, world)
    run(cluster, world, "a")
    put_taint(world)
    path = cluster.path(PODS, NAMESPACE, "a")

    def replace():
        cluster.put(PODS, NAMESPACE, "a", metadata={"uid": "another"}, spec=USES)

    def replace_next():
        cluster.disturb[path] = replace

    cluster.disturb[path] = replace if writes == 1 else replace_next
    assert await evict(evictor_of()) == NEVER
    assert "deletionTimestamp" not in state(cluster, "a")["metadata"]
    assert recorded.reasons == []


async def test_a_pod_that_is_marked_already_keeps_its_mark(cluster, world, evictor_of):
    allocate(cluster, world)
    mark = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByDeviceTaintManager"}
    run(cluster, world, "a", status={"phase": "Running", "conditions": [mark]})
    put_taint(world)
    await evict(evictor_of())
    assert steps(cluster, "a") == ["GET", "DELETE"]


async def test_who_may_not_evict_tries_again_ever_more_slowly(cluster, world, evictor_of, clock, recorded, caplog):
    allocate(cluster, world)
    run(cluster, world, "a", "b")
    put_taint(world)
    evictor = evictor_of()
    refused = refusal(403, "Forbidden", "pods is forbidden")
    cluster.answer = {"DELETE": refused}
    pauses = []
    for _ in range(9):
        due = await evict(evictor)
        requests = len(cluster.requests)
        assert [await evict(evictor) for _ in range(3)] == [due] * 3, "events of the claim do not hurry it"
        assert len(cluster.requests) == requests
        pauses.append(due - clock.now())
        await asyncio.sleep(pauses[-1])
    assert pauses[0] <= 0.5
    assert 30.0 <= pauses[-1] <= 60.0
    assert steps(cluster, "b")[:3] == ["GET", "PATCH", "DELETE"]  # the failure of one is not that of another
    assert recorded.reasons == []
    assert "claim ml/train: not all pods evicted, retrying in " in caplog.text

    cluster.answer = {}
    assert await evict(evictor) == NEVER
    cluster.answer = {"DELETE": refused}
    run(cluster, world, "c")
    assert await evict(evictor) - clock.now() <= 0.5
    cluster.answer = {}
    run(cluster, world, "d")
    await evict(evictor)
    assert steps(cluster, "d") == ["GET", "PATCH", "DELETE"], "another pod of the claim need not wait for it"
    assert steps(cluster, "c") == ["GET", "PATCH", "DELETE"]


async def test_a_refused_eviction_is_no_failure_to_decide(cluster, world, evictor_of, clock, metrics, caplog):
    allocate(cluster, world)
    run(cluster, world, "a", "b")
    put_taint(world)
    of_a = ("DELETE", cluster.path(PODS, NAMESPACE, "a"))
    cluster.answer = {of_a: refusal(403, "Forbidden", "pods is forbidden")}
    assert await evict(evictor_of()) > clock.now()
    assert "deletionTimestamp" in state(cluster, "b")["metadata"]
    assert "claim ml/train: not all pods evicted, retrying in " in caplog.text
    assert b"dra_reserve_decision_failures_total 0.0" in metrics.render()


async def test_nothing_is_kept_for_a_claim_that_is_gone_before_the_retry(cluster, world, evictor_of):
    allocate(cluster, world)
    run(cluster, world, "a")
    put_taint(world)
    cluster.answer = {"DELETE": refusal(403, "Forbidden", "pods is forbidden")}
    evictor = evictor_of()
    await evict(evictor)
    world.forget_claim(KEY, world.claim(KEY).metadata.uid)
    assert await evict(evictor) == NEVER
    assert not world.evictions.mark_reconciled(KEY)


async def test_writes_end_before_the_lease_does(cluster, world, evictor_of):
    allocate(cluster, world)
    run(cluster, world, "a")
    put_taint(world)
    await evict(evictor_of(leadership=Expiring()))
    writes = [request for request in cluster.requests if request.method in {"PATCH", "DELETE"}]
    assert writes
    assert all(request.timeout <= 1.0 for request in writes)


async def test_it_may_be_switched_off(cluster, world, evictor_of):
    allocate(cluster, world)
    run(cluster, world, "a")
    put_taint(world)
    assert await evict(evictor_of(policy=msgspec.structs.replace(REPLACE, evict=False))) == NEVER
    assert cluster.requests == []
