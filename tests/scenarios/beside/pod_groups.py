"""A group of plain pods under Kueue: admitted, evicted and replaced together, as waitForPodsReady has it.

Follows pkg/controller/jobs/pod of Kueue 0.18 as ../shared/specs/kueue.md §1.1 and §1.3 record it. Admission without a
topology is one strict patch per pod, which drops both gates. Eviction writes the condition TerminationTarget by
server-side apply and deletes the pod, ours behind our gate like a running one; pods behind Kueue's own gate are left
alone. No gate comes back: whoever made the group creates new pods. Until they exist, the evicted pods stay in the API
behind Kueue's finalizer.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final

from tests.scenarios.beside.kueue import ADMISSION, AT_ONCE, TOPOLOGY, StrictPatches, queued, rest_of_gates
from tests.scenarios.claims import finished
from tests.scenarios.resources import PODS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable

    from tests.scenarios.namespaces import Namespace
    from tests.scenarios.objects import PodShape

Json = dict[str, Any]

GROUP: Final = "kueue.x-k8s.io/pod-group-name"
TOTAL: Final = "kueue.x-k8s.io/pod-group-total-count"
EVICTED: Final = "WorkloadEvictedDueToPodsReadyTimeout"


class PodGroup:
    """One group, with the pods that it has had."""

    def __init__(self, namespace: Namespace, name: str, *, count: int) -> None:
        self.name: Final = name
        self.count: Final = count
        self.pods: list[Json] = []
        """The pods as they were created, without those that have been replaced."""
        self._namespace: Final = namespace
        self._patches: Final = StrictPatches(namespace)
        self._turn: Final = asyncio.Semaphore(AT_ONCE)
        self._rounds = 0

    @property
    def uids(self) -> set[str]:
        """The uids of the present pods."""
        return {pod["metadata"]["uid"] for pod in self.pods}

    async def create(self, shape: PodShape) -> None:
        """Create the pods of a round; those of the round before are replaced by them, and may go."""
        before, self._rounds = self.pods, self._rounds + 1
        names = (f"{self.name}-{self._rounds}-{number}" for number in range(self.count))
        self.pods = await self._namespace.create_all(self._pod(name, shape) for name in names)
        await self._each(self._forget(pod["metadata"]["name"]) for pod in before)

    async def admit(self) -> None:
        """Remove both of Kueue's gates from each pod; ours stays."""
        await self._each(self._patches.patch(pod["metadata"]["name"], _admitted) for pod in self.pods)

    async def evict(self) -> float:
        """Evict the whole group; return when the last pod was deleted (`time.monotonic()`)."""
        found = await self._namespace.all(PODS, labelSelector=f"{GROUP}={self.name}")
        present = [pod for pod in found if pod["metadata"]["uid"] in self.uids]
        await self._each(self._evict(pod) for pod in present if not finished(pod) and not _waits_for_admission(pod))
        return time.monotonic()

    async def finish(self) -> None:
        """End the group: its pods lose the finalizer."""
        await self._each(self._forget(pod["metadata"]["name"]) for pod in self.pods)

    def _pod(self, name: str, shape: PodShape) -> Json:
        pod = queued(name, shape, queue="team")
        pod["metadata"]["labels"][GROUP] = self.name
        pod["metadata"].setdefault("annotations", {})[TOTAL] = str(self.count)
        return pod

    async def _evict(self, pod: Json) -> None:
        meta = pod["metadata"]
        target = {"type": "TerminationTarget", "status": "True", "reason": EVICTED, "message": "not Ready in time"}
        applied = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": meta["name"], "uid": meta["uid"]},
            "status": {"conditions": [target | {"lastTransitionTime": "2026-01-01T00:00:00Z"}]},
        }
        path = PODS.path(namespace=self._namespace.name, name=meta["name"], subresource="status")
        query = {"fieldManager": "kueue", "force": "true"}
        content_type = "application/apply-patch+yaml"
        await self._namespace.api.request("PATCH", path, applied, query=query, content_type=content_type)
        await self._namespace.delete(PODS, meta["name"])

    async def _forget(self, name: str) -> None:
        await self._patches.patch(name, lambda _: {"metadata": {"finalizers": None}})

    async def _each(self, steps: Iterable[Awaitable[None]]) -> None:
        async def one(step: Awaitable[None]) -> None:
            async with self._turn:
                await step

        await asyncio.gather(*map(one, steps))


def _admitted(pod: Json) -> Json:
    labels = {"kueue.x-k8s.io/podset": "main", "kueue.x-k8s.io/cluster-queue-name": "all"}
    gates = rest_of_gates(pod, ADMISSION, TOPOLOGY)
    return {"metadata": {"labels": labels}, "spec": {"schedulingGates": gates}}


def _waits_for_admission(pod: Json) -> bool:
    return any(gate["name"] == ADMISSION for gate in pod["spec"].get("schedulingGates", ()))
