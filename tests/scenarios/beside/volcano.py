"""Volcano as pods and claims see it: gangs, verdicts, its own gate, removed entries; played as its source has it.

The player follows Volcano 1.15 as ../shared/specs/kueue.md §4 records it. A session comes each second. The pods of a
gang are bound once as many as the gang needs are ungated; PreBind then allocates and lists as upstream's plugin does.
Otherwise the session is discarded: verdicts are written, and Unreserve removes the entries of the pods it had placed.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from tests.scenarios import objects, steps
from tests.scenarios.api import ApiError
from tests.scenarios.claims import allocated, bound, entries, finished, revision
from tests.scenarios.resources import CLAIMS, PODS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.scenarios.namespaces import Namespace
    from tests.scenarios.objects import PodShape

Json = dict[str, Any]

SCHEDULER: Final = "volcano"
GANG: Final = "scheduling.k8s.io/group-name"
QUEUE_GATE: Final = "scheduling.volcano.sh/queue-allocation-gate"

SCHEDULE_PERIOD: Final = 1.0
"""Seconds between two sessions: ``--schedule-period``."""


def member(name: str, shape: PodShape, *, gang: str = "crew", queue_gate: bool = False) -> Json:
    """Return a pod of a gang; with ``queue_gate`` it waits for room in its queue behind Volcano's own gate first."""
    pod = objects.pod(name, shape)
    pod["metadata"]["annotations"][GANG] = gang
    pod["spec"]["schedulerName"] = SCHEDULER
    if queue_gate:
        pod["spec"]["schedulingGates"] = [{"name": QUEUE_GATE}, *pod["spec"].get("schedulingGates", ())]
    return pod


class Volcano:
    """Schedules a gang to one node, whose device the claims of the gang get."""

    def __init__(self, namespace: Namespace, *, node: str, devices: str, min_member: int, gang: str = "crew") -> None:
        self.sessions = 0
        """Sessions that are over."""
        self.unreserved = 0
        """Entries that were removed."""
        self._namespace: Final = namespace
        self._node: Final = node
        self._devices: Final = devices
        self._min_member: Final = min_member
        self._gang: Final = gang

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Schedule as long as the context lasts."""
        async with asyncio.TaskGroup() as group:
            sessions = group.create_task(self._run())
            yield
            sessions.cancel()

    async def _run(self) -> None:
        while True:
            await self._session()
            self.sessions += 1
            await asyncio.sleep(SCHEDULE_PERIOD)

    async def _session(self) -> None:
        pods = [pod for pod in await self._namespace.all(PODS) if self._schedules(pod)]
        await self._open_queue(pods)
        ready = [pod for pod in pods if not steps.gates(pod)]
        waiting = [pod for pod in ready if not bound(pod)]
        claims = {name: await self._namespace.get(CLAIMS, name) for name in {_claim_of(pod) for pod in waiting}}
        reachable = [pod for pod in waiting if self._reaches(claims[_claim_of(pod)])]
        if len(ready) >= self._min_member and reachable == waiting:
            for pod in waiting:
                await self._bind(pod)
        else:
            await self._discard(waiting, reachable, claims)

    def _schedules(self, pod: Json) -> bool:
        annotations = pod["metadata"].get("annotations", {})
        return pod["spec"]["schedulerName"] == SCHEDULER and annotations.get(GANG) == self._gang and not finished(pod)

    async def _open_queue(self, pods: list[Json]) -> None:
        """Remove Volcano's own gate from the pods that have no other (``HasOnlyVolcanoSchedulingGate``)."""
        for pod in pods:
            if steps.gates(pod) == [QUEUE_GATE]:
                gone = {"spec": {"schedulingGates": [{"$patch": "delete", "name": QUEUE_GATE}]}}
                await self._namespace.patch(PODS, pod["metadata"]["name"], gone, kind="strategic-merge-patch")

    async def _bind(self, pod: Json) -> None:
        """Run PreBind of upstream's plugin, and bind; what meets a conflict is tried again in the next session."""
        claim = await self._namespace.get(CLAIMS, _claim_of(pod))
        try:
            if pod["metadata"]["uid"] not in steps.uids(claim):
                await self._reserve(claim, pod)
        except ApiError as error:
            if error.status != 409:
                raise
            await self._say(pod, "SchedulerError", str(error))
            return
        target = {"apiVersion": "v1", "kind": "Node", "name": self._node}
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod["metadata"]["name"]},
            "target": target,
        }
        path = PODS.path(namespace=self._namespace.name, name=pod["metadata"]["name"], subresource="binding")
        await self._namespace.api.request("POST", path, binding)

    async def _reserve(self, claim: Json, pod: Json) -> None:
        """Allocate the claim, if nobody has, and list the pod, on the version that was read."""
        name = claim["metadata"]["name"]
        status: Json = {"reservedFor": [*entries(claim), steps.entry(pod, "pods")]}
        if not allocated(claim):
            finalizers = [*claim["metadata"].get("finalizers", ()), "resource.kubernetes.io/delete-protection"]
            protected = {"metadata": {"finalizers": finalizers, "resourceVersion": revision(claim)}}
            claim = await self._namespace.patch(CLAIMS, name, protected)
            status["allocation"] = self._allocation()
        version = {"metadata": {"resourceVersion": revision(claim)}, "status": status}
        await self._namespace.api.patch(CLAIMS, name, version, namespace=self._namespace.name, subresource="status")

    def _allocation(self) -> Json:
        pool = f"{self._namespace.name}-{self._node}"
        result = {"request": "device", "driver": self._devices, "pool": pool, "device": "device-0"}
        here = {"key": "metadata.name", "operator": "In", "values": [self._node]}
        return {
            "devices": {"results": [result]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [here]}]},
            "allocationTimestamp": "2026-01-01T00:00:00Z",
        }

    def _reaches(self, claim: Json) -> bool:
        """Tell whether the claim has no devices, or has devices of the node."""
        return not allocated(claim) or self._node in str(claim["status"]["allocation"]["nodeSelector"])

    async def _discard(self, waiting: list[Json], reachable: list[Json], claims: dict[str, Json]) -> None:
        for number, pod in enumerate(waiting):
            if pod not in reachable:
                await self._say(pod, "Unschedulable", "0/4 nodes are unavailable: 4 cannot allocate all claims.")
            elif number:
                await self._say(pod, "Unschedulable", _gang_text(len(waiting), self._min_member))
            else:
                text = f"can possibly be assigned to {self._node}, once minAvailable is satisfied"
                await self._say(pod, "Schedulable", text)
                await self._unreserve(claims[_claim_of(pod)], pod)

    async def _unreserve(self, claim: Json, pod: Json) -> None:
        if allocated(claim) and pod["metadata"]["uid"] in steps.uids(claim):
            await steps.unlist(self._namespace, claim["metadata"]["name"], pod["metadata"]["uid"])
            self.unreserved += 1

    async def _say(self, pod: Json, reason: str, message: str) -> None:
        said = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
        known = [each for each in pod["status"].get("conditions", ()) if each["type"] == "PodScheduled"]
        if not any(said.items() <= each.items() for each in known):
            status = {"conditions": [said]}
            await self._namespace.patch_status(PODS, pod["metadata"]["name"], status, kind="strategic-merge-patch")


def _claim_of(pod: Json) -> str:
    (only,) = pod["spec"]["resourceClaims"]
    name: str = only["resourceClaimName"]
    return name


def _gang_text(ready: int, needed: int) -> str:
    return f"pod group is not ready, {ready} Pending, {needed} minAvailable"
