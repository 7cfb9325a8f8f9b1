"""Safety: what must never be, whoever does what in which order. Looks at each write the moment it is done.

Judged is the server's truth, never anybody's view of it. Where two actors share a step, the one whose write made it
possible answers for it: a scheduler may take back an allocation whose list is empty, and it is the controller's doing
if that emptied it under a running pod. Every other breach is a finding, whoever committed it.
"""

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import msgspec

from dra.engine.claims.view import ENTRY_API_GROUP, GUARD_RESOURCE, LOST_NODE_RESOURCE, TOMBSTONE_RESOURCE
from dra.model import nodes, pods, workload_reservations
from dra.model.claims import AllocationResult, ResourceClaim
from dra.model.meta import Key, Uid
from dra.model.nodes import Node
from dra.model.pods import Pod, claim_names
from dra.model.references import ConsumerReference
from localplane.store import WatchCacheEvent, WatchEventType
from tests.dra.engine.simulation.violation import Violation
from tests.simulation import kueue

if TYPE_CHECKING:
    from controller.application import Application
    from tests.simulation.simulated_cluster import SimulatedSystem

CONTROLLER: Final = "controller"
SCHEDULER: Final = "scheduler"
OWNER: Final = "owner"
FOREIGN: Final = "other.example"
"""The group of entries that are nobody's business here."""

SANDBOX_READY_WITHIN: Final = 60.0
"""Seconds from the look of a kubelet into the list to its word that the sandbox is ready, at most."""

DeviceId: TypeAlias = tuple[str, str, str]

_claim: Final = msgspec.json.Decoder(ResourceClaim)
_pod: Final = msgspec.json.Decoder(Pod)
_node: Final = msgspec.json.Decoder(Node)


@dataclass(eq=False)
class AllocationRecord:
    """One allocation of one claim, from its beginning to its end."""

    claim: str
    allocation: AllocationResult
    unlisted: dict[Uid, str] = field(default_factory=dict)
    """Who removed an entry last."""
    entered_marked: set[Uid] = field(default_factory=set)
    """Entries that were in the list when the controller's mark said so: a missing one was removed by its owner."""
    listed_until: dict[Uid, float] = field(default_factory=dict)
    """Until when each pod was let in, if it is no more."""
    emptied_by: str = ""
    """Who removed the last entry, while the list is empty."""
    ended_by: str = ""
    ended_at: float = 0.0

    def breaks_promise_to(self, uid: Uid) -> bool:
        """Whether it is somebody's fault that the allocation on which this pod relied is gone."""
        if self.ended_by.startswith(SCHEDULER):
            return self.unlisted.get(uid, "").startswith(CONTROLLER)
        return bool(self.ended_by)


class RemovedPod(NamedTuple):
    """A pod that was removed, and who could know."""

    pod: Uid
    listed: bool
    watched_by: "tuple[Application, ...]"

    @property
    def seen(self) -> bool:
        """Whether its entry shows it, or a controller has observed the removal; else nobody knows (guarantees.md)."""
        return self.listed or any(each.cache.consumer(self.pod) is None for each in self.watched_by)


class SafetyState(NamedTuple):
    """The safety checker's state that no object contains."""

    allocations: dict[Uid, AllocationRecord]
    past_allocations: dict[Key, AllocationRecord]


