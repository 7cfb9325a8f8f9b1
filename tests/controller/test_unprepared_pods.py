"""Evictions of pods whose node refuses their claims, before an API server: when, in which version, how often."""

import asyncio
import contextlib
import json
import logging

import pytest

from controller.informers import ControllerInformers
from controller.unprepared_pods import UnpreparedPods
from dra.engine.claims.codes import Code
from dra.engine.prepare_refusals.decide import PATIENCE, RECHECK
from dra.kube.transport import Response
from localplane.server import ApiServer
from localplane.transport import LocalTransport
from tests.controller.recorded_reasons import RecordedReasons, RecordingClaimEvents
from tests.dra.engine.prepare_refusals.refused import REPLICA_SET, TEMPLATE, WAITING, ready
from tests.dra.kube.virtual import seeded
from tests.localplane.components import User

SOON = 1.0
RUNNING = {**WAITING, "image": "x", "imageID": "x", "ready": True, "state": {"running": {}}}


class Place:
    """An API server with claims and pods, and the loop with the informers that feed it."""

    def __init__(self, runtime_of, metrics, clock):
        self.user = User(ApiServer(clock=clock, random=seeded(1)))
        self.transport = LocalTransport(self.user.server)
        self.evictions = []
        self.answer = None
        self.recorded = RecordedReasons()
        runtime = runtime_of(self)
        self.watches = ControllerInformers(runtime.client, clock=clock)
        self.evictor = UnpreparedPods(runtime, self.watches, events=RecordingClaimEvents(self.recorded, metrics))
        metrics.count_refused_claims(self.evictor.overdue_reasons)

    async def send(self, request):
        if request.path.endswith("/eviction"):
            self.evictions.append(json.loads(request.body))
            if self.answer is not None:
                return self.answer
        return await self.transport.send(request)

    def stream(self, request):
        return self.transport.stream(request)

    async def refused(self, name="p", *, owner=REPLICA_SET):
        """Bind a pod to a node, whose driver refuses the pod's claim."""
        owners = {"ownerReferences": [owner]} if owner else {}
        spec = {
            "nodeName": "n1",
            "containers": [{"name": "main", "image": "x"}],
            "resourceClaims": [{"name": "koord-cpus", "resourceClaimTemplateName": TEMPLATE}],
        }
        pod = await self.user.create("pods", {"metadata": {"name": name, **owners}, "spec": spec}, namespace="ml")
        uid, claim = pod["metadata"]["uid"], f"{name}-cpus"
        statuses = [{"name": "koord-cpus", "resourceClaimName": claim}]
        await self.status("pods", name, {"phase": "Pending", "resourceClaimStatuses": statuses})
        owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid, "controller": True}
        request = {"name": "cpus", "exactly": {"deviceClassName": "cpu.reserve.dra"}}
        body = {"metadata": {"name": claim, "ownerReferences": [owner]}, "spec": {"devices": {"requests": [request]}}}
        await self.user.create("resourceclaims", body, namespace="ml")
        result = {"request": "cpus", "driver": "cpu.reserve.dra", "pool": "n1", "device": "cpus"}
        entries = [{"resource": "pods", "name": name, "uid": uid}]
        allocation = {"devices": {"results": [result]}}
        await self.status("resourceclaims", claim, {"allocation": allocation, "reservedFor": entries})
        await self.status("resourceclaims", claim, {"devices": [ready()]})

    async def status(self, plural, name, status):
        await self.user.patch(plural, name, {"status": status}, namespace="ml", subresource="status")

    async def pods(self):
        found = await self.user.list("pods", namespace="ml")
        return [each["metadata"]["name"] for each in found if "deletionTimestamp" not in each["metadata"]]


@pytest.fixture
async def place(runtime_of, metrics, clock):
    place = Place(runtime_of, metrics, clock)
    await place.user.create(
        "namespaces", {"metadata": {"name": "ml", "labels": {"reserve.dra/koordinator": "enabled"}}}
    )
    return place


@contextlib.asynccontextmanager
async def running(place):
    tasks = [asyncio.create_task(part()) for part in (place.watches.run, place.evictor.run)]
    await asyncio.sleep(SOON)
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def refused_claims(metrics):
    return sum(
        float(line.rpartition(" ")[2])
        for line in metrics.render().decode().splitlines()
        if line.startswith("dra_reserve_claims_refused{")
    )


