"""CPU shares as weights of cgroup v2: two formulas are in use, and all siblings must have theirs by the same one.

Shares (2 to 262144) are what Kubernetes computes from requests. A weight (1 to 10000) divides a CPU among siblings, so
a pod whose weight comes from another formula than its siblings' gets a part that nobody meant.

* linear: ``1 + (shares - 2) · 9999 / 262142``, of the KEP that brought cgroup v2 to Kubernetes. A pod that requests one
  CPU gets 39, less than the 100 of a cgroup that nobody has written.
* quadratic: one CPU gets 100. Since runc 1.3.2 and crun 1.23, and in kubelets built with these.

Source: libcontainer's ``ConvertCPUSharesToCgroupV2Value`` before and after opencontainers/runc#4785.
"""

from collections.abc import Iterable
from enum import StrEnum
from math import ceil, log2
from typing import Final

from dra.model.meta import Struct

MIN_SHARES: Final = 2
MAX_SHARES: Final = 262144
MIN_WEIGHT: Final = 1
MAX_WEIGHT: Final = 10000


class WeightFormula(StrEnum):
    """The formula by which CPU shares become a weight of cgroup v2."""

    LINEAR = "linear"
    QUADRATIC = "quadratic"


class WeightSample(Struct, frozen=True):
    """A cgroup that the kubelet has written, with the shares that it meant."""

    shares: int
    weight: int


def cpu_weight(shares: int, formula: WeightFormula) -> int:
    """Return the weight of cgroup v2 for CPU shares; shares out of range count as the nearest ones in range."""
    within = min(max(shares, MIN_SHARES), MAX_SHARES)
    if formula is WeightFormula.LINEAR:
        return 1 + (within - MIN_SHARES) * (MAX_WEIGHT - MIN_WEIGHT) // (MAX_SHARES - MIN_SHARES)
    if within in (MIN_SHARES, MAX_SHARES):  # exact by definition, inexact in floating point
        return MIN_WEIGHT if within == MIN_SHARES else MAX_WEIGHT
    exponent = log2(within)
    return ceil(10 ** ((exponent * exponent + 125 * exponent) / 612 - 7 / 34))


def detect_weight_formula(samples: Iterable[WeightSample]) -> WeightFormula:
    """Return the formula by which most of the kubelet's own cgroups have their weights; linear if none tells.

    Samples that fit neither formula, or both (shares of 2), do not count: somebody else has written these.
    """
    linear = quadratic = 0
    for sample in samples:
        fits = [formula for formula in WeightFormula if cpu_weight(sample.shares, formula) == sample.weight]
        linear += fits == [WeightFormula.LINEAR]
        quadratic += fits == [WeightFormula.QUADRATIC]
    return WeightFormula.QUADRATIC if quadratic > linear else WeightFormula.LINEAR
