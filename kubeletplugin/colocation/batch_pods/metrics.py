"""Prometheus metrics of batch pods on their node. No label names a pod."""

from math import inf
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge

from dra.api.colocation.strategies import SuppressPolicy
from dra.engine.suppression.decide import Suppression, SuppressionLevel
from dra.engine.suppression.writes import CgroupFile

LEVELS: Final = {
    SuppressionLevel.OFF: "off",
    SuppressionLevel.HELD_BACK: "held-back",
    SuppressionLevel.HOLDING: "holding",
    SuppressionLevel.FLOOR: "floor",
}
"""Values of the label ``level``."""

_MILLI: Final = 1000


class BatchPodMetrics:
    """The metrics of batch pods, in the registry of the plugin."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._level = Gauge(
            "dra_reserve_node_suppression",
            "1 for the way in which pods of the class BestEffort are held back now: by the budget, as before without "
            "samples, at the floor without samples, or off",
            ["level"],
            registry=registry,
        )
        self._limit = Gauge(
            "dra_reserve_node_best_effort_limit_cpus",
            "CPUs that all pods of the class BestEffort may use together; +Inf while they are not held back",
            registry=registry,
        )
        self._budget = Gauge(
            "dra_reserve_node_best_effort_budget_cpus",
            "CPUs that other pods and the system leave to the class BestEffort; +Inf while nothing is held back",
            registry=registry,
        )
        self.limited_pods = Gauge(
            "dra_reserve_node_batch_pods", "Pods of the node with batch resources", registry=registry
        )
        self.memory_over_limit = Gauge(
            "dra_reserve_node_batch_memory_over_limit",
            "Cgroups of batch pods that use more memory than their limit, which is therefore not in force",
            registry=registry,
        )
        self.reset_by_others = Counter(
            "dra_reserve_node_batch_values_reset_by_others",
            "Values of cgroups of batch pods that another process has replaced and that were written again",
            ["value"],
            registry=registry,
        )
        self.refused = Counter(
            "dra_reserve_node_batch_writes_refused",
            "Writes to cgroups of batch pods that the kernel refused and that are tried again",
            ["value"],
            registry=registry,
        )
        for file in CgroupFile:
            self.reset_by_others.labels(file.value)
            self.refused.labels(file.value)

    def observe(self, suppression: Suppression, *, period: int) -> None:
        """Set the gauges to what was decided."""
        for level, label in LEVELS.items():
            self._level.labels(label).set(level is suppression.level)
        limit = inf
        if suppression.policy is SuppressPolicy.CPUSET and suppression.cpus:
            limit = len(suppression.cpus)
        elif suppression.quota is not None:
            limit = suppression.quota / period
        self._limit.set(limit)
        self._budget.set(inf if suppression.budget_milli is None else suppression.budget_milli / _MILLI)
