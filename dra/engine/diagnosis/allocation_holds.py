"""The search for what keeps an allocation, by removing causes and asking the rules what they would do then.

Each `AllocationHold` has a function that returns a view without that hold. If the rules free the claim without any
hold, and do not free it with a single hold left, that hold keeps the allocation. So the result cannot differ from what
the controller will do, and several causes that would each be enough are all named.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from dra.engine.claims.claim_holders import HolderState
from dra.engine.claims.consumers import Consumer
from dra.engine.claims.policy import Policy
from dra.engine.claims.rules import apply_rules
from dra.engine.claims.view import ClaimView, EntryKind, ReservedForEntry, WorkloadPhase, WorkloadState
from dra.engine.diagnosis.cluster_state import SETTLED_INSTANT, AllocationHold
from dra.engine.instants import Instant
from dra.model.meta import Uid

_ABSENT_WORKLOAD: Final = WorkloadState(phase=WorkloadPhase.ABSENT)


def find_holds(view: ClaimView, *, policy: Policy, soon: Instant) -> tuple[AllocationHold, ...]:
    """Return what keeps the allocation; empty if the rules free it at once, or if there is none.

    `soon` is the instant of the view; at `SETTLED_INSTANT` all deadlines have passed.
    """
    view = _without_guards(view)
    if not is_held(view, policy=policy, soon=soon):
        return ()
    present = [hold for hold in _WITHOUT_HOLD if _hold_is_present(hold, view)]
    bare = _without_holds(view, present)
    if not _is_freed(bare, policy, SETTLED_INSTANT):
        return (AllocationHold.NOTHING,)
    holds = tuple(
        h
        for h in present
        if not _is_freed(_without_holds(view, [o for o in present if o is not h]), policy, SETTLED_INSTANT)
    )
    return holds or (AllocationHold.TIME,)


def is_held(view: ClaimView, *, policy: Policy, soon: Instant) -> bool:
    """Report whether anything keeps the allocation, without a search for what does."""
    return view.allocation is not None and not _is_freed(_without_guards(view), policy, soon)


def _without_guards(view: ClaimView) -> ClaimView:
    """Return the view that the controller has: a guard stands for vanished pods only for who has not added it."""
    if not any(pod.guard for pod in view.vanished):
        return view
    return _replace(view, vanished=tuple(pod for pod in view.vanished if not pod.guard))


def _is_freed(view: ClaimView, policy: Policy, now: Instant) -> bool:
    return not apply_rules(view, policy=policy, now=now).allocated


def _without_holds(view: ClaimView, lifted: Iterable[AllocationHold]) -> ClaimView:
    for hold in lifted:
        view = _WITHOUT_HOLD[hold](view)
    return view


def _hold_is_present(hold: AllocationHold, view: ClaimView) -> bool:
    return _WITHOUT_HOLD[hold](view) is not view


def _replace(view: ClaimView, **changes: object) -> ClaimView:
    return msgspec.structs.replace(view, **changes)


def _entries_after_pods_ended(view: ClaimView, pods: Iterable[Consumer]) -> tuple[ReservedForEntry, ...]:
    """Return the entries as they are after the given pods have ended."""
    gone = {pod.uid for pod in pods}
    return tuple(
        msgspec.structs.replace(e, kind=EntryKind.FINISHED, consumer=None) if e.reference.uid in gone else e
        for e in view.entries
    )


def _with_entries_finished(view: ClaimView, kind: EntryKind) -> ClaimView:
    if kind not in view.kinds:
        return view
    entries = tuple(
        msgspec.structs.replace(e, kind=EntryKind.FINISHED, consumer=None) if e.kind is kind else e
        for e in view.entries
    )
    return _replace(view, entries=entries)


def _without_workload(view: ClaimView) -> ClaimView:
    if view.reservation is None:
        return view
    named = {view.reservation.reference.uid, view.workload.uid}
    named |= {e.reference.uid for e in view.entries_of(EntryKind.WORKLOAD)}
    named -= {e.reference.uid for e in view.entries_of(EntryKind.FORMER)}  # a hold of its own
    gone = view.workload.gone | frozenset(uid for uid in named if uid)
    return _replace(view, workload=msgspec.structs.replace(_ABSENT_WORKLOAD, gone=gone))


def _without_former_workload(view: ClaimView) -> ClaimView:
    former = frozenset(e.reference.uid for e in view.entries_of(EntryKind.FORMER))
    if not former:
        return view
    return _replace(view, workload=msgspec.structs.replace(view.workload, gone=view.workload.gone | former))


def _without_consumers(view: ClaimView) -> ClaimView:
    pods = (*view.starting, *view.started)
    return (
        _replace(view, starting=(), started=(), other_users=(), entries=_entries_after_pods_ended(view, pods))
        if pods
        else view
    )


def _without_waiting_pods(view: ClaimView) -> ClaimView:
    pods = (*view.waiting, *view.gated)
    return _replace(view, waiting=(), gated=(), entries=_entries_after_pods_ended(view, pods)) if pods else view


def _without_pod_groups(view: ClaimView) -> ClaimView:
    if EntryKind.GROUP not in view.kinds:
        return view

    def gone(uid: Uid) -> WorkloadState:
        return msgspec.structs.replace(_ABSENT_WORKLOAD, gone=frozenset({uid}))

    entries = tuple(
        msgspec.structs.replace(e, group=gone(e.reference.uid)) if e.kind is EntryKind.GROUP else e
        for e in view.entries
    )
    return _replace(view, entries=entries)


def _without_reservations(view: ClaimView) -> ClaimView:
    if EntryKind.RESERVATION not in view.kinds:
        return view
    return _replace(view, holds=tuple(msgspec.structs.replace(hold, state=HolderState.OVER) for hold in view.holds))


def _without_lost_nodes(view: ClaimView) -> ClaimView:
    return _replace(view, lost_nodes=()) if view.lost_nodes else view


def _without_vanished_pods(view: ClaimView) -> ClaimView:
    if not view.vanished:
        return view
    return _replace(_with_entries_finished(view, EntryKind.VANISHED), vanished=())


def _without_doubt(view: ClaimView) -> ClaimView:
    return (
        _replace(view, history=msgspec.structs.replace(view.history, seen_allocated=True))
        if view.is_release_uncertain
        else view
    )


_WITHOUT_HOLD: Final[Mapping[AllocationHold, Callable[[ClaimView], ClaimView]]] = {
    AllocationHold.WORKLOAD: _without_workload,
    AllocationHold.CONSUMING: _without_consumers,
    AllocationHold.WAITING: _without_waiting_pods,
    AllocationHold.FOREIGN: lambda view: _with_entries_finished(view, EntryKind.FOREIGN),
    AllocationHold.UNKNOWN: lambda view: _with_entries_finished(view, EntryKind.UNKNOWN),
    AllocationHold.LOST_NODE: _without_lost_nodes,
    AllocationHold.VANISHED: _without_vanished_pods,
    AllocationHold.GROUP: _without_pod_groups,
    AllocationHold.RESERVATION: _without_reservations,
    AllocationHold.FORMER: _without_former_workload,
    AllocationHold.DOUBT: _without_doubt,
}
