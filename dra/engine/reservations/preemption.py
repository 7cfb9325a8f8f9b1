"""The selection of victims: pods to evict from a node so that a preemptor fits, and no more than that.

kube-scheduler has chosen victims already, and knows nothing of reservations. Where its choice suffices, it stands: with
pods that reservations do not concern, nothing differs from a cluster without them. Where the choice does not suffice,
or contains a protected pod, the victims are chosen again by the same rules (`dra.engine.kube_scheduler.victims`), on
the accounting of reservations. Reservations are never victims, pods inside them may be: what such pods free is
available only to owners of the same reservation.

Only amounts and host ports are known here. A victim of kube-scheduler that amounts do not explain is needed for another
reason, such as its anti-affinity, and stays a victim; all of them stay if the preemptor itself has such constraints.

A nomination keeps what evicted pods free for the pod that preempts them. kube-scheduler nominates the preemptor for the
node and counts it there, but knows nothing of reservations. Without a nomination here another pod could take what
kube-scheduler believes to be free, and the victims would have been evicted in vain. The victims of each node are known
from the extender's response to kube-scheduler; the chosen node is known from the pod's ``nominatedNodeName``. A process
that starts in between knows no victims and keeps nothing. (Koordinator keeps nothing at all: KEP-notes.md.)
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager

from dra.engine.kube_scheduler import host_ports
from dra.engine.kube_scheduler.victims import ChosenVictims, PotentialVictim, choose_victims
from dra.engine.reservations import filters as filtering
from dra.engine.reservations import reservation_info, scoring
from dra.engine.reservations.accounting import ReservationAccounting
from dra.engine.reservations.node_usage import NodeUsage, PodAssignment
from dra.engine.reservations.pod_info import PodInfo
from dra.model.meta import Struct, Uid
from dra.model.preemption import PodDisruptionBudget

Fits = Callable[[NodeUsage], bool]
"""Reports whether the preemptor fits on a node."""


def select_victims(
    node: NodeUsage,
    assignments: Iterable[PodAssignment],
    *,
    priority: int,
    fits: Fits,
    budgets: Sequence[PodDisruptionBudget] = (),
    required: AbstractSet[Uid] = frozenset(),
) -> ChosenVictims | None:
    """Return the victims of a preemptor on a node; None if it does not fit without them either, or fits as it is.

    `required` are pods that must be evicted for reasons other than amounts.
    """
    candidates = {
        assignment.pod.uid: assignment
        for assignment in assignments
        if assignment.pod.priority < priority and not assignment.pod.is_protected
    }
    if not required <= candidates.keys() or (not required and fits(node)):
        return None
    remaining = node.without_pods(candidates.values())
    if not fits(remaining):
        return None

    def reprieve(uid: Uid) -> bool:
        nonlocal remaining
        candidate = candidates[uid]
        reprieved = remaining.with_pod(uid, candidate.pod.amounts, into=candidate.reservation)
        if fits(reprieved):
            remaining = reprieved
            return True
        return False

    potential = [_potential_victim(assignment.pod) for assignment in candidates.values()]
    return choose_victims(potential, budgets, reprieve=reprieve, required=required)


def suffices(assignments: Iterable[PodAssignment], node: NodeUsage, *, fits: Fits) -> bool:
    """Return whether the preemptor fits without the given pods, none of which is protected."""
    leaving = tuple(assignments)
    return not any(assignment.pod.is_protected for assignment in leaving) and fits(node.without_pods(leaving))


def unexplained_victims(node: NodeUsage, pod: PodInfo, leaving: Collection[PodAssignment]) -> frozenset[Uid]:
    """Return the victims that kube-scheduler has chosen for another reason than amounts.

    To kube-scheduler each pod takes its requests, and reservations take nothing. A victim is explained by amounts if
    the preemptor would not fit with this one pod put back.
    """
    without = node.without_pods(leaving)
    return frozenset(
        victim.pod.uid
        for victim in leaving
        if host_ports.have_conflict(pod.host_ports, victim.pod.host_ports)
        or all(
            without.unused(name) - victim.pod.amounts.get(name, 0) >= amount
            for name, amount in pod.amounts.items()
            if amount
        )
    )


def _potential_victim(pod: PodInfo) -> PotentialVictim:
    return PotentialVictim(
        key=pod.key, uid=pod.uid, priority=pod.priority, start_time=pod.start_time, labels=pod.labels
    )


class _NominatedPod(Struct, frozen=True):
    """The node, and perhaps the reservation, in which capacity is kept for a preemptor."""

    pod: PodInfo
    node: str
    reservation: Uid | None
    """The reservation that keeps the capacity; None if it is kept on the node, outside of all reservations."""


class Nominator:
    """The cache of preemptors, and of what the accounting keeps for each until it is bound."""

    def __init__(self, accounting: ReservationAccounting) -> None:
        self._accounting = accounting
        self._victims: dict[Uid, Mapping[str, Collection[Uid]]] = {}
        self._nominated: dict[Uid, _NominatedPod] = {}

    def record_victims(self, pod: Uid, victims: Mapping[str, Collection[Uid]]) -> None:
        """Record the victims of a preemptor by node; kube-scheduler will choose one of the nodes."""
        self._victims[pod] = victims

    def update_nomination(self, pod: PodInfo, node: str, *, enters_reservations: bool = True) -> None:
        """Update the nomination of a pending pod: keep what its victims free on the node.

        What was kept elsewhere is released. `enters_reservations`: what is kept may be in a reservation; a placeholder
        enters none.
        """
        kept = self._nominated.get(pod.uid)
        if kept is not None and kept.node == node:
            return
        self.release(pod.uid)
        if victims := self._victims.get(pod.uid, {}).get(node, ()):
            self._nominate(pod, node, victims, enters_reservations=enters_reservations)

    @contextmanager
    def suspended(self, placeholder: Uid) -> Iterator[None]:
        """Release what is kept for a placeholder while the nodes for its reservation are looked for."""
        kept = self._nominated.get(placeholder)
        self.release(placeholder)
        try:
            yield
        finally:
            if kept is not None:
                self.update_nomination(kept.pod, kept.node, enters_reservations=False)

    def release(self, pod: Uid) -> None:
        """Release what is kept for a pod that is being bound or was nominated elsewhere."""
        kept = self._nominated.pop(pod, None)
        if kept is None:
            return
        if kept.reservation is None:
            self._accounting.forget_reservation(reservation_info.preemptor_reservation_uid(pod))
        else:
            self._accounting.remove_nomination(pod, kept.reservation)

    def forget(self, pod: Uid) -> None:
        """Forget a pod that was bound or deleted."""
        self.release(pod)
        self._victims.pop(pod, None)

    def _nominate(self, pod: PodInfo, node: str, victims: Collection[Uid], *, enters_reservations: bool) -> None:
        usage = self._accounting.node(node)
        if usage is None:
            return
        if not enters_reservations:
            if not self._accounting.reserve_for_preemptor(pod, node, victims):
                self._nominated[pod.uid] = _NominatedPod(pod=pod, node=node, reservation=None)
            return
        assignments = [
            assignment for assignment in self._accounting.pods_on_node(node) if assignment.pod.uid in victims
        ]
        remaining = usage.without_pods(assignments)
        result = filtering.filter_node(remaining, pod)
        if not result.fits:
            return
        reservation = scoring.nominate_reservation(remaining, pod, result.reservations)
        if reservation is not None:
            self._accounting.nominate(pod, reservation)
        elif self._accounting.reserve_for_preemptor(pod, node, victims):
            return
        self._nominated[pod.uid] = _NominatedPod(pod=pod, node=node, reservation=reservation)
