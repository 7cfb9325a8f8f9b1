"""What reservations have to do with one pod, or with one another: which nodes could do, and the numbers that decide.

Asked are the books of the scheduler's extender (`dra.engine.reservations`), so what is told here is what it would
answer now. Nodes with the same answer, for the same reasons and numbers, are one group.
"""

from collections.abc import Iterable, Iterator, Sequence

from dra.api.reservations.model import MalformedReservationError, read
from dra.engine.explain.places import NAMED
from dra.engine.explain.problems import Problem, Trouble
from dra.engine.explain.problems import of_reservation as problem_of
from dra.engine.reasons import named
from dra.engine.reservations import owners
from dra.engine.reservations.amounts import PODS
from dra.engine.reservations.books import Books
from dra.engine.reservations.claimants import Claimant
from dra.engine.reservations.holdings import Holding
from dra.engine.reservations.phases import TERMINAL
from dra.engine.reservations.placing import Place, place
from dra.engine.reservations.refusals import Refusal, Why
from dra.engine.reservations.rooms import Room
from dra.model.meta import DynamicObject, Struct, Uid


class Kept(Struct, frozen=True):
    """What of a node's resource is held and not in use; and by whom."""

    resource: str
    amount: int
    """Billionths."""
    reservations: tuple[str, ...] = ()


class Group(Struct, frozen=True):
    """Nodes that give one answer."""

    count: int
    nodes: tuple[str, ...]
    refusals: tuple[Refusal, ...] = ()
    """None: it fits."""
    kept: tuple[Kept, ...] = ()
    inside: tuple[str, ...] = ()
    """The reservations that it would run in."""
    over: int = 0
    """How many running pods a reservation would be placed over."""


class Candidate(Struct, frozen=True):
    """A reservation, and why the pod may not use it."""

    name: str
    node: str = ""
    refusal: Refusal | None = None
    """None: it may, where there is room."""


class Advice(Struct, frozen=True):
    """What reservations mean to a pod."""

    groups: tuple[Group, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    """Those that name the pod as an owner, or that it asks for."""
    others: int = 0
    """How many reservations are for others."""
    inside: str = ""
    """The one that it is in."""


def problems(found: DynamicObject) -> Iterator[Problem]:
    """Yield what an audit tells of a Reservation; one that cannot be read tells so in its own condition."""
    try:
        reservation = read(found.content)
    except MalformedReservationError:
        return
    paths = owners.open_to_all(reservation.spec.owners)
    if paths and reservation.status.phase not in TERMINAL:
        meta = found.metadata
        yield problem_of(Trouble.OPEN_TO_ALL, name=meta.name, uid=meta.uid, owners=named(paths))


def of_pod(books: Books, pod: Claimant, nodes: Sequence[str]) -> Advice:
    """Return what reservations mean to a pod on these nodes."""
    seat = books.seat(pod.uid)
    candidates, others = [], 0
    for holding, refusal in books.refusals(pod):
        if not owners.matches(holding.owners, pod) or (refusal is not None and refusal.why is Why.OTHER_NAME):
            others += holding.available
        else:
            candidates.append(Candidate(name=holding.name, node=holding.node, refusal=refusal))
    if seat is not None:
        holding_of = books.holding(seat.inside) if seat.inside is not None else None
        return Advice(candidates=tuple(candidates), others=others, inside=holding_of.name if holding_of else "")
    answers = []
    for name in nodes:
        room, verdict = books.room(name), books.explain(pod, name)
        inside = tuple(each for uid in verdict.inside if (each := _name(books, uid)))
        kept = _kept(room, verdict.refusals) if room is not None else ()
        answers.append((name, _Answer(refusals=verdict.refusals, kept=kept, inside=inside)))
    return Advice(groups=_grouped(answers), candidates=tuple(sorted(candidates, key=_by_name)), others=others)


def of_reservation(books: Books, holding: Holding, nodes: Sequence[str], *, only: str, required: bool) -> list[Group]:
    """Return where a reservation that has no place could have one."""
    answers = []
    for name in nodes:
        room = books.room(name)
        if room is None:
            continue
        found = place(room, holding, only=only, running=books.running(name), required=required)
        if isinstance(found, Place):
            answers.append((name, _Answer(over=len(found.over))))
        else:
            answers.append((name, _Answer(refusals=found, kept=_kept(room, found))))
    return list(_grouped(answers))


class _Answer(Struct, frozen=True):
    """The answer of one node; fields as in `Group`."""

    refusals: tuple[Refusal, ...] = ()
    kept: tuple[Kept, ...] = ()
    inside: tuple[str, ...] = ()
    over: int = 0


def _grouped(answers: Iterable[tuple[str, _Answer]]) -> tuple[Group, ...]:
    found: dict[_Answer, list[str]] = {}
    for name, answer in answers:
        found.setdefault(answer, []).append(name)
    made = [
        Group(
            count=len(names),
            nodes=tuple(names[:NAMED]),
            refusals=each.refusals,
            kept=each.kept,
            inside=each.inside,
            over=each.over,
        )
        for each, names in found.items()
    ]
    return tuple(sorted(made, key=lambda each: (len(each.refusals), -each.count, each.nodes)))


def _kept(room: Room, refusals: Iterable[Refusal]) -> tuple[Kept, ...]:
    """Return what is held and unused of the resources that are short."""
    found = []
    for resource in dict.fromkeys(each.subject for each in refusals if each.why is Why.NODE_SHORT):
        unused = {
            held.holding.name: held.charge(resource) - held.consumed.get(resource, 0) for held in room.held.values()
        }
        by = {name: amount for name, amount in unused.items() if amount > 0}
        if by and resource != PODS:
            found.append(Kept(resource=resource, amount=sum(by.values()), reservations=tuple(sorted(by))))
    return tuple(found)


def _name(books: Books, uid: Uid) -> str:
    holding = books.holding(uid)
    return holding.name if holding is not None else ""


def _by_name(candidate: Candidate) -> str:
    return candidate.name
