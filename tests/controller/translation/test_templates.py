"""The loop of templates before an API server: what is written, in which order, and after which failures again."""

import asyncio
import contextlib
import json
from datetime import timedelta

import msgspec
import pytest

from controller.claim_event_handlers import ClaimEventHandlers
from controller.informers import ControllerInformers
from controller.translation.templates import Templates
from dra.api.koordinator import well_known
from dra.engine.claims.codes import Code
from dra.engine.translation.template_index import REMAKE_INTERVAL
from dra.engine.translation.template_plan import KEPT_UNUSED
from dra.kube.transport import Response
from tests.controller.cluster import CLAIMS, PODS, SLICES, TEMPLATES, Cluster
from tests.controller.recorded_reasons import RecordedReasons, RecordingClaimEvents
from tests.dra.engine.translation.cluster_objects import BYTES, HALF, LABELS, NAMESPACE, claim, devices, pod
from tests.dra.kube.scripted import ok, refusal

OBJECT = Cluster.path(TEMPLATES, NAMESPACE, HALF)
COLLECTION = OBJECT.rpartition("/")[0]


class Server(Cluster):
    """Stores created templates, and deletes templates and claims at once."""

    def _post(self, request):
        body = json.loads(request.body)
        name = body["metadata"].pop("name")
        if f"{request.path}/{name}" in self.objects:
            return refusal(409, "AlreadyExists")
        metadata = {**body["metadata"], "uid": f"uid-{name}-{self.version}"}
        return Response(
            201, {}, json.dumps(self.put(TEMPLATES, NAMESPACE, name, **{**body, "metadata": metadata})).encode()
        )

    def _delete(self, request):
        answer = super()._delete(request)
        if answer.status == 200:
            plural = request.path.split("/")[-2]
            self.drop({"resourceclaimtemplates": TEMPLATES}.get(plural, CLAIMS), NAMESPACE, request.path.split("/")[-1])
        return answer

    def offer(self, *sizes, name="n1"):
        """Publish cards of these sizes."""
        offered = [
            {"name": f"gpu-{index}", "allowMultipleAllocations": True, "capacity": {"memory": {"value": size}}}
            for index, size in enumerate(sizes)
        ]
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        self.put(SLICES, "", name, spec={"driver": well_known.GPU_DRIVER, "pool": pool, "devices": offered})

    def run_pod(self, name="p", *templates, **fields):
        """Create a pod that names templates."""
        found = msgspec.to_builtins(pod(name, *templates, **fields))
        self.put(PODS, NAMESPACE, name, spec=found["spec"], status=found.get("status", {}))

    def writes_of_templates(self):
        return [
            each.method for each in self.requests if each.method != "GET" and "/resourceclaimtemplates" in each.path
        ]

    @property
    def template(self):
        return self.objects.get(OBJECT)

    @property
    def alternatives(self):
        (request,) = self.template["spec"]["spec"]["devices"]["requests"]
        return [each["name"] for each in request["firstAvailable"]]


@pytest.fixture
def cluster():
    return Server()


@pytest.fixture
def running(cluster, world, runtime_of, metrics, clock):
    """Runs the loop of a leader, with the informers that feed it; yields the reasons about pods."""

    @contextlib.asynccontextmanager
    async def run(*, replace=True, pods_known=True):
        recorded, runtime = RecordedReasons(), runtime_of(cluster)
        informers = ControllerInformers(runtime.client, clock=clock, generates_claims=replace)
        ClaimEventHandlers(world, informers, clock=clock)
        loop = Templates(runtime, informers, events=RecordingClaimEvents(recorded, metrics), generates_claims=replace)
        if not pods_known:
            informers.pods.staleness = lambda: "no event"
        tasks = [asyncio.create_task(informers.run())]
        await informers.wait_for_sync()
        tasks.append(asyncio.create_task(loop.run()))
        await asyncio.sleep(0.1)
        try:
            yield recorded
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    return run


