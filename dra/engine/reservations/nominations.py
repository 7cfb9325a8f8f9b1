"""What leaving pods free is kept for the pod that makes them leave (koordinator.md A.12).

kube-scheduler nominates that pod for the node and counts it there, but knows nothing of reservations: beside one that
it takes for free room, somebody else would fit, and the victims would have died in vain. Who leaves on which node is
known from the answer to the scheduler; which node it has chosen, from the pod's ``nominatedNodeName``. A process that
starts in between knows no victims and keeps nothing.
"""

from collections.abc import Collection, Mapping

from dra.engine.reservations import filters as filtering
from dra.engine.reservations import nominate, preemption
from dra.engine.reservations.accounting import ReservationAccounting
from dra.engine.reservations.pod_info import PodInfo
from dra.model.meta import Struct, Uid


class _NominatedPod(Struct, frozen=True):
    """What is kept for a pod now."""

    node: str
    within: Uid | None
    """The reservation in which; None: a place of its own on the node."""


class Nominator:
    """Pods that make others leave, and what the books keep for them meanwhile."""

    def __init__(self, books: ReservationAccounting) -> None:
        self._books = books
        self._victims: dict[Uid, Mapping[str, Collection[Uid]]] = {}
        self._kept: dict[Uid, _NominatedPod] = {}

    def record_victims(self, pod: Uid, victims: Mapping[str, Collection[Uid]]) -> None:
        """Remember who would leave for a pod, by node; the scheduler will choose one of the nodes."""
        self._victims[pod] = victims

    def observe(self, pod: PodInfo, node: str) -> None:
        """A pod that waits is nominated for a node, or for none any more."""
        kept = self._kept.get(pod.uid)
        if kept is not None and kept.node == node:
            return
        self.lift(pod.uid)
        if victims := self._victims.get(pod.uid, {}).get(node, ()):
            self._keep(pod, node, victims)

    def lift(self, pod: Uid) -> None:
        """Keep nothing for a pod: it takes its place in this moment, or wants another."""
        kept = self._kept.pop(pod, None)
        if kept is None:
            return
        if kept.within is None:
            self._books.forget_reservation(preemption.preemptor_reservation_uid(pod))
        else:
            self._books.remove_nomination(pod, kept.within)

    def forget(self, pod: Uid) -> None:
        """A pod has its place, or is gone."""
        self.lift(pod)
        self._victims.pop(pod, None)

    def _keep(self, pod: PodInfo, node: str, victims: Collection[Uid]) -> None:
        there = self._books.room(node)
        if there is None:
            return
        leaving = [each for each in self._books.occupants(node) if each.pod.uid in victims]
        bare = preemption.remove_pods(there, leaving)
        verdict = filtering.filter_node(bare, pod)
        if not verdict.fits:
            return
        within = nominate.nominate_reservation(bare, pod, verdict.inside)
        if within is not None:
            self._books.promise(pod, within)
        elif self._books.succeed(pod, node, victims):
            return
        self._kept[pod.uid] = _NominatedPod(node=node, within=within)
