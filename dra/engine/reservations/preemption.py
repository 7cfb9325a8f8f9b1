"""Which pods of a node would have to go so that another can run there; none dies in vain.

Victims have a lower priority and are not protected; reservations are none, the pods in them may be: what those free is
free for owners of the same reservation only. All are thought away first; if the pod does not fit even then, nobody
goes. Then they are let back, as many as can be: first those whose PodDisruptionBudget would be violated, then the
others, each time the most important first.
"""

from collections.abc import Iterable, Mapping

from dra.api.reservations.model import ObjectReference, Owner
from dra.engine.reservations import filter as filtering
from dra.engine.reservations.claimants import Claimant
from dra.engine.reservations.filter import Verdict
from dra.engine.reservations.holdings import Holding
from dra.engine.reservations.rooms import Room
from dra.model.meta import Struct, Uid


class Occupant(Struct, frozen=True):
    """A pod on the node."""

    pod: Claimant
    inside: Uid | None = None
    """The reservation it is in."""
    budgets: tuple[str, ...] = ()
    """The PodDisruptionBudgets that are about it."""


class Victims(Struct, frozen=True):
    """Who goes."""

    pods: tuple[Claimant, ...]
    violations: int
    """How many of them go against a budget."""
    verdict: Verdict
    """What the node says to the pod then."""


def victims(
    room: Room, pod: Claimant, occupants: Iterable[Occupant], *, budgets: Mapping[str, int] | None = None
) -> Victims | None:
    """Return whom a pod would make leave a node; None if it would not fit even so, or fits as it is.

    `budgets` says how many more pods each budget lets go.
    """
    candidates = sorted(
        (each for each in occupants if each.pod.priority < pod.priority and not each.pod.protected),
        key=lambda each: (-each.pod.priority, each.pod.uid),
    )
    if filtering.check(room, pod).fits:
        return None
    bare = without(room, candidates)
    if not filtering.check(bare, pod).fits:
        return None
    violating = _violating(candidates, budgets or {})
    gone = []
    for each in sorted(candidates, key=lambda each: each.pod.uid not in violating):
        back = bare.taking(each.pod.uid, each.pod.amounts, into=each.inside)
        if filtering.check(back, pod).fits:
            bare = back
        else:
            gone.append(each.pod)
    return Victims(
        pods=tuple(gone),
        violations=sum(each.uid in violating for each in gone),
        verdict=filtering.check(bare, pod),
    )


def in_vain(room: Room, pod: Claimant, occupants: Iterable[Occupant]) -> bool:
    """Whether a pod would not fit even without these, whom somebody else has chosen."""
    return not filtering.check(without(room, occupants), pod).fits


def stand_in(pod: Claimant, node: str, leaving: Iterable[Uid]) -> Holding:
    """Return a holding for one pod alone, over pods that leave for it: what they free is nobody else's meanwhile."""
    return Holding(
        name=f"place of {'/'.join(pod.key)}",
        uid=place_of(pod.uid),
        amounts=pod.amounts,
        counts_pods=True,
        ports=pod.ports,
        node=node,
        owners=(Owner(object=ObjectReference(uid=pod.uid)),),
        predecessors=frozenset(leaving),
        stands_in=True,
    )


def place_of(pod: Uid) -> Uid:
    """Return the uid of the holding that stands in for a pod."""
    return Uid(f"place-of-{pod}")


def without(room: Room, occupants: Iterable[Occupant]) -> Room:
    """Return the node without some pods."""
    for each in occupants:
        room = room.giving(each.pod.uid, each.pod.amounts, out_of=each.inside)
    return room


def _violating(candidates: Iterable[Occupant], budgets: Mapping[str, int]) -> set[Uid]:
    left = dict(budgets)
    found = set()
    for each in candidates:
        for name in each.budgets:
            left[name] = left.get(name, 0) - 1
            if left[name] < 0:
                found.add(each.pod.uid)
    return found