def stored(cluster, *sizes, name=HALF, **metadata):
    cluster.put(
        TEMPLATES, NAMESPACE, name, metadata={"labels": LABELS, **metadata}, spec={"spec": devices(name, *sizes)}
    )


async def test_a_refused_template_is_not_requested_again_with_each_pod_that_names_it(cluster, running):
    cluster.offer("16Gi")
    cluster.answer["POST"] = refusal(403, "Forbidden", "exceeded quota: templates")
    async with running() as recorded:
        for number in range(100):
            cluster.run_pod(f"p{number}")
            await asyncio.sleep(0.1)
        assert 3 <= len(cluster.writes_of_templates()) <= 7
        await asyncio.sleep(30.0)
        assert len({each.subject.uid for each in recorded.reasons}) == 100, "each pod is told"


@pytest.mark.parametrize("replace", [True, False], ids=["replace", "alongside"])
async def test_the_template_of_a_pod_is_made_within_a_tenth_of_a_second(cluster, running, replace):
    cluster.offer("16Gi", "80Gi")
    async with running(replace=replace) as recorded:
        cluster.run_pod()
        await asyncio.sleep(0.1)
        assert cluster.template["metadata"]["labels"] == LABELS
        assert cluster.alternatives == ["m16384", "m81920"]
        cluster.run_pod("another")
        await asyncio.sleep(REMAKE_INTERVAL)
        assert (cluster.writes_of_templates(), recorded.codes) == (["POST"], [])


async def test_what_a_pod_named_before_the_start_is_made(cluster, running):
    cluster.run_pod("p", BYTES)
    async with running():
        assert cluster.path(TEMPLATES, NAMESPACE, BYTES) in cluster.objects


async def test_a_ratio_is_made_when_the_first_card_is_published(cluster, running):
    cluster.run_pod()
    async with running() as recorded:
        assert (cluster.template, recorded.codes) == (None, [Code.WAITS_FOR_CARDS])
        cluster.offer("16Gi")
        await asyncio.sleep(0.1)
        assert cluster.alternatives == ["m16384"]


async def test_a_foreign_template_stays_and_each_pod_is_told_once(cluster, running):
    stored(cluster, labels=None)
    cluster.run_pod("a")
    async with running() as recorded:
        cluster.run_pod("b")
        await asyncio.sleep(1.0)
        cluster.run_pod("b", claims=True)
        await asyncio.sleep(1.0)
        cluster.run_pod("b", claims=True, node="n")
        await asyncio.sleep(1.0)
        assert cluster.writes_of_templates() == []
        assert [str(each.subject) for each in recorded.reasons] == ["pod ml/a", "pod ml/b"]


async def test_a_template_is_deleted_an_hour_after_its_last_pod(cluster, running, clock):
    cluster.offer("16Gi")
    cluster.run_pod()
    async with running():
        cluster.drop(PODS, NAMESPACE, "p")
        await asyncio.sleep(0.1)
        since = cluster.template["metadata"]["annotations"][well_known.ANNOTATION_UNUSED_SINCE]
        assert since == clock.wall().strftime("%Y-%m-%dT%H:%M:%SZ")
        await asyncio.sleep(KEPT_UNUSED.total_seconds() - 5)
        assert cluster.template is not None
        await asyncio.sleep(10)
        assert cluster.template is None
        await asyncio.sleep(1000)
        assert cluster.writes_of_templates() == ["POST", "PATCH", "DELETE"]


async def test_a_restart_forgets_nothing(cluster, running, clock):
    since = clock.wall() - KEPT_UNUSED + timedelta(seconds=30)
    stored(cluster, annotations={well_known.ANNOTATION_UNUSED_SINCE: since.isoformat()})
    async with running():
        await asyncio.sleep(29)
        assert cluster.template is not None
        await asyncio.sleep(3)
        assert cluster.template is None


