"""Suppression on the nodes: each second the rules of `dra.engine.suppression`, on a kernel that others write, too.

`SuppressedNode` is one node with its kernel and its agent, `Suppressors` the agents of all nodes in one component. The
kernel outlives its agent. What must never be is checked after each second:

- A second after the agent has seen it, the class has no more than the budget, but for what is always left to it.
- When others leave more for a while, the class has it within the seconds that the steps need: nobody starves for good.
- Off, or without a pod of the class, nothing is left of any limit.
- Without samples the class ends at the floor, neither free nor starved.
- Where nothing changes, nothing is written.
"""

import asyncio
from collections import deque
from dataclasses import dataclass, field
from math import ceil
from typing import TYPE_CHECKING, Any, Final

from dra.api.colocation.strategies import SuppressPolicy, ThresholdStrategy
from dra.engine.cpus.cpusets import CpuSet
from dra.engine.suppression.budget import FLOOR_PERCENT, PodCpuUse, best_effort_budget
from dra.engine.suppression.decide import (
    CpuCandidates,
    Suppression,
    SuppressionView,
    decide_suppression,
)
from tests.dra.engine.cpus.uniform import uniform_topology
from tests.dra.engine.simulation.violation import Violation
from tests.simulation.colocation import nodes
from tests.simulation.colocation.initial_state import SimulatedNode
from tests.simulation.colocation.kernel import Kernel, Second

if TYPE_CHECKING:
    from tests.simulation.colocation.cluster import ColocatedCluster

REACTION: Final = 3
"""Seconds from a change to the last write that it causes, without steps."""

STEPS: Final = 14
"""Seconds in which the class comes from nothing to all of a machine, in steps of a tenth, and some to spare."""

HOLD_AFTER: Final = 10.0
FLOOR_AFTER: Final = 60.0
"""Seconds without samples after which nothing is decided by the last one, and after which the class is at its floor."""

LEAST_MILLI: Final = 20
"""Milli-CPUs of the least quota."""
LEAST_CPUS: Final = 2
IGNORED_PERCENT: Final = 1


