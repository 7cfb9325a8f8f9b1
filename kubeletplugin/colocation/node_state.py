"""The node as the parts of the agent see it, once a second.

`NodeAgent` assembles a `NodeState` each second, from its informers and from the latest samples, and passes it to each
part in turn::

    class SomePart:
        name = "suppression"

        async def step(self, state: NodeState, now: Instant) -> None: ...

A part compares the state with what it wants and writes the difference; it keeps nothing that it could read. `step` is
called each second whether anything has changed or not: also while there are no samples, no strategies and no pods, so
that a part can undo what it did (strategy off, last batch pod gone) and notices that samples have stopped:
``now - state.sample.at``. What blocks for long belongs into ``asyncio.to_thread``. An exception of a part is logged,
counted, and does not concern other parts.

The parts are composed in `kubeletplugin.colocation.node_agent.create_parts`.
"""

from typing import Protocol, runtime_checkable

from dra.engine.instants import Instant
from dra.engine.suppression.decide import Suppression
from dra.engine.usage.samples import NodeSample
from dra.model.koordinator_classes import PriorityClass, QosClass
from dra.model.meta import Struct
from dra.model.node_pods import AgentNode, NodePod
from kubeletplugin.cgroups.cgroup_names import CgroupPath
from kubeletplugin.cgroups.pod_cgroups import PodHierarchies
from kubeletplugin.colocation.strategy_reader import NodeStrategies


class PodOnNode(Struct, frozen=True):
    """A pod of the node that has not ended, with its classes and its cgroup."""

    pod: NodePod
    qos: QosClass
    """Koordinator's QoS class: of the label, or the one that fits Kubernetes' class."""

    priority: PriorityClass

    cgroup: CgroupPath | None = None
    """Path below the cgroup of all pods, the same in each hierarchy; None while it does not exist."""

    has_containers: bool = False
    """Whether the pod's cgroup has cgroups of containers in it."""


class NodeState(Struct, frozen=True):
    """The node at one moment."""

    node: AgentNode | None
    """The Node's object; None before it is read."""

    pods: tuple[PodOnNode, ...]
    hierarchies: PodHierarchies | None
    """The trees of the pods' cgroups; None while the kubelet has none."""

    sample: NodeSample | None
    """The last sample; None before there are two readings."""

    strategies: NodeStrategies | None
    """What the ConfigMap koordinator-system/slo-controller-config asks of this node; None before it was read, and then
    nothing is changed: after a restart, nobody knows yet whether it is off."""


class AgentPart(Protocol):
    """A part of the agent that changes the node."""

    name: str

    async def step(self, state: NodeState, now: Instant) -> None:
        """Bring the node to what the state asks for; raises any exception for what is to be tried again."""
        ...


@runtime_checkable
class SuppressingPart(AgentPart, Protocol):
    """A part that holds the class BestEffort back."""

    @property
    def suppression(self) -> Suppression:
        """The decision on the class in the last step."""
        ...


@runtime_checkable
class RestoringPart(Protocol):
    """A part that undoes what it did to the node before the plugin stops."""

    def restore(self) -> None:
        """Undo all changes without waiting; what fails is logged."""
        ...
