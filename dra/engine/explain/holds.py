"""What keeps an allocation: found by taking causes away and asking the rules what they would do then.

Each `Hold` knows how a view looks without it. If the rules free the claim once all are taken away, and do not once all
but one are, that one keeps it. So nothing here can say something else than what the controller will do, and several
causes that would each be enough are all named.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from dra.engine.claims.policy import Policy
from dra.engine.claims.rules import fold
from dra.engine.claims.view import ClaimView, Entry, EntryKind, Workload, WorkloadPhase
from dra.engine.consumers import Consumer
from dra.engine.explain.scene import LATER, Hold
from dra.engine.instants import Instant
from dra.engine.reservations.devices import Standing
from dra.model.meta import Uid

_MANY: Final = Workload(phase=WorkloadPhase.ABSENT)


def holds(view: ClaimView, *, policy: Policy, soon: Instant) -> tuple[Hold, ...]:
    """Return what keeps the allocation; empty if the rules free it at once, or if there is none.

    `soon` is the instant of the view, `LATER` comes when whatever passes by itself has passed.
    """
    # A guard stands for vanished pods only to a process that does not know why the guard is there: the controller does.
    view = _but(view, vanished=tuple(pod for pod in view.vanished if not pod.guard))
    if view.allocation is None or _freed(view, policy, soon):
        return ()
    present = [hold for hold in _LIFTS if _concerns(hold, view)]
    bare = _without(view, present)
    if not _freed(bare, policy, LATER):
        return (Hold.NOTHING,)
    found = tuple(h for h in present if not _freed(_without(view, [o for o in present if o is not h]), policy, LATER))
    return found or (Hold.TIME,)


def _freed(view: ClaimView, policy: Policy, now: Instant) -> bool:
    return not fold(view, policy=policy, now=now).allocated


def _without(view: ClaimView, lifted: Iterable[Hold]) -> ClaimView:
    for hold in lifted:
        view = _LIFTS[hold](view)
    return view


def _concerns(hold: Hold, view: ClaimView) -> bool:
    return _LIFTS[hold](view) is not view


def _but(view: ClaimView, **changes: object) -> ClaimView:
    return msgspec.structs.replace(view, **changes)


def _ended(view: ClaimView, pods: Iterable[Consumer]) -> tuple[Entry, ...]:
    """Return the entries as they are when these pods have ended."""
    gone = {pod.uid for pod in pods}
    return tuple(
        msgspec.structs.replace(e, kind=EntryKind.FINISHED, consumer=None) if e.reference.uid in gone else e
        for e in view.entries
    )


def _as_finished(view: ClaimView, kind: EntryKind) -> ClaimView:
    if kind not in view.kinds:
        return view
    entries = tuple(
        msgspec.structs.replace(e, kind=EntryKind.FINISHED, consumer=None) if e.kind is kind else e
        for e in view.entries
    )
    return _but(view, entries=entries)


def _workload_over(view: ClaimView) -> ClaimView:
    if view.reservation is None:
        return view
    named = {view.reservation.reference.uid, view.workload.uid}
    named |= {e.reference.uid for e in view.of(EntryKind.WORKLOAD)}
    gone = view.workload.gone | frozenset(uid for uid in named if uid)
    return _but(view, workload=msgspec.structs.replace(_MANY, gone=gone))


def _former_over(view: ClaimView) -> ClaimView:
    former = frozenset(e.reference.uid for e in view.of(EntryKind.FORMER))
    if not former:
        return view
    return _but(view, workload=msgspec.structs.replace(view.workload, gone=view.workload.gone | former))


def _consumers_over(view: ClaimView) -> ClaimView:
    pods = (*view.starting, *view.started)
    return _but(view, starting=(), started=(), other_users=(), entries=_ended(view, pods)) if pods else view


def _waiting_over(view: ClaimView) -> ClaimView:
    pods = (*view.waiting, *view.gated)
    return _but(view, waiting=(), gated=(), entries=_ended(view, pods)) if pods else view


def _groups_over(view: ClaimView) -> ClaimView:
    if EntryKind.GROUP not in view.kinds:
        return view

    def gone(uid: Uid) -> Workload:
        return msgspec.structs.replace(_MANY, gone=frozenset({uid}))

    entries = tuple(
        msgspec.structs.replace(e, group=gone(e.reference.uid)) if e.kind is EntryKind.GROUP else e
        for e in view.entries
    )
    return _but(view, entries=entries)


def _reservations_over(view: ClaimView) -> ClaimView:
    if EntryKind.RESERVATION not in view.kinds:
        return view
    return _but(view, holds=tuple(msgspec.structs.replace(hold, standing=Standing.OVER) for hold in view.holds))


def _nodes_back(view: ClaimView) -> ClaimView:
    return _but(view, lost_nodes=()) if view.lost_nodes else view


def _vanished_over(view: ClaimView) -> ClaimView:
    if not view.vanished:
        return view
    return _but(_as_finished(view, EntryKind.VANISHED), vanished=())


def _sure(view: ClaimView) -> ClaimView:
    return _but(view, history=msgspec.structs.replace(view.history, seen_allocated=True)) if view.unsure else view


_LIFTS: Final[Mapping[Hold, Callable[[ClaimView], ClaimView]]] = {
    Hold.WORKLOAD: _workload_over,
    Hold.CONSUMING: _consumers_over,
    Hold.WAITING: _waiting_over,
    Hold.FOREIGN: lambda view: _as_finished(view, EntryKind.FOREIGN),
    Hold.UNKNOWN: lambda view: _as_finished(view, EntryKind.UNKNOWN),
    Hold.LOST_NODE: _nodes_back,
    Hold.VANISHED: _vanished_over,
    Hold.GROUP: _groups_over,
    Hold.RESERVATION: _reservations_over,
    Hold.FORMER: _former_over,
    Hold.DOUBT: _sure,
}
