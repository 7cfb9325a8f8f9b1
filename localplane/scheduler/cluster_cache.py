"""What a scheduler knows of the cluster: rooms with the pods in them, claims, devices and classes.

A pod that is about to be bound is in its room already (`assume`): until the watch shows it there, or its binding fails.
"""

from collections.abc import Sequence

from dra.engine.allocator import AllocationFailure, ClaimToAllocate, ResourceSliceTracker, allocate
from dra.engine.allocator.search import Solution
from dra.engine.scheduling.node_info import NodeInfo, pod_requests
from dra.model.device_classes import DeviceClass
from dra.model.meta import Uid
from dra.model.scheduling import SchedulerNode, SchedulerPod
from localplane.scheduler.claim_tracker import ClaimTracker
from localplane.schemas.releases import NEWEST, Release


class ClusterCache:
    """All of it."""

    def __init__(self, *, conditional: bool = False, release: Release = NEWEST) -> None:
        """``conditional``: devices with binding conditions are allocated, as if their drivers met them at once.

        ``release`` is the version of kube-scheduler that decides, as far as users see a difference.
        """
        self.conditional = conditional
        self.release = release
        self.claims = ClaimTracker()
        self.inventory = ResourceSliceTracker()
        self.classes: dict[str, DeviceClass] = {}
        self.classes_version = 0
        self._rooms: dict[str, NodeInfo] = {}
        self._order: tuple[NodeInfo, ...] | None = None
        self._places: dict[Uid, str] = {}

    @property
    def rooms(self) -> tuple[NodeInfo, ...]:
        """All nodes, in an order that changes only when nodes come and go."""
        if self._order is None:
            self._order = tuple(room for room in self._rooms.values() if room.known)
        return self._order

    def room(self, name: str) -> NodeInfo | None:
        """Return a node."""
        room = self._rooms.get(name)
        return room if room is not None and room.known else None

    def allocate(self, wanted: Sequence[ClaimToAllocate], room: NodeInfo) -> Solution | AllocationFailure:
        """Return devices of a node for all claims at once, or why there are none."""
        offer = self.inventory.offer(room.name, room.labels)
        ledger, shares = self.claims.ledger, self.claims.shares
        return allocate(wanted, offer=offer, ledger=ledger, shares=shares, conditional=self.conditional)

    def observe_host(self, host: SchedulerNode) -> NodeInfo | None:
        """Take in a node; return it if that may matter to a pod."""
        name = host.metadata.name
        room = self._rooms.setdefault(name, NodeInfo(name))
        if not room.known:
            self._order = None
        return room if room.observe(host) else None

    def remove_node(self, name: str) -> None:
        """The node is gone; its pods are not, until somebody says so."""
        room = self._rooms.get(name)
        if room is not None:
            room.known = False
            self._order = None
            if not room.pods:
                del self._rooms[name]

    def place(self, pod: SchedulerPod, node: str) -> None:
        """A pod runs on a node, or is assumed to."""
        uid = pod.metadata.uid
        if self._places.get(uid) == node:
            return
        self.displace(uid)
        self._places[uid] = node
        self._rooms.setdefault(node, NodeInfo(node)).add(uid, pod_requests(pod))

    def displace(self, uid: Uid) -> bool:
        """It does not; return whether that makes room."""
        node = self._places.pop(uid, None)
        return node is not None and self._rooms[node].remove(uid)

    def observe_class(self, found: DeviceClass) -> bool:
        """Take in a device class; return whether it is news."""
        name = found.metadata.name
        before = self.classes.get(name)
        self.classes[name] = found
        if before is not None and before.spec == found.spec:
            return False
        self.classes_version += 1
        return True

    def forget_class(self, name: str) -> None:
        """The class is gone."""
        if self.classes.pop(name, None) is not None:
            self.classes_version += 1
