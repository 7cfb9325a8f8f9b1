"""The scheduler's cache of the cluster: nodes with their pods, claims, devices and device classes.

A pod that is about to be bound counts on its node already, until the watch shows the pod there or the binding fails.
"""

from collections.abc import Mapping, Sequence

from dra.engine.allocator import (
    AllocationFailure,
    ClaimToAllocate,
    FatalFailures,
    ResourceSliceTracker,
    allocate,
    allocator_release,
)
from dra.engine.allocator.search import Solution
from dra.engine.kube_scheduler.claim_tracker import ClaimTracker
from dra.engine.kube_scheduler.extended_resources import served_resources
from dra.engine.kube_scheduler.host_ports import pod_host_ports
from dra.engine.kube_scheduler.node_info import NodeInfo
from dra.engine.kube_scheduler.pod_requests import pod_requests
from dra.model.device_classes import DeviceClass
from dra.model.meta import Uid
from dra.model.releases import NEWEST, Release
from dra.model.scheduling import SchedulerNode, SchedulerPod


class ClusterCache:
    """The cluster's state that scheduling decisions are based on."""

    def __init__(
        self,
        *,
        allow_binding_conditions: bool = False,
        release: Release = NEWEST,
        serves_extended_resources: bool = True,
    ) -> None:
        """Create an empty cache. ``allow_binding_conditions``: allocate devices whose conditions are not met yet.

        ``release`` is the version of kube-scheduler whose decisions are reproduced, as far as users see a difference.
        ``serves_extended_resources``: devices serve extended resources of pods (DRAExtendedResource: on since 1.36).
        """
        self.serves_extended_resources = serves_extended_resources
        self.allow_binding_conditions = allow_binding_conditions
        self.release = release
        self.claims = ClaimTracker()
        self.inventory = ResourceSliceTracker(allocator_release(release))
        self.classes: dict[str, DeviceClass] = {}
        self.classes_version = 0
        self._served: Mapping[str, str] | None = None
        self._fatal_failures = FatalFailures()
        self._nodes: dict[str, NodeInfo] = {}
        self._order: tuple[NodeInfo, ...] | None = None
        self._node_of_pod: dict[Uid, str] = {}

    @property
    def nodes(self) -> tuple[NodeInfo, ...]:
        """Return all nodes, in an order that changes only when nodes are added or removed."""
        if self._order is None:
            self._order = tuple(node_info for node_info in self._nodes.values() if node_info.known)
        return self._order

    def node_info(self, name: str) -> NodeInfo | None:
        """Return a known node by name."""
        node_info = self._nodes.get(name)
        return node_info if node_info is not None and node_info.known else None

    @property
    def served_resources(self) -> Mapping[str, str]:
        """The extended resources that devices serve, each with its DeviceClass."""
        if self._served is None:
            self._served = served_resources(self.classes.values()) if self.serves_extended_resources else {}
        return self._served

    def allocate(self, claims: Sequence[ClaimToAllocate], node_info: NodeInfo) -> Solution | AllocationFailure:
        """Allocate devices of a node for all claims at once, or return the reason of the failure."""
        offer = self.inventory.node_devices(node_info.name, node_info.labels)
        ledger, shares = self.claims.ledger, self.claims.shares
        return allocate(
            claims,
            node_devices=offer,
            ledger=ledger,
            consumed_capacity=shares,
            allow_binding_conditions=self.allow_binding_conditions,
        )

    def fatal_failure(self, claims: Sequence[ClaimToAllocate], node_info: NodeInfo) -> AllocationFailure | None:
        """Return why kube-scheduler gives up a pod with these claims when it looks at a node, if it does."""
        offer = self.inventory.node_devices(node_info.name, node_info.labels)
        if not self._fatal_failures.are_possible(claims, offer):
            return None
        solution = self.allocate(claims, node_info)
        return solution if isinstance(solution, AllocationFailure) and solution.fatal else None

    def update_node(self, node: SchedulerNode) -> NodeInfo | None:
        """Store a node; return the node if the change may make a pod schedulable."""
        name = node.metadata.name
        node_info = self._nodes.setdefault(name, NodeInfo(name))
        if not node_info.known:
            self._order = None
        return node_info if node_info.observe(node) else None

    def remove_node(self, name: str) -> None:
        """Remove a node; its pods stay until their own deletion is observed."""
        node_info = self._nodes.get(name)
        if node_info is not None:
            node_info.forget()
            self._order = None
            if not node_info.pods:
                del self._nodes[name]

    def add_pod(self, pod: SchedulerPod, node: str) -> None:
        """Count a pod on a node that the pod runs on or is assumed to run on."""
        uid = pod.metadata.uid
        if self._node_of_pod.get(uid) == node:
            return
        self.remove_pod(uid)
        self._node_of_pod[uid] = node
        amounts = pod_requests(pod, release=self.inventory.release)
        self._nodes.setdefault(node, NodeInfo(node)).add(uid, amounts, host_ports=pod_host_ports(pod))

    def remove_pod(self, uid: Uid) -> bool:
        """Remove a pod from its node; return whether that frees resources."""
        node = self._node_of_pod.pop(uid, None)
        return node is not None and self._nodes[node].remove(uid)

    def update_class(self, device_class: DeviceClass) -> bool:
        """Store a device class; return whether its spec is new."""
        name = device_class.metadata.name
        before = self.classes.get(name)
        self.classes[name] = device_class
        if before is not None and before.spec == device_class.spec:
            return False
        self.classes_version += 1
        self._served = None
        return True

    def remove_class(self, name: str) -> None:
        """Remove a device class that was deleted."""
        if self.classes.pop(name, None) is not None:
            self.classes_version += 1
            self._served = None
