"""The values of all cgroups of the class BestEffort, and an order of writes that the kernel accepts.

CPU quotas form a tree. At each single write, cgroup v1 refuses a cgroup with more CPU time than one above it has, and a
cgroup with less than one below it has (EINVAL both times); quotas are compared as parts of their periods, and a cgroup
without a quota is bounded by those above. So all quotas that grow are written from the top, and then all that shrink
from the bottom; and while the class has a quota, a pod in it has the smaller one of that and its own limit. v2 accepts
any order and bounds by itself, so pods keep their limits there.

Quotas that are not ours may stand in the way in v1: a container may have cgroups of its own, and somebody may have
given a pod a quota. Such a quota is lifted when it does not fit: the cgroups above bound it all the same.

==================  ================================================================================================
kernel              what is done
==================  ================================================================================================
``cpu.idle`` is 1   shares are refused (EINVAL): they stay as they are
burst               above the quota it is refused, and so is a quota below the burst: the burst is lowered first
quota               less than 1000 µs are refused: a cgroup below the class that would get less gets none
memory              cut to whole pages: compared after the same rounding
memory below use    v1: refused after an attempt to reclaim (EBUSY), nothing happens. v2: **processes are killed**, so
                    it is not written while the cgroup uses more, and tried again each round
==================  ================================================================================================

A plan is made from what the kernel has now. So a plan of which only a part was written, or that the kernel refused in
part because a container started meanwhile, is completed by the next one.
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from fractions import Fraction
from typing import Final, TypeAlias

from dra.engine.suppression.quota import KERNEL_MIN_QUOTA_MICROS, PERIOD_MICROS, limit_quota
from dra.model.meta import Struct

CgroupPath: TypeAlias = tuple[str, ...]
"""The names on the path from the cgroup of all pods to a cgroup."""

PAGE_BYTES: Final = 4096


class CgroupFile(StrEnum):
    """A value of a cgroup that is written."""

    SHARES = "shares"
    """CPU shares; a weight in v2."""

    QUOTA = "quota"
    """CPU time in microseconds of a period."""

    BURST = "burst"
    """CPU time in microseconds that may be saved up."""

    MEMORY = "memory"
    """Memory limit in bytes."""


class CgroupState(Struct, frozen=True):
    """The values of a cgroup as the kernel has them."""

    path: CgroupPath
    has_quota: bool = True
    """Whether the kernel has quotas; some are built without, and cgroups of v2 may lack the controller."""

    quota: int | None = None
    """Microseconds; None: no quota."""

    period: int = PERIOD_MICROS
    burst: int = 0
    """Microseconds; 0 also if the kernel knows no bursts."""

    shares: int | None = None
    """Shares in v1, weight in v2; None: not read."""

    is_idle: bool = False
    """Whether ``cpu.idle`` is set."""

    memory: int | None = None
    """Limit in bytes; None: no limit."""

    memory_used: int | None = None
    """Bytes in use; None: not read."""


class CgroupTarget(Struct, frozen=True):
    """The values that a cgroup of a batch pod is to have, whether the class is held back or not."""

    cpu_milli: int | None = None
    """CPU limit in milli-CPUs; None: no quota."""

    owns_cpu: bool = True
    """Whether shares and quota are ours to write."""

    shares: int | None = None
    """Shares in v1, weight in v2; None: not ours to write."""

    memory: int | None = None
    owns_memory: bool = True
    """Whether the memory limit is ours to write; None in `memory` lifts it."""

    @property
    def of_quota(self) -> "CgroupTarget":
        """The target for the quota alone, for a round in which nothing else was read."""
        return CgroupTarget(cpu_milli=self.cpu_milli, owns_cpu=self.owns_cpu, owns_memory=False)


class CgroupWrite(Struct, frozen=True):
    """One write; a value of None lifts the limit."""

    path: CgroupPath
    file: CgroupFile
    value: int | None


class PlannedWrites(Struct, frozen=True):
    """The writes of one round."""

    writes: tuple[CgroupWrite, ...]
    memory_in_use: tuple[CgroupPath, ...] = ()
    """Cgroups that use more memory than their limit is to be."""

    idle: tuple[CgroupPath, ...] = ()
    """Cgroups whose shares cannot be written, since ``cpu.idle`` is set."""


def plan_writes(
    states: Iterable[CgroupState],
    targets: Mapping[CgroupPath, CgroupTarget],
    *,
    class_path: CgroupPath,
    class_quota: int | None,
    unified: bool,
    page_bytes: int = PAGE_BYTES,
) -> PlannedWrites:
    """Return the writes that bring cgroups to their targets, with the quota of the class above all of them.

    `states` are the cgroup of the class and those below it, as the kernel has them, and what is above it if that has a
    quota; cgroups without a target are not ours. `unified` says whether they are of cgroup v2.
    """
    present = {state.path: state for state in states}
    quotas = _wanted_quotas(present, targets, class_path=class_path, class_quota=class_quota, unified=unified)
    ours = {path: target for path, target in targets.items() if path in present}
    memory = {
        path: _whole_pages(target.memory, page_bytes)
        for path, target in ours.items()
        if target.owns_memory and _whole_pages(target.memory, page_bytes) != present[path].memory
    }
    in_use = {path for path, limit in memory.items() if limit is not None and _uses_more(present[path], limit)}
    tried = {path: limit for path, limit in memory.items() if not (unified and path in in_use)}
    return PlannedWrites(
        writes=(
            *_share_writes(present, ours),
            *order_quota_writes(present, quotas),
            *(CgroupWrite(path=path, file=CgroupFile.MEMORY, value=limit) for path, limit in sorted(tried.items())),
        ),
        memory_in_use=tuple(sorted(in_use)),
        idle=tuple(sorted(path for path, target in ours.items() if target.shares and present[path].is_idle)),
    )


def order_quota_writes(
    present: Mapping[CgroupPath, CgroupState], wanted: Mapping[CgroupPath, int | None]
) -> Iterator[CgroupWrite]:
    """Yield the writes of quotas, and of bursts where these stand in the way, in an order that v1 accepts.

    Valid for a tree of `wanted` quotas in which no cgroup has more than one above it.
    """
    grown = [path for path in sorted(wanted) if _is_more(wanted[path], present[path])]
    shrunk = [path for path in sorted(wanted, reverse=True) if _is_less(wanted[path], present[path])]
    for path in grown:
        yield CgroupWrite(path=path, file=CgroupFile.QUOTA, value=wanted[path])
    for path in shrunk:
        quota = wanted[path]
        if quota is not None and present[path].burst > quota:
            yield CgroupWrite(path=path, file=CgroupFile.BURST, value=quota)
        yield CgroupWrite(path=path, file=CgroupFile.QUOTA, value=quota)


def _wanted_quotas(
    present: Mapping[CgroupPath, CgroupState],
    targets: Mapping[CgroupPath, CgroupTarget],
    *,
    class_path: CgroupPath,
    class_quota: int | None,
    unified: bool,
) -> dict[CgroupPath, int | None]:
    """Return the quota of each cgroup that exists, in microseconds of its own period."""
    wanted: dict[CgroupPath, int | None] = {}
    bounds: dict[CgroupPath, Fraction | None] = {}
    for path, state in sorted(present.items()):  # from the top
        bound = None if unified else bounds.get(path[:-1])
        target = targets.get(path)
        if path == class_path:
            quota = _within(class_quota, state.period, bound)
        elif target is not None and target.owns_cpu:
            quota = _within(limit_quota(target.cpu_milli, period=state.period), state.period, bound)
        else:
            fits = state.quota is None or bound is None or Fraction(state.quota, state.period) <= bound
            quota = state.quota if fits else None
        wanted[path] = quota
        bounds[path] = bound if quota is None else Fraction(quota, state.period)
    return wanted


def _within(quota: int | None, period: int, bound: Fraction | None) -> int | None:
    """Return a quota that fits under a bound; None, which the bound limits, if the kernel takes none so small."""
    if quota is None or bound is None or Fraction(quota, period) <= bound:
        return quota
    least = int(bound * period)
    return least if least >= KERNEL_MIN_QUOTA_MICROS else None


def _is_more(wanted: int | None, state: CgroupState) -> bool:
    return state.quota is not None and (wanted is None or wanted > state.quota)


def _is_less(wanted: int | None, state: CgroupState) -> bool:
    return wanted is not None and (state.quota is None or wanted < state.quota)


def _share_writes(
    present: Mapping[CgroupPath, CgroupState], targets: Mapping[CgroupPath, CgroupTarget]
) -> Iterator[CgroupWrite]:
    for path, target in sorted(targets.items()):
        state = present[path]
        if target.shares is not None and not state.is_idle and state.shares not in (None, target.shares):
            yield CgroupWrite(path=path, file=CgroupFile.SHARES, value=target.shares)


def _whole_pages(limit: int | None, page_bytes: int) -> int | None:
    return None if limit is None else limit // page_bytes * page_bytes


def _uses_more(state: CgroupState, limit: int) -> bool:
    return state.memory_used is not None and state.memory_used > limit
