"""The changes of the cluster that start a round at once, instead of at the end of the interval.

A node that joins, or changes in what decides about pods; a pod that kube-scheduler cannot place; a report of a node
that is above a high threshold. A plugin may name further changes by rules in CEL, as `Trigger`.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple

import msgspec

from dra.api.reservations.well_known import ANNOTATION_NODE_RESERVATION
from dra.cel.object_rules import CompiledRule, RuleError
from dra.engine.colocation.node_usage import UNKNOWN, Usage
from dra.engine.colocation.watched import reported_usage
from dra.model import quantities
from dra.model.meta import Struct, Uid
from dra.model.node_metrics import NodeMetric
from dra.model.pods import POD_SCHEDULED, Pod
from dra.model.quantities import Amounts
from dra.model.scheduling import SchedulerNode

PERCENT: Final = 100


class TriggerKind(StrEnum):
    """The kind of the object that a trigger looks at."""

    NODE = "Node"
    POD = "Pod"
    NODE_METRIC = "NodeMetric"


class Trigger(Struct, frozen=True):
    """A change that starts a round: an object of a kind for which a rule becomes true."""

    kind: str
    """A `TriggerKind`: Node, Pod or NodeMetric."""
    when: str
    """A rule in CEL: ``object.metadata.labels['pool'] == 'spot'``; a field that is absent makes it false."""


class CompiledTriggers:
    """The triggers of plugins. Raises MalformedRuleError on construction."""

    def __init__(self, triggers: Iterable[Trigger] = ()) -> None:
        self._rules: dict[TriggerKind, list[CompiledRule]] = {}
        for trigger in triggers:
            self._rules.setdefault(TriggerKind(trigger.kind), []).append(CompiledRule(trigger.when))
        self._true: dict[TriggerKind, dict[Uid, frozenset[int]]] = {kind: {} for kind in TriggerKind}
        """Kind → object → positions of the rules that are true for it, if any are."""

    def fires(self, kind: TriggerKind, obj: Any) -> bool:  # noqa: ANN401 - any struct with metadata
        """Return whether a rule has become true for an object; a rule that stays true starts no further round."""
        rules = self._rules.get(kind)
        if not rules:
            return False
        seen, uid = self._true[kind], obj.metadata.uid
        before = seen.pop(uid, frozenset())
        content = msgspec.to_builtins(obj)
        now = frozenset(position for position, rule in enumerate(rules) if _holds(rule, content))
        if now:
            seen[uid] = now
        return not now <= before

    def forget(self, kind: TriggerKind, uid: Uid) -> None:
        """Forget an object that is gone."""
        self._true[kind].pop(uid, None)


def _holds(rule: CompiledRule, content: Mapping[str, Any]) -> bool:
    try:
        return rule.holds(content)
    except RuleError:  # the rule has no result for this object: no reason for a round
        return False


class NodeTraits(NamedTuple):
    """The traits of a node that decide where pods can run; heartbeats of the kubelet change none."""

    uid: Uid
    ready: bool
    taints: tuple[tuple[str, str, str], ...]
    labels: frozenset[tuple[str, str]]
    allocatable: frozenset[tuple[str, int]]
    reservation: str


def node_traits(node: SchedulerNode) -> NodeTraits:
    """Return the traits of a node."""
    return NodeTraits(
        uid=node.metadata.uid,
        ready=node.ready,
        taints=tuple(sorted((taint.key, taint.value, taint.effect) for taint in node.spec.filtering_taints)),
        labels=frozenset((node.metadata.labels or {}).items()),
        allocatable=frozenset(quantities.from_validated_list(node.status.allocatable).items()),
        reservation=node.metadata.annotation(ANNOTATION_NODE_RESERVATION) or "",
    )


def is_unschedulable(pod: Pod) -> bool:
    """Return whether kube-scheduler has found no node for a pod."""
    if pod.spec.node_name or pod.terminal or pod.metadata.deleting:
        return False
    scheduled = pod.condition(POD_SCHEDULED)
    return scheduled is not None and scheduled.status == "False" and scheduled.reason == "Unschedulable"


def hot_thresholds(arguments: Iterable[object]) -> dict[str, float]:
    """Return the lowest high threshold of each resource in the arguments of plugins, in percent of allocatable."""
    lowest: dict[str, float] = {}
    for args in arguments:
        for resource, percent in (getattr(args, "high_thresholds", None) or {}).items():
            lowest[resource] = min(percent, lowest.get(resource, percent))
    return lowest


def is_hot(metric: NodeMetric, allocatable: Amounts, *, thresholds: Mapping[str, float]) -> bool:
    """Return whether a node reports more than a threshold of what it can allocate."""
    usage = reported_usage(metric)
    if usage is None or usage.system == UNKNOWN:
        return False
    used = sum((pod.usage for pod in usage.pods), start=usage.system)
    return any(
        percent > 0 and _share(read(used), allocatable.get(resource, 0)) > percent
        for resource, read in _READ.items()
        if (percent := thresholds.get(resource, 0.0))
    )


_READ: Final[Mapping[str, Callable[[Usage], int | None]]] = {
    "cpu": lambda usage: usage.cpu,
    "memory": lambda usage: usage.memory,
}


def _share(used: int | None, allocatable: int) -> float:
    return 0.0 if used is None or allocatable <= 0 else PERCENT * used / allocatable
