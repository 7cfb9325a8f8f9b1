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


def select_victims(room: NodeUsage, pod: PodInfo, occupants: Iterable[PodAssignment]) -> tuple[PodInfo, ...] | None:
    """Return the victims of a preemptor on a node; None if it does not fit without them either, or fits as it is."""
    candidates = sorted(
        (each for each in occupants if each.pod.priority < pod.priority and not each.pod.protected),
        key=lambda each: (-each.pod.priority, each.pod.uid),
    )
    if filtering.filter_node(room, pod).fits:
        return None
    bare = room.without_pods(candidates)
    if not filtering.filter_node(bare, pod).fits:
        return None
    gone = []
    for each in candidates:
        back = bare.taking(each.pod.uid, each.pod.amounts, into=each.inside)
        if filtering.filter_node(back, pod).fits:
            bare = back
        else:
            gone.append(each.pod)
    return tuple(gone)


def is_futile(room: NodeUsage, pod: PodInfo, occupants: Iterable[PodAssignment]) -> bool:
    """Return whether a pod would not fit even without the given pods, which kube-scheduler chose as victims."""
    return not filtering.filter_node(room.without_pods(occupants), pod).fits


class _NominatedPod(Struct, frozen=True):
    """The node, and perhaps the reservation, in which capacity is kept for a preemptor."""

    node: str
    within: Uid | None
    """The reservation that keeps the capacity; None if it is kept on the node, outside of all reservations."""


class Nominator:
    """The cache of preemptors, and of what the accounting keeps for each until it is bound."""

    def __init__(self, books: ReservationAccounting) -> None:
        self._books = books
        self._victims: dict[Uid, Mapping[str, Collection[Uid]]] = {}
        self._kept: dict[Uid, _NominatedPod] = {}

    def record_victims(self, pod: Uid, victims: Mapping[str, Collection[Uid]]) -> None:
        """Record the victims of a preemptor by node; kube-scheduler will choose one of the nodes."""
        self._victims[pod] = victims

    def observe(self, pod: PodInfo, node: str) -> None:
        """Update the nomination of a pending pod: keep what its victims free on the node.

        What was kept elsewhere is released.
        """
        kept = self._kept.get(pod.uid)
        if kept is not None and kept.node == node:
            return
        self.lift(pod.uid)
        if victims := self._victims.get(pod.uid, {}).get(node, ()):
            self._keep(pod, node, victims)

    def lift(self, pod: Uid) -> None:
        """Release what is kept for a pod that is being bound or was nominated elsewhere."""
        kept = self._kept.pop(pod, None)
        if kept is None:
            return
        if kept.within is None:
            self._books.forget_reservation(reservation_info.preemptor_reservation_uid(pod))
        else:
            self._books.remove_nomination(pod, kept.within)

    def forget(self, pod: Uid) -> None:
        """Forget a pod that was bound or deleted."""
        self.lift(pod)
        self._victims.pop(pod, None)

    def _keep(self, pod: PodInfo, node: str, victims: Collection[Uid]) -> None:
        there = self._books.room(node)
        if there is None:
            return
        leaving = [each for each in self._books.occupants(node) if each.pod.uid in victims]
        bare = there.without_pods(leaving)
        verdict = filtering.filter_node(bare, pod)
        if not verdict.fits:
            return
        within = scoring.nominate_reservation(bare, pod, verdict.inside)
        if within is not None:
            self._books.promise(pod, within)
        elif self._books.succeed(pod, node, victims):
            return
        self._kept[pod.uid] = _NominatedPod(node=node, within=within)
