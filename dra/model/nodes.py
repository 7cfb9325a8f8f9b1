"""Nodes and node selectors, with the rules by which selectors match nodes."""

from collections.abc import Set as AbstractSet
from typing import Final

import msgspec

from dra.model.meta import ObjectMeta, Struct

LEASE_NAMESPACE: Final = "kube-node-lease"
"""Namespace of the leases that kubelets renew."""

OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"
"""Taint with which an administrator confirms that the machine is shut down: upstream then force-deletes its pods."""


_FILTERING_EFFECTS: Final = frozenset({"NoSchedule", "NoExecute"})


class Taint(Struct, frozen=True):
    """``spec.taints[]`` of a Node."""

    key: str = ""
    value: str = ""
    effect: str = ""

    def __str__(self) -> str:
        return f"{{{self.key}: {self.value}}}"


UNSCHEDULABLE_TAINT: Final = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
"""Taint that represents a cordoned node to the scheduler."""


class NodeSpec(Struct, frozen=True):
    """``spec`` of a Node."""

    unschedulable: bool = False
    taints: list[Taint] | None = None

    @property
    def filtering_taints(self) -> tuple[Taint, ...]:
        """The taints that keep pods off the node, that of a cordoned node included."""
        taints = tuple(taint for taint in self.taints or () if taint.effect in _FILTERING_EFFECTS)
        if self.unschedulable and not any(taint.key == UNSCHEDULABLE_TAINT.key for taint in taints):
            return (UNSCHEDULABLE_TAINT, *taints)
        return taints


class NodeSystemInfo(Struct, frozen=True):
    """``status.nodeInfo`` of a Node: a new bootID means that every sandbox of the node is gone."""

    boot_id: str = msgspec.field(default="", name="bootID")


class NodeCondition(Struct, frozen=True):
    """``status.conditions[]`` of a Node."""

    type: str = ""
    status: str = ""


class NodeStatus(Struct, frozen=True):
    """``status`` of a Node."""

    node_info: NodeSystemInfo = NodeSystemInfo()
    conditions: list[NodeCondition] | None = None


class Node(Struct, frozen=True):
    """A Node, as far as claims depend on nodes."""

    metadata: ObjectMeta
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def ready(self) -> bool:
        """Whether the node is ready: its kubelet reports."""
        return any(c.type == "Ready" and c.status == "True" for c in self.status.conditions or ())

    @property
    def out_of_service(self) -> bool:
        """Whether an administrator has confirmed that nothing runs on the node any longer."""
        return any(taint.key == OUT_OF_SERVICE for taint in self.spec.taints or ())


class NodeSelectorRequirement(Struct, frozen=True):
    """A requirement on a label (``matchExpressions``) or on a field (``matchFields``, only ``metadata.name``)."""

    key: str = ""
    operator: str = ""
    values: list[str] | None = None

    def matches(self, value: str | None) -> bool:
        """Report whether a value satisfies the requirement; None stands for a missing label or field."""
        values = self.values or []
        match self.operator:
            case "In":
                return value is not None and value in values
            case "NotIn":
                return value is None or value not in values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case "Gt" | "Lt":
                return compare_integers(self.operator, value, values)
            case _:
                return False


class NodeSelectorTerm(Struct, frozen=True):
    """A term of a node selector: all its requirements must hold; a term without any matches nothing."""

    match_expressions: list[NodeSelectorRequirement] | None = None
    match_fields: list[NodeSelectorRequirement] | None = None


class NodeSelector(Struct, frozen=True):
    """``allocation.nodeSelector``: a node selector, of which one matching term is enough."""

    node_selector_terms: list[NodeSelectorTerm] = msgspec.field(default_factory=list)


def compare_integers(operator: str, value: str | None, values: list[str]) -> bool:
    """Report whether a value is greater (``Gt``) or less (``Lt``) than the first of `values`; False for other texts."""
    try:
        actual, bound = int(value or ""), int(values[0])
    except (ValueError, IndexError):
        return False
    return actual > bound if operator == "Gt" else actual < bound


def matches_node_selector(selector: NodeSelector | None, *, name: str, labels: dict[str, str] | None) -> bool:
    """Report whether a node satisfies the selector (component-helpers ``nodeaffinity``); None selects every node."""
    if selector is None:
        return True
    labels = labels or {}
    for term in selector.node_selector_terms:
        expressions, fields = term.match_expressions or [], term.match_fields or []
        if (
            (expressions or fields)
            and all(e.matches(labels.get(e.key)) for e in expressions)
            and all(f.matches(name if f.key == "metadata.name" else None) for f in fields)
        ):
            return True
    return False


def selected_node_names(selector: NodeSelector) -> frozenset[str] | None:
    """Return the only names that nodes selected by the selector can have; None if it does not select by names.

    Devices of one node result in selectors with one name, so that callers need not check all nodes of a cluster.
    """
    names: set[str] = set()
    for term in selector.node_selector_terms:
        wanted = [f.values or [] for f in term.match_fields or () if (f.key, f.operator) == ("metadata.name", "In")]
        if not wanted and (term.match_expressions or term.match_fields):
            return None
        names.update(wanted[0] if wanted else ())
    return frozenset(names)


def are_all_deleted(selector: NodeSelector | None, *, existing: AbstractSet[str]) -> bool:
    """Return whether a selector selects nodes by their names, and no Node object of these names exists."""
    names = selected_node_names(selector) if selector is not None else None
    return bool(names) and not any(name in existing for name in names or ())  # isdisjoint would visit every node
