"""A cluster autoscaler as pods see it: which pods it adds a node for, and how large; played as its source has it.

The player follows cluster autoscaler 1.34 to 1.36 as ../shared/specs/kueue.md §2 records it. A pod counts if its
verdict is exactly ``Unschedulable``, it is not nominated and not being deleted, and its claim is not allocated: a new
node cannot have the devices of another node. Karpenter counts the same pods (§3).
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from tests.scenarios import steps
from tests.scenarios.claims import allocated, bound
from tests.scenarios.resources import CLAIMS, NODES, PODS, RESOURCE_SLICES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.scenarios.namespaces import Namespace

Json = dict[str, Any]

SCAN_INTERVAL: Final = 1.0
"""Seconds between two looks at the pods; ``--scan-interval`` has ten."""


class Autoscaler:
    """Adds a node, with a device, for the pods of a namespace that count; the smallest of its sizes that takes all."""

    def __init__(self, namespace: Namespace, *, cpus: tuple[int, ...] = (64,)) -> None:
        self.seen: Final[list[int]] = []
        """For each node that was added, the number of pods that it was added for."""
        self.nodes: Final[list[str]] = []
        """The nodes that were added."""
        self._namespace: Final = namespace
        self._sizes: Final = sorted(cpus)

    @asynccontextmanager
    async def running(self, *, nodes: int = 1) -> AsyncIterator[None]:
        """Add nodes as long as the context lasts, at most so many (the limit of a node group)."""
        async with asyncio.TaskGroup() as group:
            scaling = group.create_task(self._run(nodes))
            yield
            scaling.cancel()

    async def delete_node(self, node: str) -> None:
        """Delete a node as when it expires: it takes no new pod, its pods are evicted, and its devices end with it."""
        await steps.cordon(self._namespace, node)
        for pod in await self._namespace.all(PODS):
            if pod["spec"].get("nodeName") == node:
                await self._namespace.delete(PODS, pod["metadata"]["name"], grace_seconds=1)
        await self._namespace.api.delete(NODES, node)
        await self._namespace.api.delete(RESOURCE_SLICES, f"{self._namespace.name}-{node}")

    async def _run(self, nodes: int) -> None:
        expected: set[str] = set()  # on the node that was added last, which has room for them
        while len(self.nodes) < nodes:
            claims = {claim["metadata"]["name"]: claim for claim in await self._namespace.all(CLAIMS)}
            pods = [pod for pod in await self._namespace.all(PODS) if counts(pod, claims)]
            if pods and not expected & {pod["metadata"]["name"] for pod in pods}:
                await self._add_node(pods)
                expected = {pod["metadata"]["name"] for pod in pods}
            await asyncio.sleep(SCAN_INTERVAL)

    async def _add_node(self, pods: list[Json]) -> None:
        needed = sum(map(_cpus, pods))
        size = next((size for size in self._sizes if size >= needed), self._sizes[-1])
        node = await steps.add_node(self._namespace, f"added-{len(self.nodes)}")
        room = {"status": {"capacity": {"cpu": str(size)}, "allocatable": {"cpu": str(size)}}}
        await self._namespace.api.patch(NODES, node, room, subresource="status", kind="strategic-merge-patch")
        await self._namespace.offer_devices(node=node)
        self.seen.append(len(pods))
        self.nodes.append(node)


def counts(pod: Json, claims: dict[str, Json]) -> bool:
    """Tell whether a node is added for the pod."""
    names = [each["resourceClaimName"] for each in pod["spec"].get("resourceClaims", ())]
    return (
        not bound(pod)
        and not pod["metadata"].get("deletionTimestamp")
        and not pod["status"].get("nominatedNodeName")
        and steps.unschedulable(pod)
        and not any(allocated(claims[name]) for name in names)
    )


def _cpus(pod: Json) -> int:
    return sum(int(each["resources"].get("requests", {}).get("cpu", 0)) for each in pod["spec"]["containers"])
