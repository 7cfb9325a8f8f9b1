"""Decides when the batch resources of a node are written.

A change that is small waits until ``updateTimeThresholdSeconds`` have passed since the last write. At once is written:
what differs by more than ``resourceDiffThreshold``; what begins or ends (0); what is less than batch pods hold; what is
more, where nothing is computed, since it is switched off or nobody knows what the node uses; what somebody else has
set, as a kubelet does with a Node that is made anew (a kubelet that restarts then would fail running pods). Whoever
undoes each write makes the pauses grow.
"""

from fractions import Fraction
from typing import Final, TypeAlias

from dra.api.colocation.strategies import ColocationStrategy
from dra.api.colocation.well_known import BATCH_CPU, BATCH_MEMORY
from dra.engine.colocation.batch_resources import BatchSum, ResourceSum, ZeroReason
from dra.engine.colocation.held_batch import NO_BATCH, BatchAmounts
from dra.engine.colocation.reasons import ColocationEvent
from dra.engine.instants import NEVER, Instant, doubled
from dra.engine.plan import Plan
from dra.model.meta import Struct, Uid

PROMPT_REWRITES: Final = 3
"""Writes in a row that somebody undoes, before pauses begin."""

WRITE_PAUSE: Final = 1.0
"""Seconds between two writes of the batch resources of one node, unless pods hold more than is offered: an agent may
report without pause, one thing and its contrary, and each of its reports would be worth a write."""

PAUSE: Final = (1.0, 60.0)
"""Seconds, minimum and maximum, between further writes that somebody undoes."""


class OfferedBatch(Struct, frozen=True):
    """Both batch resources in a Node's status; None where a resource is absent."""

    capacity: tuple[int | None, int | None] = (None, None)
    allocatable: tuple[int | None, int | None] = (None, None)

    @property
    def amounts(self) -> BatchAmounts:
        """The amounts that schedulers see."""
        cpu, memory = self.allocatable
        return BatchAmounts(cpu=cpu or 0, memory=memory or 0)

    @property
    def is_absent(self) -> bool:
        """Whether the Node has no batch resource at all."""
        return self.capacity == self.allocatable == (None, None)

    @property
    def is_consistent(self) -> bool:
        """Whether capacity and allocatable are equal, as a kubelet makes them."""
        return self.capacity == self.allocatable and None not in self.capacity


class LastWrite(Struct, frozen=True):
    """The last write of a node's batch resources by this process."""

    at: Instant
    """When; before the first one: when the Node was first seen."""

    amounts: BatchAmounts | None = None
    """What; None before the first one."""

    undone: int = 0
    """Writes in a row after which the Node showed something else."""


class BatchView(Struct, frozen=True):
    """A node whose batch resources may have to be written."""

    node: str
    uid: Uid
    sum: BatchSum
    offered: OfferedBatch
    strategy: ColocationStrategy
    last: LastWrite
    wake_at: Instant = NEVER
    """When the sum may change by the time alone."""

    events: tuple[ColocationEvent, ...] = ()


class WriteBatch(Struct, frozen=True):
    """Write the batch resources of a node; None takes them off."""

    node: str
    uid: Uid
    amounts: BatchAmounts
    computed: BatchAmounts = NO_BATCH
    """The part of the amounts that does not depend on what is held."""

    is_removal: bool = False
    undone: int = 0


def status_patch(write: WriteBatch) -> dict[str, dict[str, str | None]]:
    """Return the merge patch of a Node's status for a write: capacity and allocatable, equal."""
    cpu, memory = (None, None) if write.is_removal else (str(write.amounts.cpu), str(write.amounts.memory))
    amounts = {BATCH_CPU: cpu, BATCH_MEMORY: memory}
    return {"capacity": amounts, "allocatable": amounts}


BatchPlan: TypeAlias = Plan[WriteBatch, ColocationEvent]


def decide(view: BatchView, *, now: Instant) -> BatchPlan:
    """Return the write of a node's batch resources that is due, and when to decide again."""
    due = _due(view, now=now)
    if due > now:
        return BatchPlan(reasons=view.events, wake_at=min(due, view.wake_at))
    target = view.sum.offered
    write = WriteBatch(
        node=view.node,
        uid=view.uid,
        amounts=target,
        computed=BatchAmounts(cpu=view.sum.cpu.computed, memory=view.sum.memory.computed),
        is_removal=target == NO_BATCH and _is_off(view),
        undone=view.last.undone + 1 if _is_undone(view) else 0,
    )
    return BatchPlan(actions=(write,), reasons=view.events, wake_at=view.wake_at)


def _due(view: BatchView, *, now: Instant) -> Instant:
    """Return from when on the node's batch resources are to be written; never if they are right."""
    if _is_right(view):
        return NEVER
    if not _is_urgent(view):
        return view.last.at + view.strategy.update_time_threshold_seconds
    further = view.last.undone + 1 - PROMPT_REWRITES
    if _is_undone(view) and further >= 0:
        return view.last.at + doubled(PAUSE, further)
    if view.last.amounts is not None and not _is_undone(view) and not _holds_more(view):
        return max(now, view.last.at + WRITE_PAUSE)
    return now


def _is_right(view: BatchView) -> bool:
    target, before = view.sum.offered, view.offered
    if before.is_absent or (_is_off(view) and target == NO_BATCH):
        return before.is_absent and target == NO_BATCH
    return before.is_consistent and before.amounts == target


def _is_urgent(view: BatchView) -> bool:
    target, before = view.sum.offered, view.offered.amounts
    threshold = view.strategy.resource_diff_threshold
    return (
        not view.offered.is_consistent
        or _holds_more(view)
        or _is_off(view)
        or _is_uncovered(before.cpu, view.sum.cpu)
        or _is_uncovered(before.memory, view.sum.memory)
        or _is_large_change(before.cpu, target.cpu, threshold)
        or _is_large_change(before.memory, target.memory, threshold)
    )


def _is_off(view: BatchView) -> bool:
    """Report whether colocation is switched off for the node: the resources go, as far as nobody holds them."""
    return view.sum.cpu.zero_reason is ZeroReason.DISABLED


def _is_uncovered(before: int, after: ResourceSum) -> bool:
    """Report whether a resource is offered beyond what is held, though nobody knows what the node uses of it."""
    return after.zero_reason is not None and after.offered < before


def _holds_more(view: BatchView) -> bool:
    """Report whether batch pods hold more than is offered."""
    before, held = view.offered.amounts, view.sum.held
    return held.cpu > before.cpu or held.memory > before.memory


def _is_large_change(before: int, after: int, threshold: Fraction) -> bool:
    if before == after:
        return False
    return before == 0 or after == 0 or abs(after - before) > threshold * before


def _is_undone(view: BatchView) -> bool:
    return view.last.amounts is not None and view.offered.amounts != view.last.amounts
