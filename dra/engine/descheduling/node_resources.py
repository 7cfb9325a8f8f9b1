"""Resources: kube-scheduler's filter NodeResourcesFit, on what Reservations and node reservations leave.

Within a round nothing becomes free: a pod that is to move keeps its place until it has gone, and a place that is to be
held is taken from then on. That is what the scheduler sees when it places the Reservations of the round.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, TypeAlias

import msgspec

from dra.api.reservations.model import MalformedReservationError, parse_reservation
from dra.engine.descheduling.candidate import Candidate
from dra.engine.descheduling.pods import DeschedulingPod
from dra.engine.reservations import filters, placeholders, reservation_info
from dra.engine.reservations.accounting import ReservationAccounting
from dra.engine.reservations.capacity_index import NodeSet, SortedNodes
from dra.engine.reservations.node_usage import NodeUsage, ReservationUsage, empty_node
from dra.engine.reservations.pod_info import PodInfo, allocated_reservation_uid
from dra.engine.reservations.rejections import Rejection, RejectionReason
from dra.engine.reservations.reservation_info import ReservationInfo
from dra.model.meta import Uid, UnstructuredObject
from dra.model.quantities import CPU, NO_AMOUNTS, PODS, Amounts, total
from dra.model.scheduling import SchedulerNode

POLICY_CONFLICT: Final = "node(s) reservation allocate policy conflict"

PodsByNode: TypeAlias = Mapping[str, Iterable[tuple[DeschedulingPod, Amounts]]]
"""Node → its pods that have not ended, and what each takes."""
_NO_PODS: Final[Mapping[Uid, Amounts]] = {}

_RANKED: Final = (CPU, "memory")
_RANKS: Final = 10**6
"""Free capacity is compared in millionths of a node."""


class NodeResources:
    """The capacity of all nodes, and what pods and reservations take of it."""

    def __init__(
        self,
        nodes: Iterable[SchedulerNode],
        reservations: Iterable[UnstructuredObject],
        pods: PodsByNode,
        *,
        for_pods: Mapping[str, Amounts],
    ) -> None:
        """Count nodes, Reservations and pods; ``for_pods`` is what each node has less its node reservation."""
        self.accounting = ReservationAccounting()
        self._ranks = SortedNodes()
        self._beside: dict[str, dict[Uid, Amounts]] = {}
        """Node → its pods that are in no Reservation, and what each takes."""
        infos = [info for reservation in reservations if (info := _reservation_info(reservation)) is not None]
        inside = self._divide(pods, infos)
        for node in sorted(nodes, key=lambda node: node.metadata.name):  # of equal nodes, the first by name is chosen
            name = node.metadata.name
            taken = total(self._beside.get(name, _NO_PODS).values())
            self.accounting.observe_node(
                name, for_pods.get(name, NO_AMOUNTS), labels=node.metadata.labels, unreserved=taken
            )
        for info in infos:
            self.accounting.observe_reservation(info)
        for running, name in inside:
            self.accounting.observe_pod(running, node=name)
        for name in self.accounting.index.names(self.accounting.index.known):
            self._rank(name)

    def _divide(self, pods: PodsByNode, infos: Iterable[ReservationInfo]) -> list[tuple[PodInfo, str]]:
        """Count pods that are in no Reservation, and return those that may be in one, each with its node.

        One by one, a hundred thousand pods would take tens of megabytes.
        """
        holding = {info.uid for info in infos if info.available}
        pre_allocated = {uid for info in infos if info.available for uid in info.pre_allocated_pods}
        inside = []
        for node, there in pods.items():
            beside = self._beside[node] = {}
            for pod, amounts in there:
                meta = pod.metadata
                if holding and placeholders.reservation_uid_of(meta) in holding:
                    continue  # holds the same already
                reservation = allocated_reservation_uid(meta) if meta.annotations else Uid("")
                if reservation or meta.uid in pre_allocated:
                    inside.append((_running(pod, amounts, reservation), node))
                else:
                    beside[meta.uid] = amounts
        return inside

    def hold(self, candidate: Candidate, node: str) -> None:
        """Hold the place of a pod on a node: what a Reservation for the pod holds there already, or else more."""
        place = msgspec.structs.replace(candidate.demand.info, uid=place_uid(candidate, node))
        if isinstance(self.accounting.assume_pod(place, node), tuple):
            self.accounting.observe_pod(place, node=node)
        self._rank(node)

    def release(self, candidate: Candidate, node: str) -> None:
        """Hold no longer what `hold` has held."""
        self.accounting.forget_pod(place_uid(candidate, node))
        self._rank(node)

    def nodes(self, candidate: Candidate) -> NodeSet:
        """Return the nodes with enough for a pod, in a Reservation of its own or beside all Reservations."""
        index = self.accounting.index
        nodes = self.accounting.feasible_nodes(candidate.demand.info)
        for name in index.names(nodes & self._conflicting):
            if self.reason(candidate, name, is_own=False):
                nodes &= ~index.single(name)
        return nodes

    def reason(self, candidate: Candidate, node: str, *, is_own: bool, gone: Collection[Uid] = ()) -> str:
        """Return what a node lacks for a pod; ``is_own``: it is the node of the pod, which does not count there.

        The pods that are ``gone`` do not count either.
        """
        usage = self.usage(node)
        for uid in (candidate.uid, *gone) if is_own else gone:
            amounts, assignment = self._beside.get(node, _NO_PODS).get(uid), self.accounting.assignment(uid)
            if amounts is not None:
                usage = usage.without_pod(uid, amounts)
            elif assignment is not None and assignment.node == node:
                usage = usage.without_pod(uid, assignment.pod.amounts, out_of=assignment.reservation)
        result = filters.filter_node(usage, candidate.demand.info)
        if result.fits and not result.reservations and not is_own:
            return POLICY_CONFLICT if self._conflicting & self.accounting.index.single(node) else ""
        return ", ".join(map(_text, result.rejections))

    def usable_reservations(self, candidate: Candidate, node: str) -> Iterator[ReservationUsage]:
        """Yield the Reservations of a node into which a pod fits."""
        usage = self.usage(node)
        if usage.reservations:
            result = filters.filter_node(usage, candidate.demand.info)
            yield from (usage.reservations[uid] for uid in result.reservations)

    @property
    def _conflicting(self) -> NodeSet:
        """The nodes with Reservations beside which no Reservation of a migration can be placed."""
        return self.accounting.index.with_policy_conflict(default_policy=True)

    def by_free(self, nodes: NodeSet) -> Iterable[str]:
        """Yield nodes by the part of cpu and memory that is free, the most first; of equals the first by name."""
        names = self.accounting.index
        return (names.name(number) for number in self._ranks.ascending(nodes))

    def usage(self, node: str) -> NodeUsage:
        """Return the usage of a node."""
        return self.accounting.node(node) or empty_node(node, {})

    def capacity(self, node: str) -> Amounts:
        """Return what a node has for pods: its allocatable less its node reservation."""
        usage = self.accounting.node(node)
        return NO_AMOUNTS if usage is None else usage.capacity

    def held(self, node: str) -> Amounts:
        """Return what Reservations hold on a node and no pod uses."""
        usage = self.usage(node)
        if not usage.reservations:
            return NO_AMOUNTS
        return total(
            {name: max(0, amount - held.allocated.get(name, 0)) for name, amount in held.info.allocatable.items()}
            for held in usage.reservations.values()
        )

    def _rank(self, name: str) -> None:
        usage = self.usage(name)
        free = sum(
            _RANKS * usage.free(resource) // capacity
            for resource in _RANKED
            if (capacity := usage.capacity.get(resource, 0)) > 0
        )
        self._ranks.set(self.accounting.index.single(name).bit_length() - 1, -free)


def place_uid(candidate: Candidate, node: str) -> Uid:
    """Return the uid under which the place of a pod on a node is counted."""
    return Uid(f"{candidate.uid} on {node}")


def _running(pod: DeschedulingPod, amounts: Amounts, reservation: Uid) -> PodInfo:
    """Return a running pod with all that decides which Reservation it is in."""
    meta = pod.metadata
    return PodInfo(
        key=meta.key,
        uid=meta.uid,
        amounts=amounts,
        labels=meta.labels or {},
        owner_references=tuple(meta.owner_references or ()),
        allocated_reservation=reservation,
    )


def _reservation_info(obj: UnstructuredObject) -> ReservationInfo | None:
    try:
        return reservation_info.from_reservation(parse_reservation(obj.content))
    except MalformedReservationError as error:
        meta = obj.metadata
        return reservation_info.from_status(meta.name, meta.uid, obj.content.get("status"), parse_error=str(error))


def _text(rejection: Rejection) -> str:
    if rejection.reason is RejectionReason.NODE_INSUFFICIENT:
        return "Too many pods" if rejection.subject == PODS else f"Insufficient {rejection.subject}"
    return rejection.text
