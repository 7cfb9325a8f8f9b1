"""The snapshot as users' plugins see it: copies of pods and nodes, nothing to move, and an end.

A plugin that changes what it was given, by mistake, would change the caches of the descheduler. Pods and nodes are
copied when they are read, so that a plugin pays for what it looks at, and nobody else does. After the end of its turn,
a plugin whose thread goes on gets an error from whatever it reads.
"""

import copy
from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields
from typing import Any, Final, NoReturn

import msgspec

from dra.engine.descheduling.pods import DeschedulingPod
from dra.engine.descheduling.snapshot import Snapshot, SnapshotNode
from dra.engine.migration.pod_index import WorkloadKey
from dra.model.meta import OwnerReference, Uid
from dra.model.quantities import Amounts
from dra.model.scheduling import SchedulerNode

_ENCODER: Final = msgspec.msgpack.Encoder()
_POD_DECODER: Final = msgspec.msgpack.Decoder(DeschedulingPod)
_NODE_DECODER: Final = msgspec.msgpack.Decoder(SchedulerNode)


class TurnEndedError(RuntimeError):
    """The turn of a plugin is over."""


def copy_of(pod: DeschedulingPod) -> DeschedulingPod:
    """Return a copy of a pod that shares nothing with it."""
    return _POD_DECODER.decode(_ENCODER.encode(pod))


class PluginView:
    """The part of a snapshot that a user's plugin sees; the methods are those of `Snapshot`."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot: Snapshot | None = snapshot
        self.now = snapshot.now
        self.own_memory = snapshot.own_memory
        """What the plugin keeps until the next round."""

    def end_turn(self) -> None:
        """Answer no further question."""
        self._snapshot = None

    @property
    def _seen(self) -> Snapshot:
        if self._snapshot is None:
            raise TurnEndedError("the turn of the plugin is over")
        return self._snapshot

    @property
    def nodes(self) -> Mapping[str, SnapshotNode]:
        """The nodes by name, each copied when it is looked up."""
        return _NodeCopies(self)

    @property
    def moved(self) -> Mapping[Uid, str]:
        """Pod that moves → its target node."""
        return dict(self._seen.moved)

    def node(self, name: str) -> SnapshotNode:
        """Return a copy of a node with its pods. Raises KeyError."""
        return _copy_of_node(self._seen.nodes[name])

    def names(self) -> list[str]:
        """Return the names of all nodes."""
        return list(self._seen.nodes)

    def selected_nodes(self) -> list[SnapshotNode]:
        """Return copies of the nodes of the profile that are ready, by name."""
        return [_copy_of_node(host) for host in self._seen.selected_nodes()]

    def pods(self) -> Iterator[DeschedulingPod]:
        """Yield copies of all pods but those that move."""
        for pod in tuple(self._seen.pods()):
            if pod.metadata.uid not in self._seen.moved:
                yield copy_of(pod)

    def pod(self, uid: Uid) -> DeschedulingPod | None:
        """Return a copy of a pod, one that moves included; None if there is none of the uid."""
        pod = self._seen.pod(uid)
        return None if pod is None else copy_of(pod)

    def pods_of(self, workload: WorkloadKey) -> tuple[DeschedulingPod, ...]:
        """Return copies of all pods that name a workload as their controller."""
        return tuple(map(copy_of, self._seen.pods_of(workload)))

    def capacity(self, node: str) -> Amounts:
        """Return what a node has for pods, in billionths."""
        return dict(self._seen.capacity(node))

    def held(self, node: str) -> Amounts:
        """Return what Reservations hold on a node and no pod uses yet, in billionths."""
        return dict(self._seen.held(node))

    def requests(self, pod: DeschedulingPod) -> Amounts:
        """Return what a pod takes of its node, in billionths."""
        return dict(self._seen.requests(self._own(pod)))

    def age(self, pod: DeschedulingPod) -> int:
        """Return the age of a pod in whole seconds, rounded down."""
        return self._seen.age(pod)

    def owner(self, pod: DeschedulingPod) -> OwnerReference | None:
        """Return the controller of a pod; None for a bare pod."""
        return self._seen.owner(pod)

    def unfit_reason(self, pod: DeschedulingPod, node: str) -> str:
        """Return why a pod could not run on a node; empty if it could."""
        return self._seen.unfit_reason(self._own(pod), node)

    def fitting_node(self, pod: DeschedulingPod, *, among: Collection[str] | None = None) -> str:
        """Return the node other than its own that has the most free for a pod; empty if it fits on none."""
        return self._seen.fitting_node(self._own(pod), among=among)

    def move(self, pod: DeschedulingPod, node: str) -> NoReturn:
        """Raise TypeError: only the round moves pods."""
        raise TypeError(f"a plugin moves no pods ({'/'.join(pod.metadata.key)} to {node}): yield Evict(pod, reason=…)")

    def _own(self, pod: DeschedulingPod) -> DeschedulingPod:
        """Return the pod of the snapshot for a copy."""
        return self._seen.pod(pod.metadata.uid) or pod


class _NodeCopies(Mapping[str, SnapshotNode]):
    """The nodes of a view by name."""

    def __init__(self, view: PluginView) -> None:
        self._view = view

    def __getitem__(self, name: str) -> SnapshotNode:
        return self._view.node(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._view.names())

    def __len__(self) -> int:
        return len(self._view.names())


def _copy_of_node(host: SnapshotNode) -> SnapshotNode:
    apart = ("node", "pods", "arriving")
    values: dict[str, Any] = {
        field.name: getattr(host, field.name) for field in fields(host) if field.name not in apart
    }
    return SnapshotNode(
        node=_NODE_DECODER.decode(_ENCODER.encode(host.node)),
        pods={uid: copy_of(pod) for uid, pod in host.pods.items()},
        arriving={uid: copy_of(pod) for uid, pod in host.arriving.items()},
        **copy.deepcopy(values),
    )
