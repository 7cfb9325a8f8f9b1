"""Nodes, as far as allocations and sandboxes depend on them."""

from enum import Flag, auto
from typing import NamedTuple

from dra.engine.claims.view import LostNode, UsableNodes
from dra.engine.instants import NEVER, Instant
from dra.model import nodes, pods
from dra.model.meta import Uid
from dra.model.nodes import Node, NodeSelector
from dra.model.pods import Pod


class NodeChange(Flag):
    """What an observation of a node changed."""

    NOTHING = 0
    REACH = auto()  # labels, readiness, cordon, out of service: which allocations can be used where
    BOOT = auto()  # a new bootID: the sandboxes of its pods are gone


class _NodeState(NamedTuple):
    labels: dict[str, str] | None
    usable: bool
    ready: bool
    out_of_service: bool
    boot: str
    version: str
    """The resourceVersion that was last seen."""

    ready_since: Instant | None
    """Since when its kubelet reports in without a break, as far as we have seen."""

    read: Instant = -NEVER
    """When a live read last told of the node."""

    @property
    def reach(self) -> tuple[object, ...]:
        """What claims may depend on."""
        return (self.labels, self.usable, self.ready, self.out_of_service)


class NodeIndex:
    """All nodes by name. ``version`` changes with everything that may change which nodes an allocation reaches."""

    def __init__(self) -> None:
        self.version = 0
        self._states: dict[str, _NodeState] = {}
        self._usable: set[str] = set()

    def observe(self, node: Node, *, now: Instant) -> NodeChange:
        """Take in a node; heartbeats change nothing."""
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
            read=before.read if before is not None else -NEVER,
        )
        self._states[name] = state
        (self._usable.add if state.usable else self._usable.discard)(name)
        if before is None or before.reach != state.reach:
            self.version += 1
            reach = NodeChange.REACH
        else:
            reach = NodeChange.NOTHING
        # Also when the node is new here: its pods may have been seen before it, or it may be back after a deletion.
        rebooted = bool(state.boot) and (before is None or before.boot != state.boot)
        return reach | (NodeChange.BOOT if rebooted else NodeChange.NOTHING)

    def read(self, name: str, *, now: Instant) -> None:
        """What is known of a node is from a live read."""
        state = self._states.get(name)
        if state is not None:
            self._states[name] = state._replace(read=now)

    def forget(self, name: str) -> NodeChange:
        """The node is gone; its pods are not, until somebody says so."""
        if self._states.pop(name, None) is None:
            return NodeChange.NOTHING
        self._usable.discard(name)
        self.version += 1
        return NodeChange.REACH

    def versions(self) -> tuple[tuple[str, str], ...]:
        """Return the names of all nodes, and the resourceVersion last seen of each."""
        return tuple((name, state.version) for name, state in self._states.items())

    def boot(self, name: str) -> str:
        """Return the bootID of a node, empty if it is not known."""
        state = self._states.get(name)
        return state.boot if state is not None else ""

    def ready(self, name: str) -> bool:
        """Whether the node is there and its kubelet reports in."""
        state = self._states.get(name)
        return state is not None and state.ready

    def lost(self, name: str, boot: str) -> LostNode | None:
        """Return what is known of a node on which pods of that boot may still run; None if they certainly do not.

        A Node object that is gone says that there is no such machine, the taint that it is shut down, another bootID
        that nothing of before is left.
        """
        state = self._states.get(name)
        if state is None or state.out_of_service or (boot and state.boot and state.boot != boot):
            return None
        return LostNode(name=name, boot=boot, ready_since=state.ready_since, read=state.read)

    def silent(self, names: frozenset[str] | None) -> tuple[str, ...]:
        """Return those of the nodes (None: of all) that do not report in and may run pods all the same."""
        asked = self._states if names is None else sorted(names & self._states.keys())
        return tuple(n for n in asked if not self._states[n].ready and not self._states[n].out_of_service)

    def __contains__(self, name: str) -> bool:
        return name in self._states

    def reach(self, selector: NodeSelector) -> tuple[frozenset[str], UsableNodes]:
        """Return the nodes that a selector matches, and how many usable ones are inside and outside."""
        names = nodes.selected_node_names(selector)
        asked = self._states.keys() if names is None else names & self._states.keys()
        inside = frozenset(
            name for name in asked if nodes.matches_node_selector(selector, name=name, labels=self._states[name].labels)
        )
        usable = len(self._usable & inside)
        return inside, UsableNodes(inside=usable, outside=len(self._usable) - usable)


class _Boot(NamedTuple):
    """Which boot of its node a pod's sandbox was ready in, and since when by the kubelet's own word."""

    boot: str
    transition: str | None


class SandboxTracker:
    """Which pods have a sandbox that is ready, and was made since their node last booted.

    After a reboot the API keeps saying True until the kubelet's first sync (specs/dra-upstream.md §5): only a new
    transition time, or a False in between, tells of a new sandbox.
    """

    def __init__(self) -> None:
        self._boots: dict[Uid, _Boot] = {}

    def started(self, pod: Pod, *, boot: str) -> bool:
        """Take in a pod whose node has that bootID and return whether its sandbox is ready."""
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
        """The pod's node has that bootID now; return whether the sandbox is gone."""
        known = self._boots.get(uid)
        if known is None:
            return False
        if not known.boot:
            self._boots[uid] = _Boot(boot, known.transition)
        return known.boot not in {"", boot}

    def forget(self, uid: Uid) -> None:
        """The pod is gone."""
        self._boots.pop(uid, None)
