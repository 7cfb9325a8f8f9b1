"""What reservations have to do with one pod, or with one another: which nodes could do, and the numbers that decide.

Asked are the books of the scheduler's extender (`dra.engine.reservations`), so what is told here is what it would
answer now. Nodes with the same answer, for the same reasons and numbers, are one group.
"""

from collections.abc import Iterable, Iterator, Sequence

from dra.api.reservations.model import MalformedReservationError, parse_reservation
from dra.engine.claims.reasons import list_names
from dra.engine.diagnosis.node_groups import NAMED_NODES_MAX
from dra.engine.diagnosis.problems import Problem, ProblemCode
from dra.engine.diagnosis.problems import reservation_problem as problem_of
from dra.engine.reservations import owner_matching
from dra.engine.reservations.accounting import ReservationAccounting
from dra.engine.reservations.amounts import PODS
from dra.engine.reservations.node_usage import NodeUsage
from dra.engine.reservations.phases import TERMINAL_PHASES
from dra.engine.reservations.pod_info import PodInfo
from dra.engine.reservations.rejections import Rejection, RejectionReason
from dra.engine.reservations.reservation_info import ReservationInfo
from dra.engine.reservations.reservation_placement import ReservationPlacement, place_reservation
from dra.model.meta import Struct, Uid, UnstructuredObject


class UnusedReservedResource(Struct, frozen=True):
    """What of a node's resource is held and not in use; and by whom."""

    resource: str
    amount: int
    """Billionths."""
    reservations: tuple[str, ...] = ()


class ReservationNodeGroup(Struct, frozen=True):
    """Nodes that give one answer."""

    count: int
    nodes: tuple[str, ...]
    refusals: tuple[Rejection, ...] = ()
    """None: it fits."""
    kept: tuple[UnusedReservedResource, ...] = ()
    inside: tuple[str, ...] = ()
    """The reservations that it would run in."""
    over: int = 0
    """How many running pods a reservation would be placed over."""


class CandidateReservation(Struct, frozen=True):
    """A reservation, and why the pod may not use it."""

    name: str
    node: str = ""
    refusal: Rejection | None = None
    """None: it may, where there is room."""


class PodReservations(Struct, frozen=True):
    """What reservations mean to a pod."""

    groups: tuple[ReservationNodeGroup, ...] = ()
    candidates: tuple[CandidateReservation, ...] = ()
    """Those that name the pod as an owner, or that it asks for."""
    others: int = 0
    """How many reservations are for others."""
    inside: str = ""
    """The one that it is in."""


def owner_problems(found: UnstructuredObject) -> Iterator[Problem]:
    """Yield what an audit tells of a Reservation; one that cannot be read tells so in its own condition."""
    try:
        reservation = parse_reservation(found.content)
    except MalformedReservationError:
        return
    paths = owner_matching.cross_namespace_owners(reservation.spec.owners)
    if paths and reservation.status.phase not in TERMINAL_PHASES:
        meta = found.metadata
        yield problem_of(ProblemCode.OPEN_TO_ALL, name=meta.name, uid=meta.uid, owners=list_names(paths))


def pod_reservations(books: ReservationAccounting, pod: PodInfo, nodes: Sequence[str]) -> PodReservations:
    """Return what reservations mean to a pod on these nodes."""
    seat = books.seat(pod.uid)
    candidates, others = [], 0
    for holding, refusal in books.refusals(pod):
        if not owner_matching.matches_any_owner(holding.owners, pod) or (
            refusal is not None and refusal.why is RejectionReason.OTHER_NAME
        ):
            others += holding.available
        else:
            candidates.append(CandidateReservation(name=holding.name, node=holding.node, refusal=refusal))
    if seat is not None:
        holding_of = books.holding(seat.inside) if seat.inside is not None else None
        return PodReservations(
            candidates=tuple(candidates), others=others, inside=holding_of.name if holding_of else ""
        )
    answers = []
    for name in nodes:
        room, verdict = books.room(name), books.explain(pod, name)
        inside = tuple(each for uid in verdict.inside if (each := _reservation_name(books, uid)))
        kept = _unused_reserved_resources(room, verdict.refusals) if room is not None else ()
        answers.append((name, _NodeAnswer(refusals=verdict.refusals, kept=kept, inside=inside)))
    return PodReservations(
        groups=_group_nodes(answers), candidates=tuple(sorted(candidates, key=_by_name)), others=others
    )


def placement_groups(
    books: ReservationAccounting, holding: ReservationInfo, nodes: Sequence[str], *, only: str, required: bool
) -> list[ReservationNodeGroup]:
    """Return where a reservation that has no place could have one."""
    answers = []
    for name in nodes:
        room = books.room(name)
        if room is None:
            continue
        found = place_reservation(room, holding, only=only, running=books.running(name), required=required)
        if isinstance(found, ReservationPlacement):
            answers.append((name, _NodeAnswer(over=len(found.over))))
        else:
            answers.append((name, _NodeAnswer(refusals=found, kept=_unused_reserved_resources(room, found))))
    return list(_group_nodes(answers))


class _NodeAnswer(Struct, frozen=True):
    """The answer of one node; fields as in `Group`."""

    refusals: tuple[Rejection, ...] = ()
    kept: tuple[UnusedReservedResource, ...] = ()
    inside: tuple[str, ...] = ()
    over: int = 0


def _group_nodes(answers: Iterable[tuple[str, _NodeAnswer]]) -> tuple[ReservationNodeGroup, ...]:
    found: dict[_NodeAnswer, list[str]] = {}
    for name, answer in answers:
        found.setdefault(answer, []).append(name)
    made = [
        ReservationNodeGroup(
            count=len(names),
            nodes=tuple(names[:NAMED_NODES_MAX]),
            refusals=each.refusals,
            kept=each.kept,
            inside=each.inside,
            over=each.over,
        )
        for each, names in found.items()
    ]
    return tuple(sorted(made, key=lambda each: (len(each.refusals), -each.count, each.nodes)))


def _unused_reserved_resources(room: NodeUsage, refusals: Iterable[Rejection]) -> tuple[UnusedReservedResource, ...]:
    """Return what is held and unused of the resources that are short."""
    found = []
    for resource in dict.fromkeys(each.subject for each in refusals if each.why is RejectionReason.NODE_SHORT):
        unused = {
            held.holding.name: held.charge(resource) - held.consumed.get(resource, 0) for held in room.held.values()
        }
        by = {name: amount for name, amount in unused.items() if amount > 0}
        if by and resource != PODS:
            found.append(
                UnusedReservedResource(resource=resource, amount=sum(by.values()), reservations=tuple(sorted(by)))
            )
    return tuple(found)


def _reservation_name(books: ReservationAccounting, uid: Uid) -> str:
    holding = books.holding(uid)
    return holding.name if holding is not None else ""


def _by_name(candidate: CandidateReservation) -> str:
    return candidate.name
