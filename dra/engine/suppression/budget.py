"""The CPUs that pods of the QoS class BestEffort may use together, so that all others have what they need.

::

    budget = capacity · threshold % - used by other pods - max(used by the system, reserved on the node)

at least ``cpuSuppressMinPercent`` of the capacity, and never negative. Source: Koordinator's design document of CPU
suppression and its code (``calculateBESuppressCPU``).

The class is the kubelet's: a pod counts as BestEffort if its cgroup is in that of the class, since only these pods are
held back with it. A pod that is labelled BE and lies elsewhere (a container with plain requests) counts with the
others, and so does a pod that only its samples show.
"""

from collections.abc import Iterable
from typing import Final

from dra.model.meta import Struct

FLOOR_PERCENT: Final = 10
"""Percent of the capacity that the class keeps while nothing is sampled, without a ``cpuSuppressMinPercent``."""


class PodCpuUse(Struct, frozen=True):
    """The CPUs that a pod used in the last second."""

    milli: float
    is_best_effort: bool | None
    """Whether the pod's cgroup is in that of the class BestEffort; None if unknown."""


class CpuBudget(Struct, frozen=True):
    """The CPUs for the class BestEffort with every line of the sum, in milli-CPUs."""

    capacity: int
    allowed: int
    """The part of the capacity that may be in use."""

    others: int
    """Used by pods that are not of the class."""

    system: int
    """Used by the system, or reserved for it if that is more."""

    floor: int
    result: int
    """The CPUs that the class may use."""


def best_effort_budget(
    *,
    capacity_milli: int,
    pods: Iterable[PodCpuUse],
    system_milli: float,
    reserved_milli: int = 0,
    threshold_percent: int,
    min_percent: int | None = None,
) -> CpuBudget:
    """Return the budget of the class BestEffort.

    `system_milli` is what the node uses less what its pods use, `reserved_milli` what the kubelet or the Node's
    annotation reserves for the system.
    """
    allowed = capacity_milli * threshold_percent // 100
    others = round(sum(pod.milli for pod in pods if not pod.is_best_effort))
    system = max(round(system_milli), reserved_milli, 0)
    floor = 0 if min_percent is None else capacity_milli * min_percent // 100
    return CpuBudget(
        capacity=capacity_milli,
        allowed=allowed,
        others=others,
        system=system,
        floor=floor,
        result=max(allowed - others - system, floor, 0),
    )


def floor_budget(*, capacity_milli: int, min_percent: int | None) -> int:
    """Return the milli-CPUs of the class while nobody knows what the node uses."""
    return capacity_milli * (FLOOR_PERCENT if min_percent is None else min_percent) // 100
