"""Kueue as a pod sees it: gates, and admission by quota; played as its source has it.

The player follows pkg/controller/jobs/pod of Kueue 0.18 as ../shared/specs/kueue.md §1.1 records it: the webhook's
label, finalizer and two gates; one strict merge patch per pod, with the resourceVersion that Kueue read, which carries
the whole rest of the gates; a second one for the topology, a second later at the earliest, which names the node; 409
is retried from a new read, later. Rates: eight patches at a time. Groups of pods and their eviction: `pod_groups`.
"""

from __future__ import annotations

import asyncio
import itertools
from contextlib import aclosing, asynccontextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from tests.scenarios import objects
from tests.scenarios.api import ApiError
from tests.scenarios.claims import finished, revision
from tests.scenarios.resources import PODS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

    from tests.scenarios.namespaces import Namespace
    from tests.scenarios.objects import PodShape

Json = dict[str, Any]

QUEUE: Final = "kueue.x-k8s.io/queue-name"
MANAGED: Final = "kueue.x-k8s.io/managed"
ADMISSION: Final = "kueue.x-k8s.io/admission"
TOPOLOGY: Final = "kueue.x-k8s.io/topology"

AT_ONCE: Final = 8
"""Patches at a time: `parallelize` of Kueue."""

TOPOLOGY_DELAY: Final = 1.0
"""Seconds before the second gate goes: `constants.UpdatesBatchPeriod`."""

RETRY: Final = 0.2
"""Seconds before a patch that met a conflict is tried again, the first time."""


def queued(name: str, shape: PodShape, *, queue: str) -> Json:
    """Return a pod as it is once Kueue's webhook has seen it."""
    pod = objects.pod(name, shape)
    pod["metadata"]["labels"] |= {QUEUE: queue, MANAGED: "true"}
    pod["metadata"]["finalizers"] = [MANAGED]
    gates = [{"name": ADMISSION}, {"name": TOPOLOGY}, *pod["spec"].get("schedulingGates", ())]
    pod["spec"]["schedulingGates"] = gates
    return pod


class StrictPatches:
    """Merge patches on the version that was read, from a new read after each conflict (pkg/util/client)."""

    def __init__(self, namespace: Namespace) -> None:
        self.conflicts = 0
        """Patches that were refused since somebody else had written the pod."""
        self._namespace: Final = namespace
        self._turn: Final = asyncio.Semaphore(AT_ONCE)

    async def patch(self, name: str, change: Callable[[Json], Json]) -> None:
        """Patch a pod; `change` makes the patch from the pod as it was read."""
        for pause in itertools.accumulate(itertools.repeat(2.0), lambda last, factor: last * factor, initial=RETRY):
            async with self._turn:
                pod = await self._namespace.get(PODS, name)
                patch = change(pod)
                patch.setdefault("metadata", {})["resourceVersion"] = revision(pod)
                try:
                    await self._namespace.patch(PODS, name, patch)
                except ApiError as error:
                    if error.status != HTTPStatus.CONFLICT:
                        raise
                    self.conflicts += 1
                else:
                    return
            await asyncio.sleep(min(pause, 5.0))


class Kueue:
    """Admits the pods of a namespace, in the order of their creation, as many at a time as its quota has room for.

    `takes_claims`: as Kueue up to 0.17 with its gate for DRA off, or later with both of its gates for DRA off; without,
    as Kueue 0.18 and later by default (§1.4).
    """

    def __init__(self, namespace: Namespace, *, quota: int, nodes: Iterable[str], takes_claims: bool = True) -> None:
        self.admitted: Final[set[str]] = set()
        """Names of the pods that have left both gates."""
        self.inadmissible: Final[set[str]] = set()
        """Names of the pods that stay behind both gates, since they name a claim."""
        self.patches: Final = StrictPatches(namespace)
        self._namespace: Final = namespace
        self._takes_claims: Final = takes_claims
        self._quota: Final = quota
        self._nodes: Final = itertools.cycle(nodes)
        self._waiting: Final[dict[str, None]] = {}
        self._holding: Final[set[str]] = set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Admit pods as long as the context lasts."""
        async with asyncio.TaskGroup() as group:
            following = group.create_task(self._follow(group))
            yield
            following.cancel()

    async def _follow(self, group: asyncio.TaskGroup) -> None:
        since = "0"
        while True:
            watch = self._namespace.api.watch(PODS, namespace=self._namespace.name, resourceVersion=since)
            async with aclosing(watch) as events:
                async for change, pod in events:
                    since = revision(pod)
                    self._see(change, pod, group)

    def _see(self, change: str, pod: Json, group: asyncio.TaskGroup) -> None:
        name = pod["metadata"]["name"]
        if MANAGED not in pod["metadata"].get("labels", ()):
            return
        if not self._takes_claims and names_a_claim(pod):
            self.inadmissible.add(name)
        elif ADMISSION in _gates(pod):
            if name not in self._holding:
                self._waiting[name] = None
        elif finished(pod) or change == "DELETED":
            self._holding.discard(name)
            if MANAGED in pod["metadata"].get("finalizers", ()) and change != "DELETED":
                group.create_task(self.patches.patch(name, lambda _: {"metadata": {"finalizers": None}}))
        while self._waiting and len(self._holding) < self._quota:
            admitted = next(iter(self._waiting))
            del self._waiting[admitted]
            self._holding.add(admitted)
            group.create_task(self._admit(admitted))

    async def _admit(self, name: str) -> None:
        labels = {"kueue.x-k8s.io/podset": "main", "kueue.x-k8s.io/cluster-queue-name": "all"}
        annotations = {"kueue.x-k8s.io/workload": f"pod-{name}"}
        about = {"labels": labels, "annotations": annotations}
        await self.patches.patch(
            name, lambda pod: {"metadata": about, "spec": {"schedulingGates": rest_of_gates(pod, ADMISSION)}}
        )
        await asyncio.sleep(TOPOLOGY_DELAY)
        selector = {"kubernetes.io/hostname": next(self._nodes)}
        await self.patches.patch(
            name, lambda pod: {"spec": {"schedulingGates": rest_of_gates(pod, TOPOLOGY), "nodeSelector": selector}}
        )
        self.admitted.add(name)


def _gates(pod: Json) -> list[str]:
    return [gate["name"] for gate in pod["spec"].get("schedulingGates", ())]


def rest_of_gates(pod: Json, *gone: str) -> list[Json]:
    """Return the scheduling gates that a patch leaves: the whole list but these."""
    return [each for each in pod["spec"].get("schedulingGates", ()) if each["name"] not in gone]


def names_a_claim(pod: Json) -> bool:
    """Tell whether Kueue 0.18 and later finds the pod's Workload inadmissible, whatever other claims the pod has."""
    return any("resourceClaimName" in each for each in pod["spec"].get("resourceClaims", ()))