async def test_a_pod_that_its_node_refuses_is_evicted_once_it_has_been_refused_for_long(place, metrics):
    async with running(place):
        await place.refused()
        uid = (await place.user.get("pods", "p", namespace="ml"))["metadata"]["uid"]
        await asyncio.sleep(PATIENCE - SOON)
        assert (place.evictions, refused_claims(metrics)) == ([], 0)
        version = (await place.user.get("pods", "p", namespace="ml"))["metadata"]["resourceVersion"]
        await asyncio.sleep(2 * SOON)
        (asked,) = place.evictions
        assert asked["deleteOptions"]["preconditions"] == {"uid": uid, "resourceVersion": version}
        assert await place.pods() == []
        assert place.recorded.codes == [Code.EVICTED_UNPREPARED]
        assert b'dra_reserve_unprepared_pods_evicted_total{reason="CPUsInUse"} 1.0' in metrics.render()
        assert refused_claims(metrics) == 1  # until the claim is gone
        await place.user.delete("resourceclaims", "p-cpus", namespace="ml")
        await asyncio.sleep(SOON)
        assert refused_claims(metrics) == 0


async def test_a_claim_that_is_prepared_meanwhile_keeps_its_pod(place):
    async with running(place):
        await place.refused()
        await asyncio.sleep(PATIENCE / 2)
        await place.status("resourceclaims", "p-cpus", {"devices": [ready("True")]})
        await asyncio.sleep(PATIENCE)
        await place.status("resourceclaims", "p-cpus", {"devices": [ready()]})  # refused again: counted from now on
        await asyncio.sleep(PATIENCE - SOON)
        assert place.evictions == []
        await asyncio.sleep(2 * SOON)
        assert len(place.evictions) == 1


async def test_a_pod_with_a_container_stays(place):
    async with running(place):
        await place.refused()
        await place.status("pods", "p", {"containerStatuses": [RUNNING]})
        await asyncio.sleep(10 * PATIENCE)
        assert (place.evictions, place.recorded.codes) == ([], [])


async def test_a_pod_without_a_controller_is_told_so_and_not_each_time_it_is_looked_at(place):
    async with running(place):
        await place.refused(owner=None)
        await asyncio.sleep(10 * PATIENCE)
        assert (place.evictions, place.recorded.codes) == ([], [Code.PREPARE_REFUSED])
        assert "has no controller" in place.recorded.reasons[0].text


async def test_replacements_that_come_back_to_the_node_are_evicted_ever_later(place):
    async with running(place):
        times = []
        for number in range(4):
            await place.refused(f"p{number}")
            began = asyncio.get_running_loop().time()
            while len(place.evictions) <= number:  # noqa: ASYNC110 - virtual time
                await asyncio.sleep(SOON)
            times.append(round((asyncio.get_running_loop().time() - began) / PATIENCE))
            await place.user.delete("resourceclaims", f"p{number}-cpus", namespace="ml")
        assert times == [1, 2, 4, 8]


@pytest.mark.parametrize(
    ("status", "reason", "logged"),
    [
        pytest.param(403, "Forbidden", "eviction for claim ml/p-cpus: not reconciled", id="without-the-right"),
        pytest.param(429, "TooManyRequests", "eviction for claim ml/p-cpus: not reconciled", id="a-budget-forbids"),
        pytest.param(409, "Conflict", "", id="the-pod-has-changed"),
    ],
)
async def test_an_eviction_that_is_refused_is_asked_for_again(place, caplog, status, reason, logged):
    caplog.set_level(logging.INFO)
    body = {"kind": "Status", "status": "Failure", "reason": reason, "code": status, "message": "no"}
    place.answer = Response(status, {}, json.dumps(body).encode())
    async with running(place):
        await place.refused()
        await asyncio.sleep(PATIENCE + 10.0)
        assert len(place.evictions) > 1
        assert logged in caplog.text
        assert ("not reconciled" in caplog.text) is bool(logged)
        assert place.recorded.codes == []
        place.answer = None
        await asyncio.sleep(PATIENCE)
        assert await place.pods() == []


async def test_a_pod_that_is_gone_ends_it(place):
    async with running(place):
        await place.refused()
        await place.user.delete("pods", "p", namespace="ml", gracePeriodSeconds=0)
        await asyncio.sleep(PATIENCE + RECHECK)
        assert (place.evictions, place.recorded.codes) == ([], [])
