"""The annotations that report a pod's devices and CPUs: when they are written, and on which pods."""

import asyncio
import contextlib
import json

import msgspec
import pytest

from controller.informers import ControllerInformers
from controller.pod_reports import PodReports
from dra.kube.errors import Unreachable
from dra.kube.transport import MERGE_PATCH
from localplane.server import ApiServer
from localplane.transport import LocalTransport
from tests.dra.engine.pod_reports.slices import SMALL, gpu, resource_slice
from tests.dra.kube.virtual import seeded
from tests.localplane.components import User

DEVICES, CPUS = (f"scheduling.koordinator.sh/{each}" for each in ("device-allocated", "resource-status"))
ENABLED = {"reserve.dra/koordinator": "enabled"}
HALF = {
    "gpu": [
        {
            "minor": 0,
            "resources": {
                "koordinator.sh/gpu-core": "50",
                "koordinator.sh/gpu-memory": "8Gi",
                "koordinator.sh/gpu-memory-ratio": "50",
            },
            "id": "GPU-n0-0",
        }
    ]
}
RESULT = {
    "request": "gpu",
    "driver": "gpu.reserve.dra",
    "pool": "n0",
    "device": "gpu-0",
    "shareID": "0b45d1b5-3b2c-4d6f-8d4e-5a9c6f1f2a3b",
    "consumedCapacity": {"memory": "8Gi", "core": "50"},
}
CPU_RESULT = {"request": "gpu", "driver": "cpu.reserve.dra", "pool": "n0", "device": "cpus"}
SOON = 1.0


class Place:
    """An API server with a namespace, a reporter, and the informers that feed the reporter."""

    def __init__(self, runtime_of, clock):
        self.user = User(ApiServer(clock=clock, random=seeded(1)))
        self.sent = []
        self.refuse = False
        self.transport = LocalTransport(self.user.server)
        runtime = runtime_of(self)
        self.watches = ControllerInformers(runtime.client, clock=clock)
        self.reporter = PodReports(runtime, self.watches)

    async def send(self, request):
        if request.method == "PATCH":
            if self.refuse:
                raise Unreachable(request.path, "connection refused", outcome_unknown=False)
            self.sent.append(request.path)
        return await self.transport.send(request)

    def stream(self, request):
        return self.transport.stream(request)

    async def namespace(self, labels=ENABLED):
        await self.user.create("namespaces", {"metadata": {"name": "ml", "labels": labels}})

    async def label(self, labels):
        body = {"metadata": {"labels": labels}}
        await self.user.request("PATCH", "/api/v1/namespaces/ml", body=body, content_type=MERGE_PATCH)

    async def publish(self):
        body = msgspec.to_builtins(resource_slice("n0", gpu(0, SMALL)))
        body["spec"]["pool"] |= {"generation": 1, "resourceSliceCount": 1}
        await self.user.create("resourceslices", {"metadata": body["metadata"], "spec": body["spec"]})

    async def claim(self, name="c", results=(RESULT,), devices=()):
        request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.reserve.dra"}}
        await self.user.create(
            "resourceclaims", {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}}, namespace="ml"
        )
        status = {"allocation": {"devices": {"results": list(results)}}}
        if devices:
            status["devices"] = list(devices)
        await self.user.patch("resourceclaims", name, {"status": status}, namespace="ml", subresource="status")

    async def pod(self, *, node="n0", annotations=None):
        body = {
            "metadata": {"name": "p", "annotations": annotations or {}},
            "spec": {
                "nodeName": node,
                "containers": [{"name": "main", "image": "x"}],
                "resourceClaims": [{"name": "gpu", "resourceClaimName": "c"}],
            },
        }
        await self.user.create("pods", body, namespace="ml")

    async def reports(self):
        await asyncio.sleep(SOON)
        found = await self.user.get("pods", "p", namespace="ml")
        annotations = found["metadata"].get("annotations", {})
        return {key: json.loads(annotations[key]) for key in (DEVICES, CPUS) if key in annotations}


@pytest.fixture
async def place(runtime_of, clock):
    return Place(runtime_of, clock)


