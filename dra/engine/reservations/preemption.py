"""The selection of victims: pods to evict from a node so that a preemptor fits, and no more than that.

Victims have a lower priority and are not protected. Reservations are never victims, pods inside them may be: what such
pods free is available only to owners of the same reservation. All candidates are removed first; if the preemptor does
not fit even then, there are no victims. Then as many as possible are reprieved, by descending priority. (As in
kube-scheduler's DefaultPreemption, which also knows PodDisruptionBudgets and has chosen the first victims by these.)

A nomination keeps what evicted pods free for the pod that preempts them. kube-scheduler nominates the preemptor for the
node and counts it there, but knows nothing of reservations. Without a nomination here another pod could take what
kube-scheduler believes to be free, and the victims would have been evicted in vain. The victims of each node are known
from the extender's response to kube-scheduler; the chosen node is known from the pod's ``nominatedNodeName``. A process
that starts in between knows no victims and keeps nothing. (Koordinator keeps nothing at all: KEP-notes.md.)
"""

from collections.abc import Collection, Iterable, Mapping

from dra.engine.reservations import filters as filtering
from dra.engine.reservations import reservation_info, scoring
from dra.engine.reservations.accounting import ReservationAccounting
from dra.engine.reservations.node_usage import NodeUsage, PodAssignment
from dra.engine.reservations.pod_info import PodInfo
from dra.model.meta import Struct, Uid


def select_victims(node: NodeUsage, pod: PodInfo, assignments: Iterable[PodAssignment]) -> tuple[PodInfo, ...] | None:
    """Return the victims of a preemptor on a node; None if it does not fit without them either, or fits as it is."""
    candidates = sorted(
        (each for each in assignments if each.pod.priority < pod.priority and not each.pod.is_protected),
        key=lambda each: (-each.pod.priority, each.pod.uid),
    )
    if filtering.filter_node(node, pod).fits:
        return None
    remaining = node.without_pods(candidates)
    if not filtering.filter_node(remaining, pod).fits:
        return None
    victims = []
    for each in candidates:
        reprieved = remaining.with_pod(each.pod.uid, each.pod.amounts, into=each.reservation)
        if filtering.filter_node(reprieved, pod).fits:
            remaining = reprieved
        else:
            victims.append(each.pod)
    return tuple(victims)


def is_futile(node: NodeUsage, pod: PodInfo, victims: Iterable[PodAssignment]) -> bool:
    """Return whether a pod would not fit even without the given pods, which kube-scheduler chose as victims."""
    return not filtering.filter_node(node.without_pods(victims), pod).fits


class _NominatedPod(Struct, frozen=True):
    """The node, and perhaps the reservation, in which capacity is kept for a preemptor."""

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

    def update_nomination(self, pod: PodInfo, node: str) -> None:
        """Update the nomination of a pending pod: keep what its victims free on the node.

        What was kept elsewhere is released.
        """
        kept = self._nominated.get(pod.uid)
        if kept is not None and kept.node == node:
            return
        self.release(pod.uid)
        if victims := self._victims.get(pod.uid, {}).get(node, ()):
            self._nominate(pod, node, victims)

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

    def _nominate(self, pod: PodInfo, node: str, victims: Collection[Uid]) -> None:
        usage = self._accounting.node(node)
        if usage is None:
            return
        assignments = [each for each in self._accounting.pods_on_node(node) if each.pod.uid in victims]
        remaining = usage.without_pods(assignments)
        result = filtering.filter_node(remaining, pod)
        if not result.fits:
            return
        reservation = scoring.nominate_reservation(remaining, pod, result.reservations)
        if reservation is not None:
            self._accounting.nominate(pod, reservation)
        elif self._accounting.reserve_for_preemptor(pod, node, victims):
            return
        self._nominated[pod.uid] = _NominatedPod(node=node, reservation=reservation)
