"""Whether a reservation can be placed on a node, and over which running pods.

It needs what a pod of its template would: free room. Reservations of the default policy share no node with others.

With pre-allocation (policy Restricted only) it may also be placed over running pods that are to be its consumers: their
place is reserved while they use it, and kept when they end. Those are pods that match its owners (mode Default) or are
labelled for it (mode Cluster), are in no reservation yet, and take no more of a restricted resource than it holds. The
pod that fills it best comes first; in mode Cluster the priority annotation decides before that. One pod, or with
``enableMultiple`` as many as are needed without overflowing it.
"""

from collections.abc import Iterable, Iterator
from functools import partial

from dra.api.reservations.model import PreAllocationMode
from dra.engine.reservations import amounts, eligibility, marks, owners, ports, score
from dra.engine.reservations import filter as filtering
from dra.engine.reservations.amounts import Amounts
from dra.engine.reservations.claimants import Claimant
from dra.engine.reservations.holdings import Holding
from dra.engine.reservations.refusals import Refusal, Why
from dra.engine.reservations.rooms import Held, Room
from dra.model.meta import Struct


class Place(Struct, frozen=True):
    """Where a reservation goes."""

    node: str
    over: tuple[Claimant, ...] = ()
    """The pods whose place it takes."""


def place(
    room: Room,
    holding: Holding,
    *,
    only: str = "",
    running: Iterable[Claimant] = (),
    required: bool = False,
) -> Place | tuple[Refusal, ...]:
    """Return how a reservation can be placed on a node, or why it cannot.

    `only` is the node that its template names; `running` are the node's pods that are in no reservation; `required` is
    whether it must be placed over some.
    """
    if refusal := _barred(room, holding, only):
        return (refusal,)
    if held := filtering.port_held(room, holding.ports, but=holding.uid):
        return held
    there = tuple(running) if holding.pre_allocates else ()
    lacking = filtering.beside(room, holding.amounts)
    if not lacking and not required and not _ports_used(holding, there):
        return Place(node=room.name)
    over = _over(room, holding, there)
    if over and not _ports_used(holding, (each for each in there if each not in over)):
        return Place(node=room.name, over=over)
    if _ports_used(holding, there):
        return (*lacking, Refusal(why=Why.HOST_PORT))
    return lacking or (Refusal(why=Why.NO_MATCH),)


def neighbours(room: Room) -> Iterator[Holding]:
    """Yield the reservations with which another would share a node; those that nobody can use any more do not count."""
    for held in room.held.values():
        if not held.holding.stands_in and eligibility.unusable(held.holding, consumers=held.entered) is None:
            yield held.holding


def _barred(room: Room, holding: Holding, only: str) -> Refusal | None:
    if not room.known:
        return Refusal(why=Why.NO_SUCH_NODE)
    if only and only != room.name:
        return Refusal(why=Why.OTHER_NODE)
    for each in neighbours(room):
        if each.default_policy != holding.default_policy:
            return Refusal(why=Why.POLICY_CONFLICT, subject=each.name)
    return None


def _over(room: Room, holding: Holding, running: Iterable[Claimant]) -> tuple[Claimant, ...]:
    """Return the pods to place it over; none if that does not help."""
    chosen: list[Claimant] = []
    taken: Amounts = {}
    for pod in sorted((each for each in running if _may(room, holding, each)), key=partial(_rank, holding)):
        more = amounts.plus(taken, pod.amounts)
        if any(amount > holding.amounts[name] for name, amount in more.items() if name in holding.restricted):
            continue
        if not holding.over_many:
            if _fits(room.giving(pod.uid, pod.amounts), holding, pod.amounts):
                return (pod,)
            continue
        chosen.append(pod)
        taken = more
        room = room.giving(pod.uid, pod.amounts)
        if _fits(room, holding, taken):
            return tuple(chosen)
    return ()


def _ports_used(holding: Holding, pods: Iterable[Claimant]) -> bool:
    """Whether a pod uses a host port that a placeholder without ports does not make kube-scheduler look at."""
    return bool(holding.ports) and any(ports.clash(holding.ports, each.ports) for each in pods)


def _fits(room: Room, holding: Holding, consumed: Amounts) -> bool:
    return not filtering.beside(room, Held(holding=holding, consumed=consumed).charges)


def _may(room: Room, holding: Holding, pod: Claimant) -> bool:
    if not eligibility.suits(holding, pod, node_labels=room.labels):
        return False
    if holding.pre_allocation_mode is PreAllocationMode.CLUSTER:
        return pod.labels.get(marks.PRE_ALLOCATABLE) == marks.TRUE
    return owners.matches((each for each in holding.owners if each.label_selector is not None), pod)


def _rank(holding: Holding, pod: Claimant) -> tuple[bool, int, int, str]:
    cluster = holding.pre_allocation_mode is PreAllocationMode.CLUSTER
    priority = pod.pre_allocatable if cluster else 0
    return (
        not _ports_used(holding, (pod,)),
        -priority,
        -score.most_allocated(Held(holding=holding), pod.amounts),
        pod.uid,
    )
