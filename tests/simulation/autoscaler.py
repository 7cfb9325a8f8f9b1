"""An autoscaler of one node group, which knows pods and nodes and nothing of claims that are kept.

Plays what cluster autoscaler and Karpenter do, as their sources have it: a node on which no unfinished pod is bound is
empty, whatever is allocated there, and is deleted with its devices; a node is added only for a pod that a scheduler has
found unschedulable, that is not nominated, and none of whose claims is allocated: an allocation names another node, and
a node of the template fails the DynamicResources filter then. Pods behind gates are invisible.

Here the provider deletes the objects of machines that are gone, as a cloud controller manager does.
"""

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import msgspec

from dra.kube.resources import NODES, SLICES
from dra.model.claims import ResourceClaim
from dra.model.nodes import matches_node_selector
from dra.model.pods import POD_SCHEDULED, Pod, claim_names
from localplane.nodes.node_objects import EmulatedNode, resource_slices
from tests.simulation import capacity

if TYPE_CHECKING:
    from tests.simulation.simulated_cluster import SimulatedSystem

AUTOSCALER: Final = "autoscaler"
PROVIDER: Final = "provider"

SCAN_SECONDS: Final = 10.0
"""Seconds between two looks at the cluster (``--scan-interval``)."""

TO_BE_DELETED: Final = "ToBeDeletedByClusterAutoscaler"
"""Key of the taint of nodes that are about to be deleted."""

NODE_ADDED: Final = "autoscaler adds a node"
NODE_DELETED: Final = "autoscaler deletes a node"
NODE_WITH_CLAIM_DELETED: Final = "autoscaler deletes a node with an allocated claim"
EFFECTS: Final = (NODE_ADDED, NODE_DELETED, NODE_WITH_CLAIM_DELETED)
"""As what the work of the autoscaler is counted, beside operations."""


class NodeGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes of one template, each with devices of its own."""

    names: tuple[str, ...]
    """What nodes may be called: one after the other."""
    initial: int = 1
    maximum: int = 1
    devices: int = 1
    """The devices of each node."""
    unneeded: float = 15.0
    """Seconds for which a node is empty before it goes (``--scale-down-unneeded-time``, ``consolidateAfter``)."""
    provisioning: float = 30.0
    """Seconds from the request for a machine to its kubelet."""
    taints: bool = False
    """Whether a node that is about to be deleted is tainted first."""

    def nodes(self) -> list[EmulatedNode]:
        """Return the nodes that there may be."""
        return [EmulatedNode(name=name, devices=self.devices) for name in self.names]


class Autoscaler:
    """The autoscaler, with the provider of its machines."""

    def __init__(self, system: "SimulatedSystem", group: NodeGroup) -> None:
        self.group = group
        self._system = system
        self._machines: list[str] = list(group.names[: group.initial])
        self._booting: set[str] = set()
        self._empty_since: dict[str, float] = {}
        self._added = group.initial

    async def run(self) -> None:
        """Scan for ever."""
        while True:
            await asyncio.sleep(SCAN_SECONDS)
            if self._system.processes["nodes"].up:  # what it does to machines is done to the kubelets on them
                await self.scan()

    async def scan(self) -> None:
        """Look once: delete what is not needed, or else add what is."""
        await self._delete_ghosts()
        for name in tuple(self._machines):
            await self._look_at(name)
        if self._can_add and not self._upcoming and any(map(self._needs_node, self._system.safety.pods.values())):
            self._add()

    def absent(self) -> tuple[str, ...]:
        """Return the nodes of the group that have no machine, or none that runs."""
        return tuple(n for n in self.group.names if n not in self._machines or n in self._booting)

    def present(self) -> tuple[str, ...]:
        """Return the nodes of the group that are there, devices and all."""
        return tuple(name for name in self._machines if name not in self._upcoming)

    @property
    def unfinished_work(self) -> str:
        """What the autoscaler is about to do; empty if nothing."""
        if self._upcoming:
            return f"node {self._upcoming[0]} is not there yet"
        empty = next(iter(self._empty_since), None)
        return f"node {empty} is empty and still there" if empty is not None else ""

    def could_add_node_for(self, wanted: int) -> bool:
        """Whether another node would do for a pod whose claims want so many devices."""
        return self._can_add and wanted <= self.group.devices

    @property
    def _can_add(self) -> bool:
        return len(self._machines) < self.group.maximum

    @property
    def _upcoming(self) -> tuple[str, ...]:
        return tuple(name for name in self._machines if name in self._booting or not self._is_up(name))

    def _is_up(self, name: str) -> bool:
        found = self._system.safety.nodes.get(name)
        slices = (each["metadata"]["name"] for each in resource_slices(self._template(name), ""))
        published = all(self._system.find(SLICES, "", each) is not None for each in slices)
        return found is not None and found.ready and published

    def _template(self, name: str) -> EmulatedNode:
        return EmulatedNode(name=name, devices=self.group.devices)

    # Scale-down:

    async def _look_at(self, name: str) -> None:
        system, now = self._system, self._system.clock.now()
        node = system.safety.nodes.get(name)
        if node is None or not node.ready or name in self._booting or name in system.silent_nodes:
            self._empty_since.pop(name, None)
            return
        tainted = self.group.taints and _is_tainted(system, name)
        if any(pod.spec.node_name == name and not pod.terminal for pod in system.safety.pods.values()):
            self._empty_since.pop(name, None)
            if tainted:
                await self._taint(name, tainted=False)
            return
        if now - self._empty_since.setdefault(name, now) < self.group.unneeded:
            return
        if self.group.taints and not tainted:
            await self._taint(name, tainted=True)
            return
        await self._delete(name)

    async def _delete(self, name: str) -> None:
        kept = [c for c in self._system.safety.claims.values() if _is_allocated_to(c, name)]
        self._system.note(f"node {name} is empty to the autoscaler: {len(kept)} claims are allocated there")
        if not await self._system.shut_down_node(name):
            return
        self._machines.remove(name)
        self._empty_since.pop(name, None)
        await self._delete_objects(name)
        self._system.effects[NODE_DELETED] += 1
        if kept:
            self._system.effects[NODE_WITH_CLAIM_DELETED] += 1

    async def _delete_ghosts(self) -> None:
        """Delete Nodes without machines: a backup may bring them back."""
        for name in self.group.names:
            if name not in self._machines and name in self._system.safety.nodes:
                await self._delete_objects(name)

    async def _delete_objects(self, name: str) -> None:
        await self._system.delete(NODES, "", name, actor=PROVIDER)
        for each in resource_slices(self._template(name), ""):
            await self._system.delete(SLICES, "", each["metadata"]["name"], actor=PROVIDER)

    async def _taint(self, name: str, *, tainted: bool) -> None:
        taints = [{"key": TO_BE_DELETED, "value": "1", "effect": "NoSchedule"}] if tainted else None
        await self._system.patch(NODES, "", name, {"spec": {"taints": taints}}, actor=AUTOSCALER)

    # Scale-up:

    def _needs_node(self, pod: Pod) -> bool:
        """Whether a node of the template would do for a pod that waits, and no node that is there does."""
        scheduled = pod.condition(POD_SCHEDULED)
        if (
            pod.spec.node_name
            or pod.terminal
            or pod.metadata.deleting
            or pod.status.nominated_node_name
            or scheduled is None
            or (scheduled.status, scheduled.reason) != ("False", "Unschedulable")
        ):
            return False
        safety, namespace = self._system.safety, pod.metadata.namespace
        names = claim_names(pod)
        claims = [c for name in names if (c := safety.claims.get((namespace, name))) and not c.metadata.deleting]
        if len(claims) < len(pod.spec.resource_claims or ()) or any(c.status.allocation is not None for c in claims):
            return False
        fits = any(capacity.free_devices(self._system, node) >= len(claims) for node in self._schedulable_nodes())
        return len(claims) <= self.group.devices and not fits

    def _schedulable_nodes(self) -> Iterable[str]:
        for name, node in self._system.safety.nodes.items():
            found = self._system.find(NODES, "", name)
            if node.ready and found is not None and not {"unschedulable", "taints"} & found["spec"].keys():
                yield name

    def _add(self) -> None:
        names, start = self.group.names, self._added % len(self.group.names)
        name = next(each for each in (*names[start:], *names[:start]) if each not in self._machines)
        self._added += 1
        self._machines.append(name)
        self._booting.add(name)
        self._system.note(f"the autoscaler asks for node {name}")
        self._system.effects[NODE_ADDED] += 1
        self._system.later(self.group.provisioning, lambda: self._boot(name))

    async def _boot(self, name: str) -> None:
        self._booting.discard(name)
        self._system.boot_node(name)


def _is_allocated_to(claim: ResourceClaim, node: str) -> bool:
    allocation = claim.status.allocation
    return allocation is not None and matches_node_selector(allocation.node_selector, name=node, labels={})


def _is_tainted(system: "SimulatedSystem", name: str) -> bool:
    found = system.find(NODES, "", name) or {}
    return any(taint["key"] == TO_BE_DELETED for taint in found.get("spec", {}).get("taints") or ())