@contextlib.asynccontextmanager
async def reporting(place):
    parts = (place.watches.run, place.reporter.run)
    tasks = [asyncio.create_task(part()) for part in parts]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_bound_pod_is_told_what_its_claim_was_given(place):
    await place.namespace()
    await place.publish()
    await place.claim()
    await place.pod(annotations={"other": "x"})
    async with reporting(place):
        assert await place.reports() == {DEVICES: HALF}
        assert (await place.user.get("pods", "p", namespace="ml"))["metadata"]["annotations"]["other"] == "x"
        await place.reports()
        assert len(place.sent) == 1


async def test_cpus_are_reported_when_the_driver_has_chosen(place):
    await place.namespace()
    await place.claim(results=[CPU_RESULT])
    await place.pod()
    async with reporting(place):
        assert await place.reports() == {}
        device = {"driver": "cpu.reserve.dra", "pool": "n0", "device": "cpus", "data": {"cpuset": "0-3"}}
        status = {"status": {"devices": [device]}}
        await place.user.patch("resourceclaims", "c", status, namespace="ml", subresource="status")
        assert await place.reports() == {CPUS: {"cpuset": "0-3"}}


async def test_a_pod_is_reported_once_its_gpu_is_published(place):
    await place.namespace()
    await place.claim()
    await place.pod()
    async with reporting(place):
        assert await place.reports() == {}
        await place.publish()
        assert await place.reports() == {DEVICES: HALF}


@pytest.mark.parametrize(
    "labels", [pytest.param({}, id="none"), pytest.param({"reserve.dra/koordinator": "no"}, id="another-value")]
)
async def test_pods_are_reported_once_their_namespace_is_labelled(place, labels):
    await place.namespace(labels)
    await place.publish()
    await place.claim()
    await place.pod()
    async with reporting(place):
        assert await place.reports() == {}
        await place.label(ENABLED)
        assert await place.reports() == {DEVICES: HALF}


async def test_a_pod_without_a_node_is_not_reported(place):
    await place.namespace()
    await place.publish()
    await place.claim()
    await place.pod(node="")
    async with reporting(place):
        assert await place.reports() == {}


async def test_a_report_that_is_not_true_is_corrected(place):
    await place.namespace()
    await place.publish()
    await place.claim()
    await place.pod(annotations={DEVICES: "{}"})
    async with reporting(place):
        assert await place.reports() == {DEVICES: HALF}


async def test_a_report_without_a_claim_behind_it_is_left_alone(place):
    await place.namespace()
    await place.publish()
    await place.claim(results=[CPU_RESULT])
    await place.pod(annotations={DEVICES: "{}"})
    async with reporting(place):
        assert await place.reports() == {DEVICES: {}}
        assert place.sent == []


async def test_a_pod_with_many_annotations_is_written_once(place):
    await place.namespace()
    await place.publish()
    await place.claim()
    await place.pod(annotations={"large": "x" * 5000})
    async with reporting(place):
        assert await place.reports() == {DEVICES: HALF}
        await place.user.patch("pods", "p", {"metadata": {"labels": {"a": "b"}}}, namespace="ml")
        await place.reports()
        assert len(place.sent) == 1


async def test_a_refused_write_is_tried_again(place, caplog):
    await place.namespace()
    await place.publish()
    await place.claim()
    await place.pod()
    place.refuse = True
    async with reporting(place):
        assert await place.reports() == {}
        assert "reports of pod ml/p: not reconciled, retrying in" in caplog.text
        place.refuse = False
        await asyncio.sleep(5)
        assert await place.reports() == {DEVICES: HALF}


async def test_a_deleted_pod_is_forgotten(place):
    await place.namespace()
    await place.publish()
    await place.claim()
    await place.pod()
    async with reporting(place):
        await place.reports()
        await place.user.delete("pods", "p", namespace="ml", gracePeriodSeconds=0)
        await asyncio.sleep(SOON)
        await place.user.patch("resourceclaims", "c", {"metadata": {"labels": {"a": "b"}}}, namespace="ml")
        await asyncio.sleep(SOON)
        assert len(place.sent) == 1


async def test_a_namespace_that_loses_its_label_has_no_further_reports(place):
    await place.namespace()
    await place.publish()
    await place.claim()
    async with reporting(place):
        await asyncio.sleep(SOON)
        await place.label({"reserve.dra/koordinator": None})
        await asyncio.sleep(SOON)
        await place.pod()
        assert await place.reports() == {}
        await place.label(ENABLED)
        assert await place.reports() == {DEVICES: HALF}
