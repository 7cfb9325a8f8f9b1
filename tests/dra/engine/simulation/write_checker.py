"""How we behave: what may not be in any write of ours, however stale the view that it was decided on."""

from collections.abc import Callable

from dra.engine.claims.lost_nodes import ENDED_WITHIN
from dra.engine.claims.policy import REPLACE, Policy
from dra.engine.claims.view import (
    ENTRY_API_GROUP,
    GUARD_RESOURCE,
    LOST_NODE_RESOURCE,
    TOMBSTONE_RESOURCE,
    lost_node_boot_id,
)
from dra.engine.instants import NEVER, WATCH_OUTAGE_UNNOTICED, Instant
from dra.model import nodes, workload_reservations
from dra.model.claims import ResourceClaim
from dra.model.meta import Key, Uid
from dra.model.nodes import Node
from dra.model.pods import Pod
from dra.model.references import ConsumerReference
from dra.model.templates import PodGroup
from dra.model.workload_reservations import RESERVED_FOR
from tests.dra.engine.simulation.allocation_lifetimes import AllocationLifetimes
from tests.dra.engine.simulation.controller import ControllerReplica
from tests.dra.engine.simulation.objects import Job, Reservation
from tests.dra.engine.simulation.reservations import holding_reservations
from tests.dra.engine.simulation.server import Actor, Event, Server
from tests.dra.engine.simulation.violation import Violation