async def test_a_template_that_is_named_again_is_not_deleted(cluster, running, clock):
    stored(cluster, annotations={well_known.ANNOTATION_UNUSED_SINCE: (clock.wall() - KEPT_UNUSED).isoformat()})
    cluster.run_pod()
    async with running():
        await asyncio.sleep(2 * KEPT_UNUSED.total_seconds())
        assert cluster.template["metadata"]["annotations"] == {}


async def test_nothing_is_deleted_while_pods_are_not_known(cluster, running, clock):
    stored(cluster, annotations={well_known.ANNOTATION_UNUSED_SINCE: (clock.wall() - KEPT_UNUSED).isoformat()})
    async with running(pods_known=False):
        await asyncio.sleep(1000)
        assert cluster.writes_of_templates() == []


@pytest.mark.parametrize("replace", [True, False], ids=["replace", "alongside"])
async def test_a_new_card_size_makes_the_template_anew(cluster, running, replace):
    cluster.offer("16Gi")
    cluster.run_pod("p", claims=True)
    cluster.put(CLAIMS, NAMESPACE, "p-0", **_of_a_claim())
    async with running(replace=replace) as recorded:
        cluster.offer("80Gi", name="n2")
        await asyncio.sleep(0.2)
        assert cluster.alternatives == ["m16384", "m81920"]
        assert (cluster.path(CLAIMS, NAMESPACE, "p-0") in cluster.objects) is not replace
        assert recorded.codes == [Code.CLAIM_RENEWED if replace else Code.CLAIM_LACKS_CARD_SIZES]


def _of_a_claim():
    found = msgspec.to_builtins(claim())
    return {"metadata": {"ownerReferences": found["metadata"]["ownerReferences"]}, "spec": found["spec"]}


async def test_sizes_that_come_one_after_the_other_make_few_templates(cluster, running):
    cluster.run_pod()
    async with running():
        for number in range(1, 8):
            cluster.offer(f"{number}0Gi", name=f"n{number}")
            await asyncio.sleep(0.5)
        await asyncio.sleep(REMAKE_INTERVAL)
        assert len(cluster.alternatives) == 7
        assert cluster.writes_of_templates() == ["POST", *["DELETE", "POST"] * 2]


async def test_a_refusal_is_told_and_tried_again(cluster, running):
    cluster.answer["POST"] = refusal(403, "Forbidden")
    cluster.run_pod("p", BYTES)
    async with running() as recorded:
        assert recorded.codes == [Code.TEMPLATE_FAILED]
        del cluster.answer["POST"]
        await asyncio.sleep(2.0)
        assert cluster.path(TEMPLATES, NAMESPACE, BYTES) in cluster.objects


async def test_a_template_that_somebody_else_has_just_made_is_no_failure(cluster, running):
    cluster.answer["POST"] = refusal(409, "AlreadyExists")
    cluster.run_pod("p", BYTES)
    async with running() as recorded:
        await asyncio.sleep(3.0)
        assert recorded.codes == []
        assert len(cluster.writes_of_templates()) <= 4


async def test_an_unreadable_answer_is_no_creation(cluster, running):
    cluster.answer["POST", COLLECTION] = ok([])
    cluster.run_pod("p", BYTES)
    async with running():
        del cluster.answer["POST", COLLECTION]
        await asyncio.sleep(2.0)
        assert cluster.path(TEMPLATES, NAMESPACE, BYTES) in cluster.objects


async def test_a_claim_that_has_been_allocated_stays(cluster, running):
    cluster.offer("16Gi", "80Gi")
    cluster.run_pod("p", claims=True)
    stored(cluster, 16 * 2**30, 80 * 2**30)
    cluster.put(CLAIMS, NAMESPACE, "p-0", **_of_a_claim())
    path = cluster.path(CLAIMS, NAMESPACE, "p-0")
    cluster.answer["DELETE", path] = refusal(409, "Conflict")
    async with running() as recorded:
        assert path in cluster.objects
        assert recorded.codes == []
