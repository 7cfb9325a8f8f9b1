"""Which pods of a node would have to go so that another can run there; none dies in vain.

Victims have a lower priority and are not protected; reservations are none, the pods in them may be: what those free is
free for owners of the same reservation only. All are thought away first; if the pod does not fit even then, nobody
goes. Then they are let back, as many as can be: first those whose PodDisruptionBudget would be violated, then the
others, each time the most important first.
"""

from collections.abc import Iterable, Mapping

from dra.api.reservations.model import ObjectReference, ReservationOwner
from dra.engine.reservations import filters as filtering
from dra.engine.reservations.filters import NodeFilterResult
from dra.engine.reservations.node_usage import NodeUsage
from dra.engine.reservations.pod_info import PodInfo
from dra.engine.reservations.reservation_info import ReservationInfo
from dra.model.meta import Struct, Uid


class PotentialVictim(Struct, frozen=True):
    """A pod on the node."""

    pod: PodInfo
    inside: Uid | None = None
    """The reservation it is in."""
    budgets: tuple[str, ...] = ()
    """The PodDisruptionBudgets that are about it."""


class PreemptionVictims(Struct, frozen=True):
    """Who goes."""

    pods: tuple[PodInfo, ...]
    violations: int
    """How many of them go against a budget."""
    verdict: NodeFilterResult
    """What the node says to the pod then."""


def select_victims(
    room: NodeUsage, pod: PodInfo, occupants: Iterable[PotentialVictim], *, budgets: Mapping[str, int] | None = None
) -> PreemptionVictims | None:
    """Return whom a pod would make leave a node; None if it would not fit even so, or fits as it is.

    `budgets` says how many more pods each budget lets go.
    """
    candidates = sorted(
        (each for each in occupants if each.pod.priority < pod.priority and not each.pod.protected),
        key=lambda each: (-each.pod.priority, each.pod.uid),
    )
    if filtering.filter_node(room, pod).fits:
        return None
    bare = remove_pods(room, candidates)
    if not filtering.filter_node(bare, pod).fits:
        return None
    violating = _pods_violating_budgets(candidates, budgets or {})
    gone = []
    for each in sorted(candidates, key=lambda each: each.pod.uid not in violating):
        back = bare.taking(each.pod.uid, each.pod.amounts, into=each.inside)
        if filtering.filter_node(back, pod).fits:
            bare = back
        else:
            gone.append(each.pod)
    return PreemptionVictims(
        pods=tuple(gone),
        violations=sum(each.uid in violating for each in gone),
        verdict=filtering.filter_node(bare, pod),
    )


def is_futile(room: NodeUsage, pod: PodInfo, occupants: Iterable[PotentialVictim]) -> bool:
    """Whether a pod would not fit even without these, whom somebody else has chosen."""
    return not filtering.filter_node(remove_pods(room, occupants), pod).fits


def preemptor_reservation(pod: PodInfo, node: str, leaving: Iterable[Uid]) -> ReservationInfo:
    """Return a holding for one pod alone, over pods that leave for it: what they free is nobody else's meanwhile."""
    return ReservationInfo(
        name=f"place of {'/'.join(pod.key)}",
        uid=preemptor_reservation_uid(pod.uid),
        amounts=pod.amounts,
        counts_pods=True,
        ports=pod.ports,
        node=node,
        owners=(ReservationOwner(object=ObjectReference(uid=pod.uid)),),
        predecessors=frozenset(leaving),
        stands_in=True,
    )


def preemptor_reservation_uid(pod: Uid) -> Uid:
    """Return the uid of the holding that stands in for a pod."""
    return Uid(f"place-of-{pod}")


def remove_pods(room: NodeUsage, occupants: Iterable[PotentialVictim]) -> NodeUsage:
    """Return the node without some pods."""
    for each in occupants:
        room = room.giving(each.pod.uid, each.pod.amounts, out_of=each.inside)
    return room


def _pods_violating_budgets(candidates: Iterable[PotentialVictim], budgets: Mapping[str, int]) -> set[Uid]:
    left = dict(budgets)
    found = set()
    for each in candidates:
        for name in each.budgets:
            left[name] = left.get(name, 0) - 1
            if left[name] < 0:
                found.add(each.pod.uid)
    return found
