"""The selection of victims: pods to evict from a node so that a preemptor fits, and no more than that.

Victims have a lower priority and are not protected. Reservations are never victims, pods inside them may be: what such
pods free is available only to owners of the same reservation. All candidates are removed first; if the preemptor does
not fit even then, there are no victims. Then as many as possible are reprieved: first those whose PodDisruptionBudget
would be violated, then the others, in each group by descending priority. (As in kube-scheduler's DefaultPreemption.)
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
    """A pod on the node, with its reservation and its disruption budgets."""

    pod: PodInfo
    inside: Uid | None = None
    """Reservation that the pod is in; None for a pod in no reservation."""
    budgets: tuple[str, ...] = ()
    """Names of the PodDisruptionBudgets that select the pod."""


class PreemptionVictims(Struct, frozen=True):
    """The pods to evict from a node, and the result afterwards."""

    pods: tuple[PodInfo, ...]
    violations: int
    """Number of victims whose eviction violates a PodDisruptionBudget."""
    verdict: NodeFilterResult
    """Result of filtering the node for the preemptor without its victims."""


def select_victims(
    room: NodeUsage, pod: PodInfo, occupants: Iterable[PotentialVictim], *, budgets: Mapping[str, int] | None = None
) -> PreemptionVictims | None:
    """Return the victims of a preemptor on a node; None if it does not fit without them either, or fits as it is.

    `budgets` is the number of further evictions that each PodDisruptionBudget allows.
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
    """Return whether a pod would not fit even without the given pods, which kube-scheduler chose as victims."""
    return not filtering.filter_node(remove_pods(room, occupants), pod).fits


def preemptor_reservation(pod: PodInfo, node: str, leaving: Iterable[Uid]) -> ReservationInfo:
    """Return a reservation for one preemptor alone, over its victims: no other pod gets what the victims free."""
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
    """Return the uid of the reservation made for a preemptor."""
    return Uid(f"place-of-{pod}")


def remove_pods(room: NodeUsage, occupants: Iterable[PotentialVictim]) -> NodeUsage:
    """Return the usage of a node without the given pods."""
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
