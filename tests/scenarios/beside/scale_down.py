"""The scale-down of autoscalers as nodes see it: nodes without pods are marked, then deleted.

The player follows cluster autoscaler 1.34 to 1.36 and Karpenter 1.14 as ../shared/specs/kueue.md §2 and §3 record them.
It looks at pods alone, never at claims; a node counts as empty if no unfinished pod is bound to it. A node with either
annotation is left alone. The first taint asks schedulers to avoid the node; the second keeps all pods off, and the
Node object follows it, with the devices that were offered there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tests.scenarios.claims import finished
from tests.scenarios.resources import NODES, PODS, RESOURCE_SLICES

if TYPE_CHECKING:
    from tests.scenarios.namespaces import Namespace

Json = dict[str, Any]

SCALE_DOWN_DISABLED: Final = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
DO_NOT_DISRUPT: Final = "karpenter.sh/do-not-disrupt"

CANDIDATE: Final = {"key": "DeletionCandidateOfClusterAutoscaler", "effect": "PreferNoSchedule"}
TO_BE_DELETED: Final = {"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}


class ScaleDown:
    """Scales the nodes of a scenario down, one look at a time."""

    def __init__(self, namespace: Namespace, *nodes: str) -> None:
        self._namespace: Final = namespace
        self._nodes: Final = [*nodes]

    async def mark(self) -> set[str]:
        """Mark the nodes that are unneeded as candidates, all others as none; return the candidates."""
        found = await self._unneeded()
        for node in self._nodes:
            await self.taint(node, CANDIDATE, there=node in found)
        return found

    async def delete(self) -> set[str]:
        """Delete the nodes that are unneeded, as when the unneeded time is over; return their names."""
        found = await self._unneeded()
        for node in found:
            await self.taint(node, TO_BE_DELETED)
            await self._namespace.api.delete(NODES, node)
            await self._namespace.api.delete(RESOURCE_SLICES, f"{self._namespace.name}-{node}")
            self._nodes.remove(node)
        return found

    async def taint(self, node: str, taint: Json, *, there: bool = True) -> None:
        """Give a node a taint, or take it away."""
        spec = (await self._namespace.api.get(NODES, node))["spec"]
        others = [each for each in spec.get("taints", ()) if each["key"] != taint["key"]]
        await self._namespace.api.patch(NODES, node, {"spec": {"taints": [*others, *[taint] * there]}})

    async def _unneeded(self) -> set[str]:
        pods = [pod for pod in await self._namespace.api.all(PODS) if not finished(pod)]
        used = {pod["spec"].get("nodeName") for pod in pods}
        found = set()
        for name in self._nodes:
            annotations = (await self._namespace.api.get(NODES, name))["metadata"].get("annotations", {})
            kept = "true" in (annotations.get(SCALE_DOWN_DISABLED), annotations.get(DO_NOT_DISRUPT))
            if name not in used and not kept:
                found.add(name)
        return found
