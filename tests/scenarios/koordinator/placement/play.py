"""Plays all sets at once on a cluster: each step of all sets, then the next, so that each set has one order.

A pod that no machine takes is deleted after the verdict; no later deletion can give it a place.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol

from tests.scenarios import api as kubernetes
from tests.scenarios.eventually import eventually
from tests.scenarios.koordinator.placement.outcomes import Outcome, Record
from tests.scenarios.namespaces import Namespace
from tests.scenarios.resources import PODS, SERVICE_ACCOUNTS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence
    from pathlib import Path

    from tests.scenarios.koordinator.placement.sets import PlacementSet

Json = dict[str, Any]

INTERVAL: Final = 0.4
"""Seconds between two listings of all pods."""
VERDICTS: Final = 3
"""Listings in a row in which a pod is unschedulable before that is the verdict."""

_OTHER_NODES: Final = re.compile(r"^\d+/\d+ nodes are available: |\d+ node\(s\) didn't match [^,.]*[,.] ?")


class Scheduler(Protocol):
    """A scheduler with the objects that it needs."""

    async def machines(self, made: PlacementSet) -> None:
        """Create the machines of a set."""
        ...

    async def pod(self, made: PlacementSet, step: int) -> Json | Outcome:
        """Return the pod to create for a step, or the outcome if it is refused."""
        ...

    async def placed(self, made: PlacementSet, step: int, pod: Json) -> Outcome:
        """Return the outcome of a pod that has a node."""
        ...

    async def released(self, pods: Sequence[tuple[PlacementSet, int]]) -> None:
        """Wait until nothing is left of pods that were deleted."""
        ...


@asynccontextmanager
async def namespace_of_cluster(admin: Path) -> AsyncIterator[Namespace]:
    """Yield a namespace that ends with its cluster; to delete all objects would take as long as to create them."""
    async with kubernetes.connect(admin) as api:
        namespace = Namespace(api, "placement")
        await api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace.name}})
        await eventually(
            lambda: namespace.find(SERVICE_ACCOUNTS, "default"), saying="the namespace has its service account"
        )
        yield namespace


async def play(namespace: Namespace, sets: Sequence[PlacementSet], scheduler: Scheduler) -> list[Record]:
    """Play the sets and return their records."""
    await _at_once(scheduler.machines(each) for each in sets)
    records = {each.number: Record(set=each.number, digest=each.digest, outcomes={}) for each in sets}
    for step in range(max(len(each.steps) for each in sets)):
        current = [each for each in sets if step < len(each.steps)]
        ends = [(each, wanted) for each in current if isinstance(wanted := each.steps[step], int)]
        await _delete(namespace, ends, scheduler)
        pods: dict[str, tuple[PlacementSet, int]] = {}

        async def create(made: PlacementSet, step: int = step, pods: Any = pods) -> None:
            found = await scheduler.pod(made, step)
            if isinstance(found, Outcome):
                records[made.number].outcomes[step] = found
                return
            await namespace.create(found)
            pods[made.pod(step)] = (made, step)

        await _at_once(create(each) for each in current if not isinstance(each.steps[step], int))
        verdicts = await _verdicts(namespace, set(pods))
        for name, (made, _) in pods.items():
            verdict = verdicts[name]
            if isinstance(verdict, str):
                outcome = Outcome(why=verdict)
            else:
                outcome = await scheduler.placed(made, step, verdict)
            records[made.number].outcomes[step] = outcome
        rejected = [pods[name] for name, verdict in verdicts.items() if isinstance(verdict, str)]
        await _delete(namespace, rejected, scheduler)
    return list(records.values())


async def _verdicts(namespace: Namespace, names: set[str]) -> dict[str, Json | str]:
    """Return each pod that has a node, or the reason why no node takes the pod."""
    verdicts: dict[str, Json | str] = {}
    seen: dict[str, int] = {}

    async def complete() -> bool:
        await asyncio.sleep(INTERVAL)
        for pod in await namespace.all(PODS):
            name = pod["metadata"]["name"]
            if name not in names or name in verdicts:
                continue
            if pod["spec"].get("nodeName"):
                verdicts[name] = pod
            elif (why := _rejection(pod)) is not None:
                seen[name] = seen.get(name, 0) + 1
                if seen[name] >= VERDICTS:
                    verdicts[name] = why
        return verdicts.keys() >= names

    await eventually(complete, within=300, saying="all pods have a node or a verdict")
    return verdicts


def _rejection(pod: Json) -> str | None:
    """Return the text of the scheduler's rejection; None while there is none, or claims are not there yet."""
    status = pod["status"]
    if len(status.get("resourceClaimStatuses", ())) < len(pod["spec"].get("resourceClaims", ())):
        return None
    for each in status.get("conditions", ()):
        if each["type"] == "PodScheduled" and each["status"] == "False":
            text = _OTHER_NODES.sub("", each.get("message", "").split(" preemption:")[0]).strip(" .")
            return text or "no reason"
    return None


async def _delete(namespace: Namespace, pods: Sequence[tuple[PlacementSet, int]], scheduler: Scheduler) -> None:
    names = [made.pod(step) for made, step in pods]
    await _at_once(namespace.delete(PODS, name, grace_seconds=0) for name in names)

    async def remaining() -> set[str]:
        return {each["metadata"]["name"] for each in await namespace.all(PODS)} & set(names)

    await eventually(remaining, until=lambda left: not left, saying="deleted pods are gone")
    await scheduler.released(pods)


async def _at_once(tasks: Iterable[Any], *, limit: int = 8) -> None:
    turn = asyncio.Semaphore(limit)

    async def one(task: Any) -> None:
        async with turn:
            await task

    async with asyncio.TaskGroup() as group:
        for each in tasks:
            group.create_task(one(each))