@dataclass
class SuppressedNode:
    """A node with its kernel, and what its agent knows."""

    node: SimulatedNode
    kernel: Kernel
    load: float = 1.0
    """Factor of what pods that are no batch pods would use."""
    blind_since: float | None = None
    """Time since which the agent has no samples; None while it has."""
    ours: int | None = None
    """The quota that this life of the agent has written last."""
    started_at: float = 0.0
    sampled_at: float | None = None
    budget: int | None = None
    second: Second = field(default_factory=lambda: Second(others=0, system=0, batch=0))
    recent: deque[tuple[Any, ...]] = field(default_factory=lambda: deque(maxlen=STEPS + 1))
    """What was so in the last seconds: whether the agent decided, strategy, budget, limit, writes, demands."""

    def restart(self, now: float) -> None:
        """Begin a life of the agent: what it knew is gone, what the kernel has is not."""
        self.ours, self.sampled_at, self.budget, self.started_at = None, None, None, now
        self.recent.clear()

    def run(self, *, others: int, batch: int) -> None:
        """Let a second pass."""
        self.second = self.kernel.run(others=round(others * self.load), system=self.node.system_cpu, batch=batch)

    def step(self, strategy: ThresholdStrategy, *, has_pods: bool, now: float) -> Suppression:
        """Decide and write as the agent does each second; raise Violation for what must not be."""
        capacity = self.node.cpus * 1000
        if self.blind_since is None:
            self.sampled_at = now
            self.budget = best_effort_budget(
                capacity_milli=capacity,
                pods=(
                    PodCpuUse(self.second.others, is_best_effort=False),
                    PodCpuUse(self.second.batch, is_best_effort=True),
                ),
                system_milli=self.second.system,
                threshold_percent=strategy.cpu_suppress_threshold_percent,
                min_percent=strategy.cpu_suppress_min_percent,
            ).result
        age = now - (self.started_at if self.sampled_at is None else self.sampled_at)
        topology = uniform_topology(cores=self.node.cpus)
        limited = self.kernel.batch_cpus != self.kernel.all_cpus
        decision = decide_suppression(
            SuppressionView(
                strategy=strategy,
                has_pods=has_pods,
                capacity_milli=capacity,
                sample_age=age,
                budget_milli=self.budget,
                quota=self.kernel.quota,
                ours=self.ours,
                candidates=CpuCandidates(topology=topology, shared=CpuSet(range(self.node.cpus))),
                cpus=CpuSet(self.kernel.batch_cpus) if limited else CpuSet(()),
            )
        )
        before = self.kernel.writes
        self._write(decision)
        self._check(strategy, has_pods=has_pods, age=age, writes=self.kernel.writes - before)
        return decision

    def _write(self, decision: Suppression) -> None:
        if decision.quota != self.kernel.quota:
            self.kernel.write_quota(decision.quota)
        self.ours = decision.quota
        wanted = frozenset(decision.cpus) or self.kernel.all_cpus
        if wanted != self.kernel.batch_cpus:
            self.kernel.write_cpus(wanted)

    def _check(self, strategy: ThresholdStrategy, *, has_pods: bool, age: float, writes: int) -> None:
        limit, capacity, name = self.kernel.limit_milli, self.node.cpus * 1000, self.node.name
        self.recent.append((strategy, has_pods, self.budget if age == 0 else None, limit, writes))
        if self.kernel.refused:
            raise Violation(f"node {name}: the kernel refuses what suppression writes")
        last = [*self.recent][-REACTION:]
        if len(last) == REACTION and all(not each[0].enable or not each[1] for each in last) and limit != capacity:
            raise Violation(f"node {name}: suppression has nothing to do, and the class is limited to {limit}")
        if not strategy.enable or not has_pods:
            return
        ignored, floor = capacity * IGNORED_PERCENT // 100, self._floor(strategy)
        always = LEAST_CPUS * 1000 if strategy.cpu_suppress_policy is SuppressPolicy.CPUSET else LEAST_MILLI
        budgets = [each[2] for each in last if each[0] == strategy and each[2] is not None]
        if len(budgets) == REACTION:
            unit = 1000 if strategy.cpu_suppress_policy is SuppressPolicy.CPUSET else 1
            most = max(ceil(max(budgets) / unit) * unit, always)
            if limit > most + ignored:
                raise Violation(f"node {name}: the class may use {limit}, and its budget was at most {most}")
        settled = [each[2] for each in self.recent if each[0] == strategy and each[1] and each[2] is not None]
        if len(settled) > STEPS and limit < min(*settled, capacity) - ignored:
            raise Violation(f"node {name}: the class starves with {limit}, and its budget is {min(settled)} at least")
        if age > FLOOR_AFTER + STEPS and not floor - ignored <= limit <= max(floor, always) + 1000:
            raise Violation(f"node {name}: the class has {limit} without samples, and its floor is {floor}")
        whole = len(self.recent) > STEPS and len({each[:3] for each in self.recent}) == 1
        if whole and writes and age < HOLD_AFTER:
            raise Violation(f"node {name}: nothing has changed, and suppression writes")

    def _floor(self, strategy: ThresholdStrategy) -> int:
        percent = FLOOR_PERCENT if strategy.cpu_suppress_min_percent is None else strategy.cpu_suppress_min_percent
        return self.node.cpus * 10 * percent


class Suppressors:
    """The agents of all nodes, as far as they hold back batch pods."""

    def __init__(self, cluster: "ColocatedCluster") -> None:
        self._cluster = cluster

    async def run(self) -> None:
        """Step each second until cancelled."""
        for node in self._cluster.suppressed.values():
            node.restart(self._cluster.clock.now())
        while True:
            await asyncio.sleep(1.0)
            for node in self._cluster.suppressed.values():
                self._step(node)

    def _step(self, node: SuppressedNode) -> None:
        batch, _ = demands(self._cluster, node.node.name)
        try:
            decision = node.step(self._cluster.suppression, has_pods=batch is not None, now=self._cluster.clock.now())
        except Violation as violation:
            self._cluster.failed(violation)
            return
        self._cluster.effects[f"suppression is {decision.level}"] += 1


def demands(cluster: "ColocatedCluster", name: str) -> tuple[int | None, int]:
    """Return the milli-CPUs that batch pods would use, None without one, and those that other pods would use."""
    batch: int | None = None
    others = 0
    for pod in cluster.pods.values():
        if pod["spec"].get("nodeName") != name or (used := nodes.usage(pod)) is None:
            continue
        if (pod["metadata"].get("labels") or {}).get(nodes.QOS) == "BE":
            batch = (batch or 0) + used[0]
        else:
            others += used[0]
    return batch, others


async def run_kernels(cluster: "ColocatedCluster") -> None:
    """Let seconds pass on all nodes, whether their agents run or not."""
    while True:
        await asyncio.sleep(1.0)
        for node in cluster.suppressed.values():
            batch, others = demands(cluster, node.node.name)
            node.run(others=others, batch=batch or 0)
