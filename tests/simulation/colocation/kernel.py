"""A node's kernel, as far as batch pods are held back: it divides CPUs by shares, quota and cpuset.

The class of batch pods has few shares, so it gets what others leave, and a little besides; never more than its quota
and its CPUs. A quota below the kernel's least, and CPUs that the machine does not have, are refused.
"""

import errno
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

PERIOD_MICROS: Final = 100_000
LEAST_QUOTA_MICROS: Final = 1000
LEFT_BY_SHARES: Final = 0.0025
"""Part of the machine that a class with shares of 2 gets beside others that want all of it."""


@dataclass(frozen=True, kw_only=True)
class Second:
    """What was used in a second, in milli-CPUs."""

    others: int
    """By pods that are no batch pods."""
    system: int
    batch: int

    @property
    def node(self) -> int:
        """All of it."""
        return self.others + self.system + self.batch


@dataclass
class Kernel:
    """The CPUs of a node."""

    cpus: int
    quota: int | None = None
    """Microseconds of each period for the class of batch pods; None: no limit."""
    batch_cpus: frozenset[int] = field(default_factory=frozenset)
    writes: int = 0
    refused: int = 0

    def __post_init__(self) -> None:
        self.batch_cpus = self.batch_cpus or self.all_cpus

    @property
    def all_cpus(self) -> frozenset[int]:
        """The CPUs of the machine."""
        return frozenset(range(self.cpus))

    @property
    def limit_milli(self) -> int:
        """The milli-CPUs that the class may use."""
        by_quota = self.cpus * 1000 if self.quota is None else self.quota * 1000 // PERIOD_MICROS
        return min(by_quota, len(self.batch_cpus) * 1000)

    def write_quota(self, quota: int | None) -> None:
        """Set the quota of the class; raises OSError as the kernel refuses."""
        self.writes += 1
        if quota is not None and quota < LEAST_QUOTA_MICROS:
            self.refused += 1
            raise OSError(errno.EINVAL, f"quota {quota}")
        self.quota = quota

    def write_cpus(self, cpus: Iterable[int]) -> None:
        """Set the CPUs of the class; raises OSError as the kernel refuses."""
        self.writes += 1
        wanted = frozenset(cpus)
        if not wanted or not wanted <= self.all_cpus:
            self.refused += 1
            raise OSError(errno.EINVAL, f"CPUs {sorted(wanted)}")
        self.batch_cpus = wanted

    def run(self, *, others: int, system: int, batch: int) -> Second:
        """Return what a second comes to, for what each side would use if it could, in milli-CPUs."""
        whole = self.cpus * 1000
        least = min(batch, self.limit_milli, round(whole * LEFT_BY_SHARES))
        system = min(system, whole - least)
        others = min(others, whole - least - system)
        return Second(others=others, system=system, batch=min(batch, self.limit_milli, whole - others - system))
