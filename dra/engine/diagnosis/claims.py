"""The diagnosis of one claim: its consumers, what keeps its allocation, and its problems."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from functools import partial
from typing import Final

import msgspec

from dra.engine.allocator.claims_to_allocate import UnsatisfiableError, claim_to_allocate
from dra.engine.claims.annotation_keys import unknown_annotations
from dra.engine.claims.consumers import Consumer, Stage
from dra.engine.claims.deallocation import has_lost_allocation
from dra.engine.claims.node_deletion import deletion_warning
from dra.engine.claims.reasons import list_names
from dra.engine.claims.rules import apply_rules
from dra.engine.claims.stuck_allocations import StuckCause, find_stuck_cause, waiting_since
from dra.engine.claims.suspension import suspension_advice
from dra.engine.claims.view import ClaimView, EntryKind, OwningPodPhase, WorkloadPhase
from dra.engine.claims.workload_entry import WorkloadFate, resolve_reference, workload_fate
from dra.engine.devices.ledger import DeviceID
from dra.engine.diagnosis import device_faults, upgrade_obstacles
from dra.engine.diagnosis.allocation_holds import find_holds, is_held
from dra.engine.diagnosis.cluster_state import SETTLED_INSTANT, SNAPSHOT_INSTANT, YOUNG, AllocationHold, ClusterState
from dra.engine.diagnosis.exclusions import impossible_request
from dra.engine.diagnosis.problem_codes import ProblemCode
from dra.engine.diagnosis.problems import Problem, claim_problem, pod_problem
from dra.engine.diagnosis.snapshot import ControllerPresence
from dra.model import workload_reservations
from dra.model.claims import (
    DELETE_PROTECTION,
    POD_CLAIM_NAME,
    RESERVED_FOR_MAX_SIZE,
    DeviceRequestAllocationResult,
)
from dra.model.meta import Key, Struct, Uid
from dra.model.pods import POD_SCHEDULED
from dra.model.references import ConsumerReference
from dra.model.workload_reservations import FORCE_RELEASE

NAMED_PODS_MAX: Final = 20
"""Maximum number of pods that one command names; the command can be run again."""

LISTED_WITHIN: Final = timedelta(seconds=60)
"""Time within which a running controller lists a pod that was bound, also one of a thousand."""

_UNCERTAIN_HOLDS: Final = {AllocationHold.DOUBT, AllocationHold.FORMER, AllocationHold.UNKNOWN}
_PASSING_HOLDS: Final = {AllocationHold.VANISHED, AllocationHold.TIME}
"""Holds that end with time alone: a claim with no other hold can be released."""


class ReservedForSummary(Struct, frozen=True):
    """One entry of ``status.reservedFor``, or all entries of one kind."""

    kind: EntryKind
    reference: str
    """The entry; the first of several entries."""

    count: int = 1
    names: tuple[str, ...] = ()
    """Names of some pods, for entries of pods."""


class ConsumerCounts(Struct, frozen=True):
    """The numbers of pods that reference a claim, by the stage that the pods have reached."""

    gated: int
    waiting: int
    starting: int
    started: int
    finished: int
    node_not_ready: int = 0
    """The number of starting and started pods whose node is not Ready: what they do now is not known."""

    @property
    def consuming(self) -> int:
        """The number of pods that use the claim."""
        return self.starting + self.started


class ClaimDiagnosis(Struct, frozen=True):
    """The diagnosis of a claim, for the command line."""

    key: Key
    uid: Uid
    devices: tuple[DeviceID, ...]
    nodes: tuple[str, ...]
    """Names of nodes where the allocation can be used; empty: on any node, or there is no allocation."""

    allocated: bool
    since: str
    deleting: bool
    workload: str
    """``jobs.batch/train``; empty if the claim names no workload."""

    fate: str
    """The fate of the workload: the name of a `WorkloadFate`, in lower case."""

    phase: str
    entered: bool
    released: bool
    held: tuple[ReservedForSummary, ...]
    users: ConsumerCounts
    holds: tuple[AllocationHold, ...]
    consumers: tuple[str, ...]
    """Names of some pods that use the claim."""

    waiters: tuple[str, ...]
    """Names of some pods that wait for the claim."""

    problems: tuple[Problem, ...]
    admin_access: tuple[DeviceID, ...] = ()
    """Those of the devices that the claim has for administrators: it observes these, and other claims hold them."""

    kept_for: str = ""
    """The Reservation that keeps the claim for its owners, such as ``reservation/night``; empty if there is none."""

    @property
    def holder(self) -> str:
        """The workload of the claim, or else its Reservation; empty if there is neither."""
        return self.workload or self.kept_for

    @property
    def held_devices(self) -> frozenset[DeviceID]:
        """The devices that no further claim gets because of this one, each once however many shares the claim has."""
        return frozenset(device.whole for device in self.devices).difference(
            device.whole for device in self.admin_access
        )


def explain(cluster: ClusterState, key: Key) -> ClaimDiagnosis | None:
    """Return the diagnosis of a claim; None if the claim does not exist."""
    view = cluster.view(key)
    if view is None:
        return None
    claim, allocation = view.claim, view.allocation
    results = (allocation.devices.results or ()) if allocation is not None else ()
    reservation = view.reservation
    reference = resolve_reference(view, reservation) if reservation is not None and view.is_reserved else None
    return ClaimDiagnosis(
        key=key,
        uid=claim.metadata.uid,
        devices=tuple(map(_device_of, results)),
        admin_access=tuple(_device_of(result) for result in results if result.admin_access),
        nodes=_node_names(cluster, view),
        allocated=allocation is not None,
        since=(allocation.allocation_timestamp or "") if allocation is not None else "",
        deleting=claim.metadata.deleting,
        workload=str(reference) if reference is not None else "",
        fate=workload_fate(view, reference).name.lower() if reference is not None else "",
        phase=view.workload.phase.value if reference is not None else "",
        entered=EntryKind.WORKLOAD in view.kinds,
        released=view.entered_before and EntryKind.WORKLOAD not in view.kinds,
        held=tuple(_reserved_for_summaries(view)),
        users=ConsumerCounts(
            gated=len(view.gated),
            waiting=len(view.waiting),
            starting=len(view.starting),
            started=len(view.started),
            finished=len(view.finished),
            node_not_ready=sum(cluster.is_node_lost(pod.node) for pod in (*view.starting, *view.started)),
        ),
        holds=holds_of(cluster, view),
        consumers=_pod_names((*view.starting, *view.started)),
        waiters=(*_pod_names(view.waiting), *_pod_names(view.gated))[:NAMED_PODS_MAX],
        problems=tuple(problems(cluster, view)),
        kept_for=claim.kept_for,
    )


def holds_of(cluster: ClusterState, view: ClaimView) -> tuple[AllocationHold, ...]:
    """Return the holds that keep the allocation of a view of this cluster state."""
    holds = cluster.holds.get(view.key)
    if holds is None:
        holds = cluster.holds[view.key] = find_holds(view, policy=cluster.policy, soon=SNAPSHOT_INSTANT)
    return holds


def is_kept(cluster: ClusterState, view: ClaimView) -> bool:
    """Report whether anything keeps the allocation of a view of this cluster state."""
    holds = cluster.holds.get(view.key)
    return is_held(view, policy=cluster.policy, soon=SNAPSHOT_INSTANT) if holds is None else bool(holds)


def problems(cluster: ClusterState, view: ClaimView) -> Iterator[Problem]:
    """Yield all problems of a claim and of the pods that use the claim."""
    checks = _ClaimProblems(cluster, view)
    if view.allocation is None:
        yield from checks.unallocated()
    else:
        yield from checks.allocated()
    yield from checks.annotation_problems()
    yield from upgrade_obstacles.claim_problems(view.claim, server=cluster.snapshot.server)


class _ClaimProblems:
    """The search for the problems of one claim."""

    def __init__(self, cluster: ClusterState, view: ClaimView) -> None:
        self.cluster = cluster
        self.view = view
        self.claim = view.claim

    def claim_problem(self, code: ProblemCode, **facts: str | int) -> Problem:
        return claim_problem(code, key=self.view.key, uid=self.claim.metadata.uid, **facts)

    def pod_problem(self, code: ProblemCode, pod: Consumer, **facts: str | int) -> Problem:
        alone = has_no_controller(self.cluster.snapshot.leader.presence)
        named_too: dict[str, str | int] = {
            "claim": self.claim.metadata.name,
            "node": pod.node,
            "owner": controller_name(self.cluster, pod),
            "alone": int(alone),
        }
        return pod_problem(code, key=pod.key, uid=pod.uid, **(named_too | facts))

    def unallocated(self) -> Iterator[Problem]:
        view, meta = self.view, self.claim.metadata
        for pod in (*view.starting, *view.started):
            lost = has_lost_allocation(view, pod)
            yield self.pod_problem(ProblemCode.ALLOCATION_LOST if lost else ProblemCode.BOUND_WITHOUT_ALLOCATION, pod)
        if meta.deleting and meta.finalizers == [DELETE_PROTECTION] and not view.consuming:
            yield self.claim_problem(ProblemCode.FINALIZER_LEFT)
        if meta.annotation(workload_reservations.ENTERED_ALLOCATION) is not None and not meta.deleting:
            yield self.claim_problem(ProblemCode.MARKS_LEFT, revision=meta.resource_version)
        if not view.unfinished and not meta.deleting and self._is_orphan():
            yield self.claim_problem(ProblemCode.ZOMBIE_CLAIM, owner=self._owner(), revision=meta.resource_version)
        entry = meta.annotation(POD_CLAIM_NAME)
        if entry is not None and not meta.owner_references and not view.unfinished and not meta.deleting:
            yield self.claim_problem(ProblemCode.OWNERLESS, entry=entry)
        yield from self._unsatisfiable()

    def _unsatisfiable(self) -> Iterator[Problem]:
        """Report a claim that cannot be satisfied, by one waiting pod: a class is missing, or a selector is wrong."""
        waiter = next(iter((*self.view.waiting, *self.view.gated)), None)
        if waiter is None or self.claim.metadata.deleting:
            return
        try:
            why = impossible_request(self.cluster, claim_to_allocate(self.claim, self.cluster.classes))
        except UnsatisfiableError as error:
            why = unsatisfiable_message(self.cluster, error)
        if why:
            facts = {"claim": self.claim.metadata.name, "error": why}
            yield pod_problem(ProblemCode.UNSATISFIABLE, key=waiter.key, uid=waiter.uid, **facts)

    def allocated(self) -> Iterator[Problem]:
        view = self.view
        for conflict in view.conflicts:
            other = "/".join(conflict.holder.key)
            pods = (*view.starting, *view.started)
            yield self.claim_problem(
                ProblemCode.HELD_TWICE,
                device=str(conflict.item),
                other=other,
                count=len(pods),
                whose=self._pods_by_controller(pods),
            )
        off = (c for c in view.starting if c.uid in view.excluded and not c.deleting)
        yield from (self.pod_problem(ProblemCode.OFF_ALLOCATION, c) for c in off)
        yield from self._retention_problems()
        yield from self._node_deletions()
        yield from self._unusable_allocations()
        yield from self._reserved_for_problems()
        for consumer in (*view.starting, *view.started):
            yield from self._pod_faults(consumer)

    def _was_bound_just_now(self, consumer: Consumer) -> bool:
        """Report whether a pod was bound so short a time before the snapshot that a controller may be listing it."""
        pod = self.cluster.pod(consumer.uid)
        condition = pod.condition(POD_SCHEDULED) if pod is not None else None
        running = self.cluster.snapshot.leader.presence is ControllerPresence.RUNNING
        bound = condition.last_transition_time if condition is not None else None
        return self.cluster.is_younger(bound or "", than=LISTED_WITHIN if running else YOUNG)

    def _pod_faults(self, consumer: Consumer) -> Iterator[Problem]:
        """Report what the kubelet says about the devices of a pod that uses the claim."""
        pod = self.cluster.pod(consumer.uid)
        if pod is not None:
            owner, is_starting = partial(controller_name, self.cluster, consumer), consumer.stage is Stage.STARTING
            yield from device_faults.pod_faults(self.cluster, pod, owner=owner, is_starting=is_starting)

    def _retention_problems(self) -> Iterator[Problem]:
        """Report an allocation that should be freed: no pod uses the claim, or pods that should not be there do."""
        view = self.view
        if view.conflicts:
            return
        if not is_kept(self.cluster, view):
            running = self.cluster.snapshot.leader.presence is ControllerPresence.RUNNING
            yield self.claim_problem(ProblemCode.FREED_SOON if running else ProblemCode.NOT_FREED, **self._leader())
        elif view.unfinished:
            yield from self._retained_by_pods()
        else:
            yield from self._retained_without_pods(holds_of(self.cluster, view))

    def _retained_by_pods(self) -> Iterator[Problem]:
        view = self.view
        over = self._fate() in {WorkloadFate.FINISHED, WorkloadFate.GONE}
        if not (self.claim.metadata.deleting or (over and EntryKind.WORKLOAD in view.kinds)):
            return
        pods = (*view.starting, *view.started, *view.waiting, *view.gated)
        waits: dict[str, str | int] = {
            "pods": " ".join(_pod_names(pods)),
            "count": len(pods),
            "whose": self._pods_by_controller(pods),
        }
        if self.claim.metadata.deleting:
            yield self.claim_problem(ProblemCode.DELETION_WAITS, **waits)
        else:
            yield self.claim_problem(ProblemCode.RELEASE_WAITS, workload=self._reference(), **waits)

    def _retained_without_pods(self, holds: tuple[AllocationHold, ...]) -> Iterator[Problem]:
        view = self.view
        if self.claim.metadata.annotation(FORCE_RELEASE) not in {None, view.claim.metadata.uid}:
            return  # a user meant to force the release and wrote a wrong uid: that is the cause
        if AllocationHold.NOTHING in holds:
            yield self.claim_problem(ProblemCode.LEFT_OVER)
        alone = has_no_controller(self.cluster.snapshot.leader.presence)
        if alone and AllocationHold.VANISHED in holds and _PASSING_HOLDS.issuperset(holds):
            yield self.claim_problem(ProblemCode.NOT_FREED, **self._leader())
        elif AllocationHold.VANISHED in holds:
            yield self.claim_problem(ProblemCode.VANISHED, count=len(view.vanished))
        if AllocationHold.FOREIGN in holds:
            yield self.claim_problem(ProblemCode.KEPT_BY_OTHERS, entries=_entry_names(view, EntryKind.FOREIGN))
        if AllocationHold.LOST_NODE in holds:
            for node in view.lost_nodes:
                yield self.claim_problem(ProblemCode.NODE_LOST, node=node.name)
        if _UNCERTAIN_HOLDS & set(holds):
            yield self.claim_problem(ProblemCode.IN_DOUBT, workload=self._reference())
        if holds == (AllocationHold.WORKLOAD,):
            yield self._kept_for_workload()

    def _kept_for_workload(self) -> Problem:
        """Report a claim that no pod uses, and that stays allocated for its workload alone."""
        workload = self._reference()
        if self._fate() is not WorkloadFate.ALIVE:
            return self.claim_problem(ProblemCode.IN_DOUBT, workload=workload)
        if self.view.workload.suspended and (advice := suspension_advice(self.view)):
            return self.claim_problem(ProblemCode.KEPT_WHILE_SUSPENDED, workload=workload, advice=advice)
        return self.claim_problem(ProblemCode.IDLE, workload=workload)

    def _node_deletions(self) -> Iterator[Problem]:
        """Report that an autoscaler may delete the nodes of a claim that is kept without a pod."""
        if not self.view.deletion_signs:
            return
        desired = apply_rules(self.view, policy=self.cluster.policy, now=SNAPSHOT_INSTANT)
        warning = deletion_warning(self.view, desired)
        if warning is not None:
            facts = {name: fact for name, fact in warning.arguments if name not in {"namespace", "claim", "uid"}}
            yield self.claim_problem(ProblemCode.NODE_MAY_BE_DELETED, **facts)

    def _unusable_allocations(self) -> Iterator[Problem]:
        """Report allocations that pods cannot use."""
        view = self.view
        if waiting_since(view, now=SETTLED_INSTANT) is not None:
            view = msgspec.structs.replace(view, placements=self.cluster.placements(view))
        cause = find_stuck_cause(view, now=SETTLED_INSTANT)
        cordoned = [n for n in _node_names(self.cluster, view) if self.cluster.nodes[n].spec.unschedulable]
        if view.waiting and not view.consuming and cordoned and not view.usable_nodes.inside:
            yield self.claim_problem(
                ProblemCode.NODE_CORDONED, nodes=" ".join(cordoned[:NAMED_PODS_MAX]), pods=len(view.waiting)
            )
        elif cause is not None:
            yield self.claim_problem(ProblemCode.STUCK, cause=StuckCause(cause[0]).value, pods=len(view.waiting))
        if not any(gap.resource.startswith("resourceslices") for gap in self.cluster.snapshot.gaps):
            allocation = view.allocation
            for result in (allocation.devices.results or ()) if allocation is not None else ():
                item = DeviceID(driver=result.driver, pool=result.pool, device=result.device)
                inventory = self.cluster.inventory
                if inventory.candidate(item) is None and inventory.confirms_absence(item):
                    yield self.claim_problem(ProblemCode.DEVICE_GONE, device=str(item))
        yield from device_faults.claim_faults(self.cluster, self.claim)

    def _reserved_for_problems(self) -> Iterator[Problem]:
        """Report problems of the entries in ``status.reservedFor``."""
        view = self.view
        finished = [e for e in view.entries if e.kind in {EntryKind.FINISHED, EntryKind.TOMBSTONE}]
        gone = [e for e in view.entries_of(EntryKind.TOMBSTONE) if self._is_gone(e.reference)]
        # A full list is normal for a large workload; it is a problem only for pods that still have to be listed.
        if len(view.entries) >= RESERVED_FOR_MAX_SIZE - 1 and (view.waiting or view.gated):
            waiting = len(view.waiting) + len(view.gated)
            yield self.claim_problem(
                ProblemCode.LIST_FULL, listed=len(view.entries), finished=len(finished), pods=waiting
            )
        stale = view.entries_of(EntryKind.FINISHED)
        # Without a hold the entries go in the write that deallocates the claim.
        if stale and is_kept(self.cluster, view):
            yield self.claim_problem(
                ProblemCode.STALE_ENTRIES, count=len(stale), entries=list_names(e.reference.name for e in stale)
            )
        if gone:
            yield self.claim_problem(ProblemCode.TOMBSTONES, count=len(gone))
        unlisted = [c for c in view.starting if c.uid not in view.listed and c.uid not in view.excluded]
        for pod in unlisted:
            if not view.is_admitted(pod) and not pod.deleting and not self._was_bound_just_now(pod):
                yield self.pod_problem(ProblemCode.UNLISTED, pod)
        many = {EntryKind.WORKLOAD, EntryKind.GUARD, EntryKind.FOREIGN, EntryKind.GROUP, EntryKind.FORMER}
        many.add(EntryKind.RESERVATION)
        bare = [c for c in view.started if c.uid not in view.listed and not view.is_admitted(c)]
        if bare and view.kinds.isdisjoint(many):
            yield self.claim_problem(ProblemCode.UNGUARDED, count=len(bare), pods=" ".join(_pod_names(bare)))
        allocation = view.allocation
        if allocation is not None and allocation.allocation_timestamp is None and view.is_reserved:
            yield self.claim_problem(ProblemCode.TIMELESS)

    def annotation_problems(self) -> Iterator[Problem]:
        """Report annotations without the intended effect, and finalizers that keep a deleted claim."""
        view, meta = self.view, self.claim.metadata
        yield from self._metadata_problems()
        yield from self._not_entered()
        if view.reservation is not None and view.reservation.single_user and view.unfinished:
            user = view.reservation.single_user
            yield self.claim_problem(
                ProblemCode.RESERVATION_IGNORED,
                workload=str(view.reservation.reference),
                cause=f"the claim was generated for {user} alone, and is released with its pod",
                pod=user,
            )
        guess = self._likely_workload()
        if view.malformed:
            yield self.claim_problem(ProblemCode.MALFORMED, error=view.malformed, guess=guess)
        reference, outcome = self._resolved(), self._fate()
        if reference is not None and view.unfinished:
            there = view.workload
            if view.workload.phase is WorkloadPhase.NO_KIND:
                yield self.claim_problem(
                    ProblemCode.KIND_UNKNOWN,
                    workload=str(reference),
                    meant=self._likely_reference(reference),
                    guess=guess,
                    kind=str(reference.group_resource),
                    revision=meta.resource_version,
                )
            elif outcome is WorkloadFate.PENDING and view.workload.phase is WorkloadPhase.ABSENT:
                yield self.claim_problem(ProblemCode.WORKLOAD_NOT_FOUND, workload=str(reference), guess=guess)
            elif outcome is WorkloadFate.GONE and there.phase is WorkloadPhase.PRESENT and there.uid != reference.uid:
                yield self.claim_problem(
                    ProblemCode.WRONG_UID, workload=str(reference), expected=reference.uid, actual=there.uid
                )
        value = meta.annotation(FORCE_RELEASE)
        if value is not None and value != meta.uid:
            yield self.claim_problem(ProblemCode.FORCE_IGNORED, value=value)
        elif value is not None and view.allocation is not None:
            # Pods on nodes that do not report in are what the annotation is for; known users are not overridden.
            users = [c for c in view.users if c.uid not in view.pods_on_silent_nodes]
            if users:
                names = " ".join(_pod_names(users))
                yield self.claim_problem(
                    ProblemCode.FORCE_BLOCKED, pods=names, count=len(users), whose=self._pods_by_controller(users)
                )

    def _metadata_problems(self) -> Iterator[Problem]:
        """Report finalizers and annotation keys that no process of dra-reserve knows."""
        meta = self.claim.metadata
        others = [finalizer for finalizer in meta.finalizers or () if finalizer != DELETE_PROTECTION]
        if meta.deleting and others and not self.view.consuming:
            yield self.claim_problem(ProblemCode.FINALIZER_FOREIGN, finalizers=", ".join(others))
        for key, meant in unknown_annotations(meta.annotations):
            yield self.claim_problem(ProblemCode.UNKNOWN_ANNOTATION, annotation=key, meant=meant)

    def _not_entered(self) -> Iterator[Problem]:
        """Report a workload without an entry that a running controller would have added."""
        view = self.view
        working = not has_no_controller(self.cluster.snapshot.leader.presence)
        if working or view.allocation is None or view.conflicts or not view.unfinished or self.claim.metadata.deleting:
            return
        if self._fate() is WorkloadFate.ALIVE and EntryKind.WORKLOAD not in view.kinds and not view.entered_before:
            yield self.claim_problem(
                ProblemCode.NOT_ENTERED, workload=self._reference(), lease=self.cluster.snapshot.leader.name
            )

    def _leader(self) -> dict[str, str | int]:
        leader = self.cluster.snapshot.leader
        return {"presence": leader.presence.value, "lease": leader.name, "seconds": leader.seconds}

    def _resolved(self) -> ConsumerReference | None:
        reservation = self.view.reservation
        return resolve_reference(self.view, reservation) if reservation is not None and self.view.is_reserved else None

    def _reference(self) -> str:
        return str(self._resolved() or "")

    def _fate(self) -> WorkloadFate | None:
        reference = self._resolved()
        return workload_fate(self.view, reference) if reference is not None else None

    def _owner(self) -> str:
        owner = self.claim.controller
        return f"{owner.kind.lower()} {owner.name}" if owner is not None else ""

    def _is_orphan(self) -> bool:
        """Report whether the claim was generated for a pod that no longer needs the claim."""
        if self.view.owning_pod in {OwningPodPhase.DONE, OwningPodPhase.REPLACED, OwningPodPhase.GONE}:
            return True
        return self.view.owning_pod is OwningPodPhase.UNKNOWN and self.cluster.has_all_pods(self.view.key[0])

    def _is_gone(self, entry: ConsumerReference) -> bool:
        return self.cluster.has_all_pods(self.view.key[0]) and self.cluster.claim_cache.consumer(entry.uid) is None

    def _likely_reference(self, reference: ConsumerReference) -> str:
        """Return the correct form of a reference such as ``job/train`` or ``deploy/web``; empty if none is known.

        A group that the user wrote is kept, even where its CRD is not installed yet.
        """
        kind = (reference.resource, reference.api_group)
        seen = self.cluster.snapshot.workloads
        meant = next((workload.meant for workload in seen if (workload.resource, workload.group) == kind), "")
        group = reference.group_resource.unversioned.group
        another = group and meant.partition(".")[2] != group
        return f"{meant}/{reference.name}" if meant and not another else ""

    def _pods_by_controller(self, pods: Sequence[Consumer]) -> str:
        """Return pods by controller: the controller decides whether a deleted pod is replaced."""
        groups: dict[str, list[str]] = {}
        besides = self._resolved()
        for pod in sorted(pods, key=_by_stage):
            groups.setdefault(controller_name(self.cluster, pod, besides=besides), []).append(pod.name)
        return "; ".join(f"{list_names(names)} of {owner or 'no controller'}" for owner, names in groups.items())

    def _likely_workload(self) -> str:
        """Return the workload that all pods of the claim belong to, if there is exactly one."""
        owners = {
            (owner.api_version, owner.kind, owner.name)
            for pod in self.cluster.pods_of(self.view.key)
            for owner in pod.metadata.owner_references or ()
            if owner.controller
        }
        if len(owners) != 1:
            return ""
        version, kind, name = owners.pop()
        group = version.partition("/")[0] if "/" in version else ""
        plural = f"{kind.lower()}s"
        return f"{plural}.{group}/{name}" if group else f"{plural}/{name}"


def _device_of(result: DeviceRequestAllocationResult) -> DeviceID:
    return DeviceID(driver=result.driver, pool=result.pool, device=result.device, share=result.share_id or "")


def _reserved_for_summaries(view: ClaimView) -> Iterator[ReservedForSummary]:
    singles = {EntryKind.WORKLOAD, EntryKind.FORMER, EntryKind.GUARD, EntryKind.GROUP, EntryKind.LOST_NODE}
    for kind in EntryKind:
        entries = view.entries_of(kind)
        if not entries:
            continue
        if kind in singles or kind in {EntryKind.FOREIGN, EntryKind.RESERVATION}:
            yield from (ReservedForSummary(kind=kind, reference=str(e.reference)) for e in entries)
        else:
            names = tuple(e.reference.name for e in entries[:NAMED_PODS_MAX])
            yield ReservedForSummary(kind=kind, reference=str(entries[0].reference), count=len(entries), names=names)


def _node_names(cluster: ClusterState, view: ClaimView) -> tuple[str, ...]:
    allocation = view.allocation
    if allocation is None or allocation.node_selector is None:
        return ()
    inside, _ = cluster.claim_cache.reach(allocation.node_selector)
    return tuple(sorted(inside))


def _pod_names(pods: Iterable[Consumer]) -> tuple[str, ...]:
    return tuple(c.name for c in sorted(pods, key=_by_stage)[:NAMED_PODS_MAX])


def _by_stage(consumer: Consumer) -> tuple[Stage, str]:
    return (consumer.stage, consumer.name)


def _entry_names(view: ClaimView, kind: EntryKind) -> str:
    return list_names(str(e.reference) for e in view.entries_of(kind))


def unsatisfiable_message(cluster: ClusterState, error: UnsatisfiableError) -> str:
    """Return why a claim cannot be satisfied, with the existing classes; empty if the classes could not be read."""
    if not error.missing_class:
        return str(error)
    if any(gap.resource.startswith("deviceclasses") for gap in cluster.snapshot.gaps):
        return ""
    known = list_names(sorted(cluster.classes))
    return f"{error}; there are {known}" if known else f"{error}, nor does any other"


def controller_name(cluster: ClusterState, consumer: Consumer, *, besides: ConsumerReference | None = None) -> str:
    """Return the controller of a pod, such as ``job train``; empty if no controller replaces the pod.

    `besides` is a workload that the text names already: another object with its name is called "another".
    """
    pod = cluster.pods.get(consumer.key)
    owner = pod.metadata.controller if pod is not None else None
    if owner is None:
        return ""
    another = besides is not None and besides.uid and owner.name == besides.name and owner.uid != besides.uid
    return f"{'another ' if another else ''}{owner.kind.lower()} {owner.name}"


def has_no_controller(presence: ControllerPresence) -> bool:
    """Report whether no running controller of dra-reserve is known."""
    return presence in {ControllerPresence.ABSENT, ControllerPresence.STALE}