class ControllerWriteChecker:
    """Judges our writes on claims by the truth, and by what the watches of ``replica()`` have shown so far."""

    def __init__(
        self,
        server: Server,
        lifetimes: AllocationLifetimes,
        replica: Callable[[], ControllerReplica],
        *,
        policy: Policy = REPLACE,
    ) -> None:
        self.writes = 0
        self._server = server
        self._lifetimes = lifetimes
        self._replica = replica
        self._policy = policy
        server.listeners.append(self._check_write)

    def _check_write(self, event: Event) -> None:
        before, after = event.before, event.after
        if event.actor is not Actor.US:
            return
        if not isinstance(before, ResourceClaim):
            return
        self.writes += 1
        if not before.metadata.deleting and (not isinstance(after, ResourceClaim) or after.metadata.deleting):
            self._check_deleted(before)
        if isinstance(after, ResourceClaim) and after.status.allocation is not None:
            added = [e for e in after.entries if e not in before.entries]
            kept = {e.uid for e in after.entries}
            self._check_added(after, added)
            self._check_removed(after, [e for e in before.entries if e.uid not in kept])

    def _check_deleted(self, claim: ResourceClaim) -> None:
        """Only claims that were made for pods and Reservations are deleted by us, and only when these have ended."""
        owner, made_for = claim.generated_for, holding_reservations(claim)
        living = {pod.metadata.uid for pod in self._server.list(Pod) if not _is_over(pod)}
        if owner in living or any(map(self._holds, made_for)) or (owner is None and not made_for):
            raise Violation(f"claim {claim.metadata.name} was deleted, and somebody may need it")

    def _check_added(self, claim: ResourceClaim, added: list[ConsumerReference]) -> None:
        name = claim.metadata.name
        lifetime = self._lifetimes.get(claim)
        assert lifetime is not None
        for entry in added:
            if entry.uid in lifetime.entered_marked and lifetime.unlisted.get(entry.uid) is Actor.OWNER:
                raise Violation(f"claim {name}: {entry} was released by its owner and is put back")
            if entry.is_pod:
                self._check_reach(claim, entry)

    def _check_reach(self, claim: ResourceClaim, entry: ConsumerReference) -> None:
        """No bound pod off its allocation's nodes is listed, by what was known when that was decided."""
        nodes_, found = self._server.basis
        pod = next((each for each in found.values() if each.metadata.uid == entry.uid), None)
        node = nodes_.get(("", pod.spec.node_name)) if pod is not None and pod.spec.node_name else None
        allocation = claim.status.allocation
        if node is None or allocation is None:
            return
        if not nodes.matches_node_selector(
            allocation.node_selector, name=node.metadata.name, labels=node.metadata.labels
        ):
            raise Violation(f"claim {claim.metadata.name}: {entry} is listed, off the allocation's nodes")

    def _check_removed(self, claim: ResourceClaim, removed: list[ConsumerReference]) -> None:
        deleting, name = claim.metadata.deleting, claim.metadata.name
        working = {
            job.metadata.uid
            for job in self._server.list(Job)
            if not job.finished and not (job.was_suspended and self._policy.release_suspended)
        }
        for entry in removed:
            ours = entry.api_group == ENTRY_API_GROUP and entry.resource in {
                GUARD_RESOURCE,
                TOMBSTONE_RESOURCE,
                LOST_NODE_RESOURCE,
            }
            workload = entry.api_group == "batch"
            group = entry.is_pod_group and (self._forced(claim) or not self._group_lives(entry))
            held = entry.is_reservation and (self._forced(claim) or deleting or not self._placed(entry.uid))
            if not (entry.is_pod or ours or workload or group or held):
                raise Violation(f"claim {name}: the foreign entry {entry} was removed")
            if workload and entry.uid in working and not deleting and _names_workload(claim, entry):
                raise Violation(f"claim {name}: {entry} was removed while its workload is at work")
            if not any(
                lost_node_boot_id(e) == "" and e.name == entry.name for e in claim.entries
            ):  # for all boots of the node
                self._check_settled(name, entry)
            pod = self._pod(entry.uid) if entry.is_pod and deleting else None  # of one that is gone a live read tells
            if pod is not None and not _is_over(pod) and not self._ended(entry.uid):
                raise Violation(f"claim {name}: it is being deleted, and the entry of {entry} was removed")

    def _forced(self, claim: ResourceClaim) -> bool:
        """Whether a person vouches that nobody uses the claim."""
        return claim.metadata.annotation(workload_reservations.FORCE_RELEASE) == claim.metadata.uid

    def _holds(self, uid: Uid) -> bool:
        """Whether the Reservation of that uid is there and has not ended."""
        return any(r.metadata.uid == uid and r.phase != "Failed" for r in self._server.list(Reservation))

    def _placed(self, uid: Uid) -> bool:
        """Whether the Reservation of that uid has its place: until then its placeholder's entry keeps the claim."""
        return any(r.metadata.uid == uid and r.phase == "Available" for r in self._server.list(Reservation))

    def _group_lives(self, entry: ConsumerReference) -> bool:
        return any(group.metadata.uid == entry.uid for group in self._server.list(PodGroup))

    def _check_settled(self, claim: str, entry: ConsumerReference) -> None:
        """The entry of a lost node stays while its kubelet may have pods that nobody knows any more."""
        key = ("", entry.name)
        node = self._server.find(Node, key) if lost_node_boot_id(entry) is not None else None
        if node is None or node.ready or node.status.node_info.boot_id != lost_node_boot_id(entry):
            return
        since, until = self._last_ready(key)
        seen = self._replica().nodes.seen.get(key)
        unnoticed = seen is not None and seen.ready
        if unnoticed and (until - since >= ENDED_WITHIN or self._server.now - until > WATCH_OUTAGE_UNNOTICED):
            return
        raise Violation(f"claim {claim}: {entry} was removed while the node does not report in")

    def _last_ready(self, key: Key) -> tuple[Instant, Instant]:
        """Return from when to when a silent node has last reported in."""
        since = until = -NEVER
        ready = False
        for event in self._server.log[Node]:
            if event.key == key and isinstance(event.after, Node) and event.after.ready is not ready:
                ready = event.after.ready
                since, until = (event.at, until) if ready else (since, event.at)
        return since, until

    def _pod(self, uid: Uid) -> Pod | None:
        """Return a pod that is there and that our process has been shown."""
        if all(pod.metadata.uid != uid for pod in self._server.list(Pod)):
            return None
        return next((pod for pod in self._replica().pods.seen.values() if pod.metadata.uid == uid), None)

    def _ended(self, uid: Uid) -> bool:
        """Whether a pod that is there has ended for good: a response may have shown this to our process."""
        return any(pod.metadata.uid == uid and _is_over(pod) for pod in self._server.list(Pod))


def _is_over(pod: Pod) -> bool:
    """Whether a pod has ended, or was deleted before it was bound: nobody can bind it any more."""
    return pod.terminal or (pod.metadata.deleting and not pod.spec.node_name)


def _names_workload(claim: ResourceClaim, entry: ConsumerReference) -> bool:
    """Whether the claim still names that workload; somebody may have edited it."""
    return (claim.metadata.annotation(RESERVED_FOR) or "").endswith(f"/{entry.name}")