class SystemSafetyChecker:
    """Follows all writes."""

    def __init__(self, system: "SimulatedSystem") -> None:
        self.claims: dict[Key, ResourceClaim] = {}
        self.pods: dict[Key, Pod] = {}
        self.nodes: dict[str, Node] = {}
        self.jobs: dict[Uid, bool] = {}
        """The Jobs that are there, and whether they have finished."""
        self.suspended_once: set[Uid] = set()
        """Jobs that are or were suspended: a controller may release their claims late, if it does so at all."""
        self.allocations: dict[Uid, AllocationRecord] = {}
        """Of the claims that are allocated now."""
        self.past_allocations: dict[Key, AllocationRecord] = {}
        """The last allocation of each name that is over."""
        self.removed_pods: dict[tuple[str, Uid], list[RemovedPod]] = {}
        """Pods that were removed whose containers had not ended, by their nodes and claims."""
        self.declared_over: set[Uid] = set()
        """Pods and Jobs that have ended though objects say otherwise: a person vouched for it, or a backup is old."""
        self.schedulable_since: dict[Uid, float] = {}
        """When each pod was created, or lost its last gate: before that no scheduler looks at it."""
        self._system = system

    def backup_state(self) -> SafetyState:
        """Return what a backup of the API server does not hold."""
        return SafetyState(deepcopy(self.allocations), deepcopy(self.past_allocations))

    def restore_state(self, saved: SafetyState, objects: Iterable[tuple[str, bytes]]) -> None:
        """The API server is what it was: what the time between has ended has ended, though objects say otherwise."""
        ran = {pod.metadata.uid for pod in self.pods.values() if not pod.terminal}
        worked = {uid for uid, finished in self.jobs.items() if not finished}
        for known in (self.claims, self.pods, self.nodes, self.jobs):
            known.clear()
        before = SafetyState(
            deepcopy(saved.allocations), deepcopy(saved.past_allocations)
        )  # it may be restored once more
        self.allocations, self.past_allocations = before.allocations, before.past_allocations
        self.removed_pods.clear()
        for collection, raw in objects:
            self._load(collection, raw)
        bound = (pod.metadata.uid for pod in self.pods.values() if pod.spec.node_name)
        self.declared_over |= {uid for uid in bound if uid not in ran}
        self.declared_over |= {uid for uid, finished in self.jobs.items() if not finished and uid not in worked}

    def _load(self, collection: str, raw: bytes) -> None:
        match collection:
            case "resourceclaims.resource.k8s.io":
                claim = _claim.decode(raw)
                self.claims[claim.metadata.key] = claim
            case "pods":
                pod = _pod.decode(raw)
                self.pods[pod.metadata.key] = pod
            case "nodes":
                node = _node.decode(raw)
                self.nodes[node.metadata.name] = node
            case "jobs.batch":
                self._update_job(msgspec.json.decode(raw), deleted=False)
            case _:
                pass

    def check_write(self, event: WatchCacheEvent, *, actor: str, at: float) -> None:
        """Look at a write; raises Violation."""
        deleted = event.type is WatchEventType.DELETED
        match event.object.key.collection:
            case "resourceclaims.resource.k8s.io":
                claim = _claim.decode(event.object.raw)
                before = self.claims.get(claim.metadata.key)
                self._check_claim(before, None if deleted else claim, actor, at)
                self._store(self.claims, claim, deleted=deleted)
            case "pods":
                pod = _pod.decode(event.object.raw)
                known = self.pods.get(pod.metadata.key)
                self._store(self.pods, pod, deleted=deleted)
                if deleted:
                    self._pod_removed(pod)
                else:
                    self._check_pod(known, pod, at)
                    self._check_gates(known, pod, actor)
            case "nodes":
                node = _node.decode(event.object.raw)
                if deleted:
                    self.nodes.pop(node.metadata.name, None)
                else:
                    self.nodes[node.metadata.name] = node
            case "jobs.batch":
                found = msgspec.json.decode(event.object.raw)
                self._update_job(found, deleted=deleted)
            case _:
                pass

    @staticmethod
    def _store(known, obj, *, deleted: bool) -> None:
        if deleted:
            known.pop(obj.metadata.key, None)
        else:
            known[obj.metadata.key] = obj

    def _update_job(self, job, *, deleted: bool) -> None:
        uid = job["metadata"]["uid"]
        if deleted:
            self.jobs.pop(uid, None)
            return
        conditions = job.get("status", {}).get("conditions", [])
        if job["spec"].get("suspend"):
            self.suspended_once.add(uid)
        self.jobs[uid] = any(c["type"] in {"Complete", "Failed"} and c["status"] == "True" for c in conditions)

    # Claims:

    def _check_claim(self, before: ResourceClaim | None, after: ResourceClaim | None, actor: str, at: float) -> None:
        old = before.status.allocation if before is not None else None
        new = after.status.allocation if after is not None else None
        name = _name((after or before).metadata.key)
        if old is not None and new is not None and old != new:
            raise Violation(f"{actor} changed the allocation of claim {name}")
        if before is not None and old is not None and new is None:
            self._check_deallocation(before, actor, at)
        if after is None or new is None:
            return
        if len(after.entries) > self._system.initial_state.list_size[0] or len({e.uid for e in after.entries}) < len(
            after.entries
        ):
            raise Violation(f"claim {name}: {actor} wrote a list that is too long, or names somebody twice")
        if old is None:
            self.allocations[after.metadata.uid] = AllocationRecord(name, new)
            self._check_devices(after)
        self._check_entries(before if old is not None else None, after, actor, at)

    def _check_deallocation(self, claim: ResourceClaim, actor: str, at: float) -> None:
        """No deallocation under a consuming pod."""
        record = self.allocations.pop(claim.metadata.uid)
        record.ended_by, record.ended_at = actor, at
        self.past_allocations[claim.metadata.key] = record
        for pod in self._users(claim):
            if pod.metadata.uid in self.declared_over or self._declare_over_if_released(claim, pod):
                continue
            if (
                pod.spec.node_name
                and record.breaks_promise_to(pod.metadata.uid)
                and self._admits(record.allocation, pod)
            ):
                raise Violation(
                    f"{actor} deallocated claim {record.claim} under pod {pod.metadata.name}, which is bound to "
                    f"{pod.spec.node_name}"
                )

        for node, uid in tuple(self.removed_pods):
            if uid == claim.metadata.uid and self._is_force_released(claim, node):
                del self.removed_pods[node, uid]

    def _declare_over_if_released(self, claim: ResourceClaim, pod: Pod) -> bool:
        """Whether somebody has vouched that the pod is no more, and its kubelet does not say otherwise."""
        if not self._is_force_released(claim, pod.spec.node_name):
            return False
        self.declared_over.add(pod.metadata.uid)
        return True

    def _is_force_released(self, claim: ResourceClaim, node: str) -> bool:
        """Whether somebody has vouched that nothing uses the claim on a node, which does not report in."""
        found = self.nodes.get(node)
        vouched = claim.metadata.annotation(workload_reservations.FORCE_RELEASE) == claim.metadata.uid
        return vouched and (found is None or not found.ready)

    def _check_devices(self, claim: ResourceClaim) -> None:
        """No device twice."""
        devices = _devices(self.allocations[claim.metadata.uid].allocation)
        for uid, other in self.allocations.items():
            overlap = devices & _devices(other.allocation) if uid != claim.metadata.uid else None
            if overlap:
                raise Violation(f"{sorted(overlap)} allocated to claims {_name(claim.metadata.key)} and {other.claim}")

    def _check_entries(self, before: ResourceClaim | None, after: ResourceClaim, actor: str, at: float) -> None:
        record = self.allocations[after.metadata.uid]
        old = {e.uid: e for e in before.entries} if before is not None else {}
        new = {e.uid: e for e in after.entries}
        for uid, entry in old.items():
            if uid not in new:
                record.unlisted[uid] = actor
                if entry.is_pod:
                    record.listed_until[uid] = at
                if actor.startswith(CONTROLLER):
                    self._check_removed(after, entry)
        for uid in new.keys() - old.keys():
            if actor.startswith(CONTROLLER):
                self._check_added(after, new[uid], record)
            record.unlisted.pop(uid, None)
            record.listed_until.pop(uid, None)
        if old and not new:
            record.emptied_by = actor
        elif new:
            record.emptied_by = ""
        if after.metadata.annotation(
            workload_reservations.ENTERED_ALLOCATION
        ) == workload_reservations.allocation_digest(record.allocation):
            record.entered_marked |= new.keys()

    def _check_added(self, claim: ResourceClaim, entry: ConsumerReference, record: AllocationRecord) -> None:
        if entry.uid in record.entered_marked and record.unlisted.get(entry.uid) == OWNER:
            raise Violation(f"claim {record.claim}: {entry} was released by its owner and is put back")
        if claim.metadata.deleting:
            raise Violation(f"claim {record.claim}: {entry} was added under deletion")

    def _check_removed(self, claim: ResourceClaim, entry: ConsumerReference) -> None:
        """What the controller takes off the list: pods, what is its own, and workloads that are over."""
        name, deleting = _name(claim.metadata.key), claim.metadata.deleting
        ours = entry.api_group == ENTRY_API_GROUP and entry.resource in {
            GUARD_RESOURCE,
            TOMBSTONE_RESOURCE,
            LOST_NODE_RESOURCE,
        }
        workload = (entry.api_group, entry.resource) == ("batch", "jobs")
        if not (entry.is_pod or ours or workload):
            raise Violation(f"claim {name}: the foreign entry {entry} was removed")
        forced = claim.metadata.annotation(workload_reservations.FORCE_RELEASE) == claim.metadata.uid
        ended = entry.uid in self.declared_over
        ended |= self._system.initial_state.release_suspended and entry.uid in self.suspended_once
        if workload and self.jobs.get(entry.uid) is False and not (deleting or forced or ended):
            raise Violation(f"claim {name}: {entry} was removed while its workload is at work")

    # Pods:

    def _check_pod(self, before: Pod | None, pod: Pod, at: float) -> None:
        if before is not None and before.metadata.uid != pod.metadata.uid:
            before = None
        if before is None or (before.gates and not pod.gates):
            self.schedulable_since[pod.metadata.uid] = at
        if pod.spec.node_name and not (before is not None and before.spec.node_name):
            self._check_binding(pod)
        ready = _is_ready_to_start(pod)
        if ready and not (before is not None and _is_ready_to_start(before)):
            self._check_start(pod, at)

    @staticmethod
    def _check_gates(before: Pod | None, pod: Pod, actor: str) -> None:
        """Nobody takes off the gate of somebody else: the pod would run without quota."""
        for gate in before.gates if before is not None and before.metadata.uid == pod.metadata.uid else ():
            if gate not in pod.gates and kueue.OWNERS.get(gate, actor) != actor:
                raise Violation(f"{actor} took the gate {gate} off pod {pod.metadata.name}")

    def _pod_removed(self, pod: Pod) -> None:
        """A pod that was deleted by force runs on for its grace period, longer where its node does not report in."""
        node = self.nodes.get(pod.spec.node_name)
        if node is None or pod.terminal or pod.metadata.uid in self.declared_over:
            return
        for name in claim_names(pod):
            claim = self.claims.get((pod.metadata.namespace, name))
            if claim is not None:
                uid = pod.metadata.uid
                listed = any(entry.uid == uid for entry in claim.entries)
                removed = RemovedPod(uid, listed=listed, watched_by=self._system.watchers())
                self.removed_pods.setdefault((node.metadata.name, claim.metadata.uid), []).append(removed)

    def _check_binding(self, pod: Pod) -> None:
        """Whoever is bound relies on allocations: nobody may have taken them back since the pod came.

        Where all nodes of an allocation were deleted, pods that are still bound to one do not start (giving-back.md).
        """
        for name in claim_names(pod):
            key = (pod.metadata.namespace, name)
            claim, over = self.claims.get(key), self.past_allocations.get(key)
            record = self.allocations.get(claim.metadata.uid) if claim is not None else None
            if record is not None and self._admits(record.allocation, pod):
                continue
            if over is not None and nodes.are_all_deleted(over.allocation.node_selector, existing=self.nodes.keys()):
                continue
            since = self.schedulable_since.get(pod.metadata.uid, 0.0)
            if over is not None and since < over.ended_at and over.breaks_promise_to(pod.metadata.uid):
                raise Violation(
                    f"pod {pod.metadata.name} was bound on an allocation of claim {name} that {over.ended_by} had "
                    f"taken back; until then it could rely on its entry"
                )

    def _check_start(self, pod: Pod, at: float) -> None:
        """No pod runs that the rule would refuse."""
        for name in claim_names(pod) if pod.metadata.uid not in self.declared_over else ():
            key = (pod.metadata.namespace, name)
            claim = self.claims.get(key)
            record = self.allocations.get(claim.metadata.uid) if claim is not None else self.past_allocations.get(key)
            record = record or self.past_allocations.get(key)
            if record is None:
                raise Violation(f"pod {pod.metadata.name} runs with claim {name}, which was never allocated")
            if record.ended_by:
                raise Violation(f"pod {pod.metadata.name} runs with claim {name}, which is not allocated any more")
            assert claim is not None
            any_pod = bool(record.allocation.reserved_for_any_pod) and self._system.kep
            listed = any(entry.uid == pod.metadata.uid for entry in claim.entries)
            if not (any_pod or listed or at - record.listed_until.get(pod.metadata.uid, -1e9) < SANDBOX_READY_WITHIN):
                raise Violation(f"pod {pod.metadata.name} runs and is not in the list of claim {name}")

    def _users(self, claim: ResourceClaim) -> list[Pod]:
        namespace, name = claim.metadata.key
        found = (pod for pod in self.pods.values() if pod.metadata.namespace == namespace and not pod.terminal)
        return [pod for pod in found if name in claim_names(pod)]

    def _admits(self, allocation: AllocationResult, pod: Pod) -> bool:
        """Whether the pod is where the allocation is: elsewhere no kubelet would have let it in (rule 14)."""
        node = self.nodes.get(pod.spec.node_name)
        if node is None:
            return False
        return nodes.matches_node_selector(
            allocation.node_selector, name=node.metadata.name, labels=node.metadata.labels
        )


def _devices(allocation: AllocationResult) -> set[DeviceId]:
    return {(r.driver, r.pool, r.device) for r in allocation.devices.results or ()}


def _is_ready_to_start(pod: Pod) -> bool:
    condition = pod.condition(pods.POD_READY_TO_START_CONTAINERS)
    return condition is not None and condition.status == "True"


def _name(key: Key) -> str:
    return "/".join(key)
