"""The CPU quota of the class BestEffort: shrinks at once, grows in steps, ignores small differences.

A quota is the CPU time in microseconds that a cgroup has in each period. The wanted one is ``budget · period``, at
least 2000. A difference of less than 1 % of the node's capacity is not written, and the quota grows by at most 10 % of
the capacity at a time, so that others see a load that returns, not one that jumps. Source: Koordinator's
``adjustByCfsQuota``.

No quota (-1 in v1, ``max`` in v2) is no number: from there the wanted one is written at once. (Koordinator compares -1
as if it were a quota of 0, and leaves big nodes without any when least is left.)

A value that somebody else has written, such as systemd at a ``daemon-reload``, is no base for a step: ours counts. One
that is as good as the wanted one stays: in a rolling update, two instances of the plugin hold back for a while.
"""

from typing import Final

PERIOD_MICROS: Final = 100_000
"""The kernel's default period."""

MIN_QUOTA_MICROS: Final = 2000
"""The least quota of the class, of the default period."""

KERNEL_MIN_QUOTA_MICROS: Final = 1000
"""The least quota that the kernel accepts."""

_IGNORED_PERCENT: Final = 1
_STEP_PERCENT: Final = 10


def next_quota(
    budget_milli: int, *, capacity_milli: int, current: int | None, ours: int | None = None, period: int = PERIOD_MICROS
) -> int:
    """Return the quota of the class for the next second, in microseconds of a period.

    `current` is the quota that the kernel has, `ours` the one that was written last, each None if there is none. All
    are of the same period.
    """
    wanted = max(milli_to_quota(budget_milli, period), least_quota(period))
    before = current if ours is None else ours
    if before is None:
        return wanted
    capacity = milli_to_quota(capacity_milli, period)
    if wanted != least_quota(period):
        for present in (before if current is None else current, before):
            if abs(wanted - present) * 100 < capacity * _IGNORED_PERCENT:
                return present
    return min(wanted, before + capacity * _STEP_PERCENT // 100)


def least_quota(period: int) -> int:
    """Return the least quota of the class: 2 % of a CPU, or what the kernel takes if that is more."""
    return max(MIN_QUOTA_MICROS * period // PERIOD_MICROS, KERNEL_MIN_QUOTA_MICROS)


def milli_to_quota(milli: int, period: int) -> int:
    """Return the CPU time of milli-CPUs in a period, in microseconds."""
    return milli * period // 1000


def limit_quota(milli: int | None, *, period: int = PERIOD_MICROS) -> int | None:
    """Return the quota of a CPU limit: at least what the kernel accepts; None without a limit, and for a limit of 0."""
    return max(milli_to_quota(milli, period), KERNEL_MIN_QUOTA_MICROS) if milli else None
