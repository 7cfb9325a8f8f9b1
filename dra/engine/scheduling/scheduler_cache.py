"""The scheduler cache: the accounting of reservations, filled from informers and from answers to own writes.

Own writes are known before the informer reports them, so the informer may be behind: for a reservation only a later
resourceVersion counts. A reservation that is *being placed* holds its node already, whatever the informer still
reports. A reservation that cannot be parsed keeps the capacity of its last valid version; if there was none, the
capacity stated in its status.

A live read may add an object that the informer never reports; if the object was deleted while the watch was
interrupted, it would stay in the cache for ever. So after a relist, every object missing from the list is removed, if
the list should have contained it.

A placeholder is not charged once its reservation holds the node: the same capacity would be charged twice.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import msgspec

from dra.api.reservations import well_known
from dra.api.reservations.model import (
    MalformedReservationError,
    Reservation,
    ReservationPhase,
    TaintEffect,
    parse_reservation,
)
from dra.api.reservations.well_known import MalformedAnnotationError
from dra.engine.dirty_keys import Cache, DirtyKeys
from dra.engine.instants import NEVER, Instant
from dra.engine.kube_scheduler import host_ports, pod_requests
from dra.engine.reservations import placeholders, quota_scopes, quotas, reservation_info
from dra.engine.reservations.accounting import ReservationAccounting
from dra.engine.reservations.pod_info import PodInfo, allocated_reservation_uid
from dra.engine.reservations.preemption import Nominator
from dra.engine.reservations.quota_scopes import PodTraits
from dra.engine.reservations.quotas import Charge
from dra.engine.reservations.reservation_info import ReservationInfo
from dra.engine.scheduling import shortages
from dra.engine.scheduling.node_reservations import NodeReservations
from dra.engine.scheduling.published_resources import (
    NOTHING_PUBLISHED,
    PublishedResources,
    published_resources,
    unpublished_resources,
    without_resources,
)
from dra.engine.scheduling.unschedulable_pods import UnschedulablePods
from dra.model import annotations, quantities
from dra.model.deleted_uids import DeletedUids
from dra.model.meta import Key, Struct, Uid, UnstructuredObject
from dra.model.preemption import PodDisruptionBudget
from dra.model.quantities import Amounts
from dra.model.quotas import ResourceQuota
from dra.model.resource_versions import is_older
from dra.model.scheduling import SchedulerNode, SchedulerPod


class CachedReservation(Struct, frozen=True):
    """A reservation in its last observed state."""

    reservation: Reservation
    version: str
    info: ReservationInfo

    @property
    def name(self) -> str:
        """Return the name of the reservation."""
        return self.info.name

    @property
    def may_preempt(self) -> bool:
        """Return whether its placeholder may preempt pods of a lower priority."""
        return placeholders.may_preempt(self.reservation)


class NodeReport(Struct, frozen=True):
    """The texts to report of a node that was added or updated; an empty text says nothing."""

    error: str = ""
    """New error in its annotation."""
    shortage: str = ""
    """What its reservations lack since the node has less than before."""


class SchedulerCache(Cache[Uid]):
    """The nodes, reservations and pods of a cluster; reservations with a new version are dirty."""

    def __init__(self) -> None:
        self.dirty = DirtyKeys()
        self.accounting = ReservationAccounting()
        self.nominations = Nominator(self.accounting)
        self.node_reservations = NodeReservations()
        self.reservation_errors: dict[Uid, str] = {}
        """Reservation whose last version cannot be parsed → the error, and what it holds."""
        self.unschedulable = UnschedulablePods()
        self.vacating: dict[Uid, Instant] = {}
        """Available reservation whose placeholder still exists, so that kube-scheduler counts its capacity as used →
        time until which owners wait for the placeholder to leave; NEVER: no owner has come yet."""
        self.assumed: dict[Uid, ReservationInfo] = {}
        """Reservation that is being placed → what it holds on its node meanwhile."""
        self.prefer_no_schedule: set[str] = set()
        """Nodes with a PreferNoSchedule taint."""
        self.nodes_with_reservation: dict[Uid, frozenset[str]] = {}
        """Pod that is being scheduled → nodes that were scored because of a reservation there."""
        self.budgets: dict[Key, PodDisruptionBudget] = {}
        self.knows_budgets = False
        """Whether all PodDisruptionBudgets have been listed. Until then kube-scheduler's victims stand or their node is
        no candidate: no others are chosen."""
        self._quotas: dict[str, dict[str, ResourceQuota]] = {}
        """Namespace → its ResourceQuotas by name."""
        self._reservations: dict[Uid, CachedReservation] = {}
        self._deleted = DeletedUids()
        self._resize_amounts: dict[Uid, Amounts] = {}
        self._unreadable: dict[Uid, str] = {}
        """Reservations that could never be parsed → their versions."""
        self._read_pods: dict[Uid, str] = {}
        """Pods added by live reads → their versions."""
        self._pending_pods: dict[Uid, SchedulerPod] = {}
        self._placeholders: dict[Uid, dict[Uid, SchedulerPod]] = {}
        """Reservation → its placeholders by uid."""
        self._reservation_by_placeholder: dict[Uid, Uid] = {}
        """Placeholder → its reservation."""
        self._knows_pods = False
        """Whether all pods have been listed."""
        self._resources: set[str] = {quantities.PODS}
        """Resources of nodes. A node that does not state its number of pods has room for none."""
        self._published: dict[str, PublishedResources] = {}

    def mark_all_dirty(self) -> None:
        """Mark all reservations that hold a node."""
        self.dirty.update(known.info.uid for known in self.available())

    # Nodes

    def observe_node(self, node: SchedulerNode) -> NodeReport:
        """Add or update a node, without the capacity that it keeps for itself; return what is to be reported."""
        name = node.metadata.name
        before = self._shortage(name)
        self._resources.update(node.status.allocatable or ())
        self._published[name] = published_resources(node)
        if any(taint.effect == TaintEffect.PREFER_NO_SCHEDULE for taint in node.spec.taints or ()):
            self.prefer_no_schedule.add(name)
        else:
            self.prefer_no_schedule.discard(name)
        known_error = self.node_reservations.errors.get(name)
        allocatable = self.node_reservations.observe(node)
        self.accounting.observe_node(name, allocatable, labels=node.metadata.labels)
        error = self.node_reservations.errors.get(name, "")
        lost = shortages.growth(before, self._shortage(name))
        return NodeReport(
            error=error if error != known_error else "", shortage=shortages.shrunk_text(name, lost) if lost else ""
        )

    def _shortage(self, node: str) -> Amounts | None:
        """Return what a node lacks for its reservations; None for a node that has not been observed."""
        known = self.accounting.node(node)
        return known.reserved_shortage() if known is not None and known.is_known else None

    def forget_node(self, name: str) -> None:
        """Remove a deleted node from the cache."""
        self.node_reservations.forget(name)
        self.prefer_no_schedule.discard(name)
        self._published.pop(name, None)
        self.accounting.forget_node(name)

    # Reservations

    def observe_reservation(self, obj: UnstructuredObject) -> bool:
        """Add or update a reservation, from the informer or from the answer to a write.

        Return whether a pod may fit now that did not before.
        """
        before = self.accounting.reservation(obj.metadata.uid)
        self._observe_reservation(obj)
        return _frees_capacity(before, self.accounting.reservation(obj.metadata.uid))

    def observe_read_reservation(self, obj: UnstructuredObject, uid: Uid) -> None:
        """Add or update a reservation from a live read by name; another one of that name means that ``uid`` is gone."""
        if obj.metadata.uid != uid:
            self.forget_reservation(uid)
        self._observe_reservation(obj)

    def _observe_reservation(self, obj: UnstructuredObject) -> None:
        meta = obj.metadata
        before = self._reservations.get(meta.uid)
        if meta.uid in self._deleted or (before is not None and is_older(meta.resource_version, before.version)):
            return
        if before is not None and meta.resource_version == before.version:
            return  # already known from the answer to a write: parsing it again takes half a millisecond
        try:
            reservation = parse_reservation(obj.content)
            info = reservation_info.from_reservation(reservation)
        except MalformedReservationError as error:
            self._observe_unreadable(obj, before, str(error))
            return
        self._unreadable.pop(meta.uid, None)
        self.reservation_errors.pop(meta.uid, None)
        self._reservations[meta.uid] = CachedReservation(
            reservation=reservation, version=meta.resource_version, info=info
        )
        self.dirty.add(meta.uid)
        if not info.available and meta.uid in self.assumed:
            return
        self.accounting.observe_reservation(self._as_held(info))
        self._account_placeholder(meta.uid)

    def forget_reservation(self, uid: Uid) -> None:
        """Remove a deleted reservation; its pods continue to run."""
        self._deleted.add(uid)
        self._reservations.pop(uid, None)
        self._unreadable.pop(uid, None)
        self.reservation_errors.pop(uid, None)
        self.assumed.pop(uid, None)
        self.accounting.forget_reservation(uid)
        self._account_placeholder(uid)

    def _observe_unreadable(self, obj: UnstructuredObject, before: CachedReservation | None, error: str) -> None:
        meta = obj.metadata
        if before is not None:
            self.reservation_errors[meta.uid] = f"{error}; it keeps the resources of its last valid version"
            return
        self.reservation_errors[meta.uid] = f"{error}; it holds the resources in its status, and no pod may use it"
        self._unreadable[meta.uid] = meta.resource_version
        held = reservation_info.from_status(meta.name, meta.uid, obj.content.get("status"), parse_error=error)
        if held is not None:
            self.accounting.observe_reservation(held)
        else:
            self.accounting.forget_reservation(meta.uid)
        self._account_placeholder(meta.uid)

    def replace_reservations(self, shown: Collection[Uid], version: str) -> bool:
        """Remove reservations that a complete list should have shown and did not; return whether there were any."""
        known = {uid: reservation.version for uid, reservation in self._reservations.items()} | self._unreadable
        gone = [
            uid for uid, known_version in known.items() if uid not in shown and not is_older(version, known_version)
        ]
        for uid in gone:
            self.forget_reservation(uid)
        return bool(gone)

    def reservation(self, uid: Uid) -> CachedReservation | None:
        """Return the cached reservation of a uid."""
        return self._reservations.get(uid)

    def available(self) -> Iterable[CachedReservation]:
        """Return the reservations that hold a node."""
        return [reservation for reservation in self._reservations.values() if reservation.info.available]

    def forget_assumed_reservation(self, uid: Uid) -> None:
        """End the placement of a reservation, successful or not: its observed state counts again."""
        if self.assumed.pop(uid, None) is None:
            return
        known = self._reservations.get(uid)
        if known is None:
            self.accounting.forget_reservation(uid)
        else:
            self.accounting.observe_reservation(known.info)
        self._account_placeholder(uid)

    def hold_for_resize(self, uid: Uid, held: Amounts | None) -> None:
        """Hold these amounts for a reservation, regardless of its observed state, until called with None."""
        if held is None:
            self._resize_amounts.pop(uid, None)
        else:
            self._resize_amounts[uid] = held
        if (known := self._reservations.get(uid)) is not None:
            self.accounting.observe_reservation(self._as_held(known.info))

    def _as_held(self, info: ReservationInfo) -> ReservationInfo:
        held = self._resize_amounts.get(info.uid)
        return info if held is None else msgspec.structs.replace(info, allocatable=held)

    # Pods

    def observe_pod(self, pod: SchedulerPod) -> str:
        """Add or update a pod.

        Return what is to be reported if the reservations of its node are short of more capacity now: the pod was bound
        without the extender, or was resized, which its kubelet alone decides. Otherwise the text is empty. A pod of the
        first list may be older than the extender.
        """
        name = pod.spec.node_name
        is_new = self.accounting.assignment(pod.metadata.uid) is None
        before = self._shortage(name) if self._knows_pods else None
        self._observe_pod(pod)
        taken = shortages.growth(before, self._shortage(name))
        return shortages.overcommitted_text(pod, taken, is_new=is_new) if taken else ""

    def observe_read_pod(self, pod: SchedulerPod, *, is_watched: bool) -> None:
        """Add a pod from a live list, if it is bound; a pod that is not watched may be unknown to the informer."""
        if not pod.spec.node_name:
            return
        self._observe_pod(pod)
        if not is_watched:
            self.note_read_pod(pod)

    def _observe_pod(self, pod: SchedulerPod) -> None:
        annotations.trim_annotations(
            pod.metadata,
            keep=well_known.RETAINED_POD_ANNOTATIONS,
            value_max_characters=well_known.MAX_ANNOTATION_LENGTH,
        )
        uid = pod.metadata.uid
        if uid in self._deleted:
            return
        if (reservation := placeholders.reservation_uid_of(pod.metadata)) is not None:
            self._placeholders.setdefault(reservation, {})[uid] = pod
            self._reservation_by_placeholder[uid] = reservation
            self._update_nomination(pod, enters_reservations=False)
            self._account_placeholder(reservation)
        elif pod.terminal:
            self.forget_pod(pod)
        elif pod.spec.node_name:
            self._pending_pods.pop(uid, None)
            self.unschedulable.forget(uid)
            self.nodes_with_reservation.pop(uid, None)
            self.nominations.forget(uid)
            self.accounting.observe_pod(self.bound_pod_info(pod), node=pod.spec.node_name)
        else:
            self._pending_pods[uid] = pod
            self._update_nomination(pod)

    def note_read_pod(self, pod: SchedulerPod) -> None:
        """Remember that a pod comes from a live read, and may be unknown to the informer."""
        if pod.metadata.uid not in self._deleted:
            self._read_pods[pod.metadata.uid] = pod.metadata.resource_version

    def replace_pods(self, shown: Collection[Uid], version: str) -> None:
        """Remove pods that a complete list should have shown and did not."""
        self._knows_pods = True
        learned, self._read_pods = self._read_pods, {}
        for uid, read_version in learned.items():
            if uid in shown:
                continue
            if is_older(version, read_version):  # the read is later than the list
                self._read_pods[uid] = read_version
                continue
            self._remove_pod(uid)

    def forget_pod(self, pod: SchedulerPod) -> None:
        """Remove a pod that has finished or was deleted."""
        self._read_pods.pop(pod.metadata.uid, None)
        self._remove_pod(pod.metadata.uid)

    def pending_pod(self, uid: Uid) -> SchedulerPod | None:
        """Return a pod without a node, placeholders included."""
        pod = self._pending_pods.get(uid)
        if pod is None and (reservation := self._reservation_by_placeholder.get(uid)) is not None:
            pod = self._placeholders[reservation][uid]
        return pod

    def pending_pods(self) -> Iterable[SchedulerPod]:
        """Return the pods without a node, placeholders included."""
        placed = (pod for known in self._placeholders.values() for pod in known.values())
        return [*self._pending_pods.values(), *(pod for pod in placed if not pod.spec.node_name)]

    def pod_info(self, pod: SchedulerPod, *, node: str = "") -> PodInfo:
        """Return the PodInfo of a pending pod, as it counts on a node. Raises MalformedAnnotationError.

        A resource that no node has is not counted, and on `node` no extended resource that the node does not publish:
        DRA serves it there, or kube-scheduler is configured to ignore it. Otherwise kube-scheduler has rejected the
        node, which it does before it asks the extender.
        """
        return self.counted_on(node, self._counted(PodInfo.from_pod(pod)))

    def counted_on(self, node: str, pod: PodInfo) -> PodInfo:
        """Return a pod as it counts on a node; see `pod_info`."""
        known = self._published.get(node)
        return pod if known is None else without_resources(pod, unpublished_resources(pod, known))

    def group_by_published_resources(
        self, pod: PodInfo, nodes: Sequence[str]
    ) -> Iterator[tuple[PodInfo, Sequence[str]]]:
        """Yield the given nodes in groups on which a pod counts the same, each with the pod as it counts there."""
        if not unpublished_resources(pod, NOTHING_PUBLISHED):  # hardly any pod, and nodes come by thousands
            yield pod, nodes
            return
        groups: dict[PublishedResources | None, list[str]] = {}
        for node in nodes:
            groups.setdefault(self._published.get(node), []).append(node)
        for known, names in groups.items():
            yield pod if known is None else without_resources(pod, unpublished_resources(pod, known)), names

    def bound_pod_info(self, pod: SchedulerPod) -> PodInfo:
        """Return the PodInfo of a bound pod; its requests count even if its annotations are malformed.

        All resources count: its node may not have been observed yet, and the node's resources are unknown then.
        """
        try:
            return PodInfo.from_pod(pod)
        except MalformedAnnotationError:
            meta = pod.metadata
            return PodInfo(
                key=meta.key,
                uid=meta.uid,
                amounts=pod_requests.pod_requests(pod),
                host_ports=host_ports.pod_host_ports(pod),
                labels=meta.labels or {},
                owner_references=tuple(meta.owner_references or ()),
                priority=pod.spec.priority,
                start_time=pod.status.start_time or "",
                allocated_reservation=allocated_reservation_uid(meta),
            )

    def _counted(self, pod: PodInfo) -> PodInfo:
        if pod.amounts.keys() <= self._resources:
            return pod
        known = {name: amount for name, amount in pod.amounts.items() if name in self._resources}
        return msgspec.structs.replace(pod, amounts=known)

    def _account_placeholder(self, reservation: Uid) -> None:
        """Charge a placeholder that is bound or nominated only while its reservation does not hold the node itself.

        A reservation may have several placeholders if it was created when placeholders stayed.
        """
        info = self.accounting.reservation(reservation)
        holds = info is not None and info.available
        for uid, pod in self._placeholders.get(reservation, {}).items():
            if pod.spec.node_name and not pod.terminal and not holds:
                self.accounting.observe_pod(self.bound_pod_info(pod), node=pod.spec.node_name)
            else:
                self.accounting.forget_pod(uid)
            if holds:
                self.nominations.release(uid)
        self._update_vacating(reservation, holds=holds)

    def _update_vacating(self, reservation: Uid, *, holds: bool) -> None:
        pods = self._placeholders.get(reservation, {}).values()
        if holds and any(not pod.terminal and not placeholders.is_yielding_placeholder(pod) for pod in pods):
            self.vacating.setdefault(reservation, NEVER)
        else:
            self.vacating.pop(reservation, None)

    def _update_nomination(self, pod: SchedulerPod, *, enters_reservations: bool = True) -> None:
        uid, node = pod.metadata.uid, pod.status.nominated_node_name
        if pod.spec.node_name or pod.terminal:
            self.nominations.forget(uid)
        elif not node:
            self.nominations.release(uid)
        elif self.accounting.assignment(uid) is None:  # otherwise the pod is being bound
            try:
                pod_info = self.pod_info(pod, node=node)
                self.nominations.update_nomination(pod_info, node, enters_reservations=enters_reservations)
            except MalformedAnnotationError:
                self.nominations.forget(uid)

    def _remove_pod(self, uid: Uid) -> None:
        self._deleted.add(uid)
        self.unschedulable.forget(uid)
        self.nominations.forget(uid)
        self.nodes_with_reservation.pop(uid, None)
        self._pending_pods.pop(uid, None)
        if (reservation := self._reservation_by_placeholder.pop(uid, None)) is not None:
            known = self._placeholders[reservation]
            known.pop(uid, None)
            if not known:
                del self._placeholders[reservation]
                self.vacating.pop(reservation, None)
        self.accounting.forget_pod(uid)

    # Disruption budgets

    def observe_budget(self, budget: PodDisruptionBudget) -> None:
        """Add or update a PodDisruptionBudget; no annotation of it is read."""
        annotations.trim_annotations(budget.metadata, keep=frozenset())
        self.budgets[budget.metadata.key] = budget

    def forget_budget(self, budget: PodDisruptionBudget) -> None:
        """Remove a deleted PodDisruptionBudget."""
        self.budgets.pop(budget.metadata.key, None)

    def budgets_listed(self) -> None:
        """Note that all PodDisruptionBudgets are known."""
        self.knows_budgets = True

    # Quotas

    def observe_quota(self, quota: ResourceQuota) -> None:
        """Add or update a ResourceQuota; no annotation of it is read."""
        annotations.trim_annotations(quota.metadata, keep=frozenset())
        namespace, name = quota.metadata.key
        self._quotas.setdefault(namespace, {})[name] = quota
        self._retry_placeholders(namespace)

    def forget_quota(self, quota: ResourceQuota) -> None:
        """Remove a deleted ResourceQuota."""
        namespace, name = quota.metadata.key
        known = self._quotas.get(namespace, {})
        known.pop(name, None)
        if not known:
            self._quotas.pop(namespace, None)
        self._retry_placeholders(namespace)

    def _retry_placeholders(self, namespace: str) -> None:
        """Requeue waiting pods if a placeholder of a namespace waits, which its quotas may have refused."""
        pods = (pod for known in self._placeholders.values() for pod in known.values())
        if any(pod.metadata.namespace == namespace and not pod.spec.node_name for pod in pods):
            self.unschedulable.move_all_to_due()

    def quota_refusal(self, known: CachedReservation, *, wanted: Amounts, charge: Charge) -> str:
        """Return which quota has no room for more of a reservation; see `quotas.refusal`."""
        namespace = reservation_info.template_namespace(known.reservation)
        limits = self._quotas.get(namespace)
        if not limits:
            return ""
        scoped = any(map(quota_scopes.has_scopes, limits.values()))  # else the templates need not be read
        held: dict[PodTraits, list[Amounts]] = {}
        for cached in self.available():
            if (
                reservation_info.template_namespace(cached.reservation) == namespace
                and cached.info.uid not in self._placeholders  # a placeholder is charged as long as it is there
            ):
                held.setdefault(_traits(cached, scoped=scoped), []).append(self._unused(cached))
        return quotas.refusal(
            limits.values(),
            held={traits: quantities.total(amounts) for traits, amounts in held.items()},
            wanted=wanted,
            traits=_traits(known, scoped=scoped),
            charge=charge,
        )

    def _unused(self, known: CachedReservation) -> Amounts:
        """Return what a reservation holds and no owner pod uses."""
        node = self.accounting.node(known.info.node)
        usage = node.reservations.get(known.info.uid) if node is not None else None
        return (
            {}
            if usage is None
            else {name: usage.remaining(name) for name in usage.info.allocatable if name != quantities.PODS}
        )

    def count_by_phase(self) -> Mapping[str, int]:
        """Return the number of reservations in each phase."""
        counts = dict.fromkeys((phase.value for phase in ReservationPhase), 0)
        for reservation in self._reservations.values():
            counts[reservation.reservation.status.phase.value] += 1
        return counts


def _traits(known: CachedReservation, *, scoped: bool) -> PodTraits:
    return quota_scopes.from_template(known.reservation.spec.template) if scoped else PodTraits()


def is_unfinished(pod: SchedulerPod) -> bool:
    """Return whether a pod takes capacity, or will."""
    return not pod.terminal


def _frees_capacity(before: ReservationInfo | None, after: ReservationInfo | None) -> bool:
    """Return whether a pod may fit now that did not before.

    A pod that has entered a reservation is no reason to requeue all others.
    """
    if before is None or after is None:
        return before is not after
    if before.current_owners - after.current_owners and after.available:
        return True
    same = {"current_owners": after.current_owners, "pre_allocated_pods": after.pre_allocated_pods}
    return msgspec.structs.replace(before, **same) != after
