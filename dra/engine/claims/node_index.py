"""The index of nodes, as far as allocations and sandboxes depend on nodes."""

from enum import Flag, auto
from typing import NamedTuple

from dra.engine.claims.view import LostNode, UsableNodes
from dra.engine.instants import NEVER, Instant
from dra.model import autoscalers, nodes, pods
from dra.model.autoscalers import DeletionSign
from dra.model.meta import Uid
from dra.model.nodes import Node, NodeSelector
from dra.model.pods import Pod


class NodeChange(Flag):
    """The kinds of change that an observation of a node made."""

    NOTHING = 0
    REACH = auto()  # labels, readiness, cordon, out of service: changes where allocations are usable
    BOOT = auto()  # a new bootID: the sandboxes of its pods are gone
    DELETION = auto()  # another sign of deletion by an autoscaler, or the node appeared or was deleted


class _NodeState(NamedTuple):
    labels: dict[str, str] | None
    usable: bool
    ready: bool
    out_of_service: bool
    boot: str
    version: str
    """The resourceVersion last seen."""

    ready_since: Instant | None
    """Since when its kubelet has reported in without a break, as far as observed."""

    sign: DeletionSign | None
    """Sign that an autoscaler may delete the node."""

    read: Instant = -NEVER
    """When the node was last read live."""

    @property
    def reach(self) -> tuple[object, ...]:
        """Return the fields that claims may depend on."""
        return (self.labels, self.usable, self.ready, self.out_of_service)


class NodeIndex:
    """The index of all nodes by name.

    ``version`` changes whenever the nodes that an allocation reaches may have changed.
    """

    def __init__(self) -> None:
        self.version = 0
        self._states: dict[str, _NodeState] = {}
        self._usable: set[str] = set()

    def observe(self, node: Node, *, now: Instant) -> NodeChange:
        """Record a node; heartbeats change nothing."""
        name = node.metadata.name
        before = self._states.get(name)
        since = before.ready_since if before is not None and before.ready_since is not None else now
        state = _NodeState(
            labels=node.metadata.labels,
            usable=node.ready and not node.spec.unschedulable and not node.metadata.deleting,
            ready=node.ready,
            out_of_service=node.out_of_service,
            boot=node.status.node_info.boot_id,
            version=node.metadata.resource_version,
            ready_since=since if node.ready else None,
            sign=autoscalers.deletion_sign(node),
            read=before.read if before is not None else -NEVER,
        )
        self._states[name] = state
        (self._usable.add if state.usable else self._usable.discard)(name)
        change = NodeChange.NOTHING
        if before is None or before.reach != state.reach:
            self.version += 1
            change |= NodeChange.REACH
        if before is None or before.sign is not state.sign:
            change |= NodeChange.DELETION
        # Also when the node is new to the index: its pods may have been seen before it, or it may be back after a
        # deletion.
        rebooted = bool(state.boot) and (before is None or before.boot != state.boot)
        return change | (NodeChange.BOOT if rebooted else NodeChange.NOTHING)

    def observe_live_read(self, name: str, *, now: Instant) -> None:
        """Record that the known state of a node was confirmed by a live read."""
        state = self._states.get(name)
        if state is not None:
            self._states[name] = state._replace(read=now)

    def forget(self, name: str) -> NodeChange:
        """Forget a deleted node; its pods stay until a pod observation removes them."""
        if self._states.pop(name, None) is None:
            return NodeChange.NOTHING
        self._usable.discard(name)
        self.version += 1
        return NodeChange.REACH | NodeChange.DELETION

    def versions(self) -> tuple[tuple[str, str], ...]:
        """Return the names of all nodes with their last seen resourceVersions."""
        return tuple((name, state.version) for name, state in self._states.items())

    def boot_id(self, name: str) -> str:
        """Return the bootID of a node; empty if unknown."""
        state = self._states.get(name)
        return state.boot if state is not None else ""

    def ready(self, name: str) -> bool:
        """Return whether the node exists and its kubelet reports in."""
        state = self._states.get(name)
        return state is not None and state.ready

    def deletion_sign(self, name: str) -> DeletionSign | None:
        """Return the sign that an autoscaler may delete the node; None if the node shows none or does not exist."""
        state = self._states.get(name)
        return state.sign if state is not None else None

    def lost_node(self, name: str, boot: str) -> LostNode | None:
        """Return the state of a node on which pods of that boot may still run; None if they certainly do not.

        A deleted Node object means that the machine is gone, the out-of-service taint that it is shut down, another
        bootID that nothing from before is left.
        """
        state = self._states.get(name)
        if state is None or state.out_of_service or (boot and state.boot and state.boot != boot):
            return None
        return LostNode(name=name, boot_id=boot, ready_since=state.ready_since, live_read_at=state.read)

    def not_ready(self, names: frozenset[str] | None) -> tuple[str, ...]:
        """Return the nodes that do not report in and may still run pods; ``names`` None selects all nodes."""
        asked = self._states if names is None else sorted(names & self._states.keys())
        return tuple(n for n in asked if not self._states[n].ready and not self._states[n].out_of_service)

    def __contains__(self, name: str) -> bool:
        return name in self._states

    def reachable_nodes(self, selector: NodeSelector) -> tuple[frozenset[str], UsableNodes]:
        """Return the nodes that a selector matches, and the numbers of usable nodes inside and outside."""
        names = nodes.selected_node_names(selector)
        asked = self._states.keys() if names is None else names & self._states.keys()
        inside = frozenset(
            name for name in asked if nodes.matches_node_selector(selector, name=name, labels=self._states[name].labels)
        )
        usable = len(self._usable & inside)
        return inside, UsableNodes(
            inside=usable,
            outside=len(self._usable) - usable,
            all_deleted=nodes.are_all_deleted(selector, existing=self._states.keys()),
        )


class _Boot(NamedTuple):
    """The boot of its node in which a pod's sandbox was ready, and the transition time that the kubelet reported."""

    boot: str
    transition: str | None


class SandboxTracker:
    """The pods whose sandbox is ready and was made since their node last booted.

    After a reboot the condition stays True in the API until the kubelet's first sync: only a new transition time, or a
    False in between, proves a new sandbox.
    """

    def __init__(self) -> None:
        self._boots: dict[Uid, _Boot] = {}

    def started(self, pod: Pod, *, boot: str) -> bool:
        """Record a pod whose node has that bootID; return whether the pod's sandbox is ready."""
        uid = pod.metadata.uid
        condition = pod.condition(pods.POD_READY_TO_START_CONTAINERS)
        if condition is None or condition.status != "True":
            self._boots.pop(uid, None)
            return False
        known = self._boots.get(uid)
        if known is None or known.transition != condition.last_transition_time:
            self._boots[uid] = _Boot(boot, condition.last_transition_time)
            return True
        return known.boot in {"", boot} or not boot

    def rebooted(self, uid: Uid, *, boot: str) -> bool:
        """Record the present bootID of the pod's node; return whether the sandbox is gone."""
        known = self._boots.get(uid)
        if known is None:
            return False
        if not known.boot:
            self._boots[uid] = _Boot(boot, known.transition)
        return known.boot not in {"", boot}

    def forget(self, uid: Uid) -> None:
        """Forget the pod and its sandbox."""
        self._boots.pop(uid, None)
