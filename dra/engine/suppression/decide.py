"""Whether and how far the class BestEffort is held back now.

==========================  =========================================================================================
switched off                nothing of ours stays: no quota, no limit of CPUs
no pod of the class         the same
a sample of this moment     by the budget, in the steps of `quota` or `cpuset_choice`
no sample for 10 s          as before: the last decision is kept
no sample for 60 s          at the floor: ``cpuSuppressMinPercent``, or 10 % of the capacity
==========================  =========================================================================================

No state lasts without a sample, so a pod of the class is neither starved for good by what is no longer true, nor free
to starve others. Both policies have a minimum: 2 % of a CPU, two CPUs.

With the policy ``cpuset`` the CPUs are chosen here, and the CPU driver writes them, the only writer of cpusets. Where
that is impossible (no CPU driver on the node, or a kubelet that writes cpusets itself), the quota holds back in place
of the CPUs; on a kernel without quotas nothing does, as the features in the NodeMetric say.
"""

from enum import StrEnum
from typing import Final

from dra.api.colocation.strategies import SuppressPolicy, ThresholdStrategy
from dra.engine.cpus.cpusets import NO_CPUS, CpuSet
from dra.engine.cpus.topology import CpuTopology
from dra.engine.suppression.budget import floor_budget
from dra.engine.suppression.cpuset_choice import MIN_CPUS, choose_cpus, next_cpu_count
from dra.engine.suppression.quota import MIN_QUOTA_MICROS, PERIOD_MICROS, next_quota
from dra.model.meta import Struct

HOLD_SECONDS: Final = 10.0
"""Age of the last sample from which on nothing is decided by it."""

FLOOR_SECONDS: Final = 60.0
"""Age of the last sample from which on the class is at its floor."""


class SuppressionLevel(StrEnum):
    """The way in which the class BestEffort is held back."""

    OFF = "off"
    HELD_BACK = "held back"
    HOLDING = "as before, without samples"
    FLOOR = "at the floor, without samples"


class CpuCandidates(Struct, frozen=True):
    """The CPUs that the class may have."""

    topology: CpuTopology
    shared: CpuSet
    lsr: CpuSet = NO_CPUS
    """CPUs that LSR pods own and share with the class."""


class SuppressionView(Struct, frozen=True):
    """A node and its class BestEffort, as far as decisions need them."""

    strategy: ThresholdStrategy
    has_pods: bool
    """Whether a pod of the class is on the node."""

    capacity_milli: int
    sample_age: float
    """Seconds since the last sample; since the start if there is none yet."""

    budget_milli: int | None
    """The budget by the last sample; None before there is one."""

    has_quotas: bool = True
    """Whether the kernel can hold back by a quota."""

    quota: int | None = None
    """The quota that the kernel has."""

    ours: int | None = None
    """The quota that was written last; None if none was."""

    period: int = PERIOD_MICROS
    bound: int | None = None
    """The quota that the cgroups above the class allow, of the same period; None: none is set there, or v2 bounds."""

    candidates: CpuCandidates | None = None
    """None: CPUs cannot be written on this node."""

    cpus: CpuSet = NO_CPUS
    """The CPUs that the class is limited to; none without a limit."""


class Suppression(Struct, frozen=True):
    """The quota or CPUs that the class BestEffort is to have."""

    level: SuppressionLevel = SuppressionLevel.OFF
    policy: SuppressPolicy | None = None
    """What holds the class back; None if nothing does."""

    quota: int | None = None
    cpus: CpuSet = NO_CPUS
    budget_milli: int | None = None
    at_floor: bool = False
    """Whether a sample of this moment leaves the class no more than it has in any case."""


def decide_suppression(view: SuppressionView) -> Suppression:
    """Return how far the class is held back now."""
    if not view.strategy.enable or not view.has_pods:
        return Suppression()
    level, budget = _budget(view)
    policy = view.strategy.cpu_suppress_policy
    if policy is SuppressPolicy.CPUSET and (view.candidates is None or not _all_candidates(view.candidates)):
        policy = SuppressPolicy.CFS_QUOTA
    if policy is SuppressPolicy.CFS_QUOTA and not view.has_quotas:
        return Suppression()
    if budget is None:
        if policy is SuppressPolicy.CPUSET:
            return Suppression(level=level, policy=policy, cpus=view.cpus)
        return Suppression(level=level, policy=policy, quota=view.quota if view.ours is None else view.ours)
    if policy is SuppressPolicy.CPUSET and view.candidates is not None:
        cpus = _next_cpus(view, view.candidates, budget)
        return Suppression(
            level=level, policy=policy, cpus=cpus, budget_milli=budget, at_floor=_is_at_floor(view, level, policy)
        )
    quota = next_quota(
        budget, capacity_milli=view.capacity_milli, current=view.quota, ours=view.ours, period=view.period
    )
    quota = quota if view.bound is None else min(quota, view.bound)
    return Suppression(
        level=level, policy=policy, quota=quota, budget_milli=budget, at_floor=_is_at_floor(view, level, policy)
    )


def _is_at_floor(view: SuppressionView, level: SuppressionLevel, policy: SuppressPolicy) -> bool:
    """Return whether others use so much that the class is held back as far as it can be."""
    if level is not SuppressionLevel.HELD_BACK or view.budget_milli is None:
        return False
    floor = view.capacity_milli * (view.strategy.cpu_suppress_min_percent or 0) // 100
    least = MIN_CPUS * 1000 if policy is SuppressPolicy.CPUSET else MIN_QUOTA_MICROS * 1000 // PERIOD_MICROS
    return view.budget_milli <= max(floor, least)


def _budget(view: SuppressionView) -> tuple[SuppressionLevel, int | None]:
    """Return the milli-CPUs to go by; None: as before."""
    if view.sample_age >= FLOOR_SECONDS:
        floor = floor_budget(capacity_milli=view.capacity_milli, min_percent=view.strategy.cpu_suppress_min_percent)
        return SuppressionLevel.FLOOR, floor
    if view.sample_age >= HOLD_SECONDS or view.budget_milli is None:
        return SuppressionLevel.HOLDING, None
    return SuppressionLevel.HELD_BACK, view.budget_milli


def _all_candidates(candidates: CpuCandidates) -> CpuSet:
    return (candidates.shared | candidates.lsr) & candidates.topology.online


def _next_cpus(view: SuppressionView, candidates: CpuCandidates, budget: int) -> CpuSet:
    current = view.cpus or _all_candidates(candidates)
    count = next_cpu_count(budget, machine=len(candidates.topology.online), current=len(current))
    return choose_cpus(candidates.topology, count, shared=candidates.shared, lsr=candidates.lsr, current=current)
