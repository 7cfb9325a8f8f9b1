"""The nodes that give pods away and the nodes that may receive pods, by thresholds on their use.

A node is a *source* if its use of any resource is above the high threshold, and a *receiver* if its use of all
resources is at most the low one and pods can be scheduled there. Nodes in between do neither.

Amounts are billionths. Upstream counts CPUs in whole milli-CPUs and everything else in whole units, and cuts the
product of a percentage and a capacity off: 29 % of 100 pods are 28, since 29 * 0.01 * 100 is a little less than 29.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from dra.model.quantities import CPU, NANOS_PER_UNIT, PODS, Amounts

ALL: Final = 100.0
"""Percent of a capacity: the threshold of a resource that counts and is not named."""

MEMORY: Final = "memory"
PROD: Final = "prod "
"""Prefix of a resource that counts the use of pods of priority class koord-prod alone."""

ALWAYS_COUNTED: Final = (CPU, MEMORY, PODS)
"""Resources whose headroom counts whether these have a threshold or not."""

_NANOS_PER_MILLI: Final = NANOS_PER_UNIT // 1000

Percentages: TypeAlias = Mapping[str, float]


def in_units(resource: str, nanos: int) -> int:
    """Return an amount in milli-CPUs or in whole units, rounded up as Kubernetes does."""
    return -(-nanos // _unit(resource))


def percentage(resource: str, used: int, capacity: int) -> float:
    """Return the percent of a capacity that is used; 0 of no capacity."""
    whole = in_units(resource, capacity)
    return in_units(resource, used) / whole * 100 if whole > 0 else 0.0


def share(resource: str, percent: float, capacity: int) -> int:
    """Return the billionths in so many percent of a capacity, cut off as upstream does."""
    return int(percent * 0.01 * in_units(resource, capacity)) * _unit(resource)


def shares(percentages: Percentages, capacity: Amounts, resources: Iterable[str]) -> dict[str, int]:
    """Return the amount of each resource up to its percentage; all of a resource without one."""
    return {
        name: share(name, percentages[name], capacity.get(name, 0)) if name in percentages else capacity.get(name, 0)
        for name in resources
    }


def deviations(mean: Percentages, below: Percentages, above: Percentages) -> tuple[dict[str, float], dict[str, float]]:
    """Return the thresholds that lie so many percent below and above a mean, between 0 and 100."""
    low = {name: min(max(mean.get(name, 0.0) - percent, 0.0), ALL) for name, percent in below.items()}
    high = {name: min(max(mean.get(name, 0.0) + percent, 0.0), ALL) for name, percent in above.items()}
    return low, high


def mean_percentages(use: Collection[Percentages]) -> dict[str, float]:
    """Return the mean of each resource over the nodes that have it."""
    sums: dict[str, float] = {}
    counts: dict[str, int] = {}
    for percentages in use:
        for name, percent in percentages.items():
            sums[name] = sums.get(name, 0.0) + percent
            counts[name] = counts.get(name, 0) + 1
    return {name: amount / counts[name] for name, amount in sums.items()}


def _unit(resource: str) -> int:
    return _NANOS_PER_MILLI if resource.removeprefix(PROD) == CPU else NANOS_PER_UNIT


@dataclass(slots=True)
class LoadedNode:
    """A node with its load, which changes as the round moves pods."""

    name: str
    usage: dict[str, int]
    limits: Amounts
    """The amount of each resource that counts, up to which the node may be used: its high threshold."""

    def over(self) -> list[str]:
        """Return the resources of which the node uses more than its limit, by name."""
        return sorted(name for name, limit in self.limits.items() if self.usage.get(name, 0) > limit)

    def headroom(self) -> dict[str, int]:
        """Return how much more of each resource the node may use; negative above its limit."""
        usage = self.usage
        return {name: limit - usage.get(name, 0) for name, limit in self.limits.items()}

    def add(self, amounts: Amounts, *, sign: int = 1) -> None:
        """Add the load of a pod, or with sign -1 subtract it."""
        for name, amount in amounts.items():
            if name in self.usage:
                self.usage[name] += sign * amount
