"""The binding cycle: writes the claims, then binds the pod, and undoes the reservation if that fails.

The order of writes is upstream's: the finalizer of a claim that is allocated, then its status with allocation and
reservation in one write, then the binding. Every write carries the resourceVersion that the decision was based on, so
that two writers of one claim conflict. After a response that leaves open whether a write has happened (500, a broken
connection), the object is read, never guessed: giving away devices that a late write still takes would be damage.

KEP-5194: with ``spec.reservedFor``, the write of the allocation lists the workload instead of the pod and sets
``reservedForAnyPod``. A pod that is listed already, or that the claim admits because it admits any pod, needs no write.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any, Final, TypeVar

import msgspec

from dra.engine.kube_scheduler.claim_tracker import ClaimTracker
from dra.engine.kube_scheduler.extended_resources import ExtendedResourceClaim
from dra.engine.kube_scheduler.schedule_results import NodeAssignment
from dra.kube.backoff import Backoff
from dra.kube.client import WRITE_TIMEOUT, Client
from dra.kube.clock import Clock, rfc3339
from dra.kube.errors import AlreadyExists, ApiError, Conflict, Forbidden, Invalid, NotFound, Status
from dra.kube.resources import CLAIMS, PODS
from dra.model.claims import DELETE_PROTECTION, AllocationResult, ResourceClaim
from dra.model.meta import Key, Uid
from dra.model.nodes import matches_node_selector
from dra.model.references import ConsumerReference
from dra.model.scheduling import NodeAllocatableClaimStatus, SchedulerPod
from localplane.scheduler.scheduler_extender import Extender, ExtenderRefusedError, ExtenderUnansweredError

POLL_SECONDS: Final = 1.0
"""Seconds between reads of a pod of which it is unknown whether it is bound."""

CONFLICTS_MAX: Final = 5
"""Maximum number of conflicts after which a claim is read again."""

_DEFINITE_ERRORS: Final = (AlreadyExists, Conflict, Forbidden, Invalid, NotFound)
"""Errors that the same request would get again."""

T = TypeVar("T")


class BindingError(Exception):
    """The pod is not bound, and all writes made for it are harmless."""


class BoundElsewhereError(BindingError):
    """The pod is bound to another node, by another client or by an earlier run; its reservations stay."""


class Binder:
    """Carries out node assignments: reserves the claims and binds the pod."""

    def __init__(
        self, client: Client, claims: ClaimTracker, *, clock: Clock, random: Random, extender: Extender | None = None
    ) -> None:
        """Take ``extender``, which binds pods if it is given."""
        self._extender = extender
        self._client = client
        self._claims = claims
        self._clock = clock
        self._random = random
        self._claim_locks: dict[Uid, asyncio.Lock] = {}
        """Locks that allow one writer per claim at a time, so that the scheduler's own writes do not conflict."""

    def forget_claim(self, uid: Uid) -> None:
        """Remove the lock of a deleted claim."""
        self._claim_locks.pop(uid, None)

    async def bind(self, pod: SchedulerPod, assignment: NodeAssignment, *, labels: dict[str, str]) -> None:
        """Reserve the claims and bind the pod; raises BindingError."""
        extended = assignment.extended
        for decided, allocation in assignment.claims:
            claim = decided if decided.metadata.resource_version else await self._create(decided)
            async with self._claim_locks.setdefault(claim.metadata.uid, asyncio.Lock()):
                await self._reserve(claim, pod, allocation, node=(assignment.node, labels))
        if extended is not None:
            await self._patch_extended_resources(pod, extended)
        if assignment.node_allocatable_statuses:
            await self._patch_node_allocatable(pod, assignment.node_allocatable_statuses)
        if self._extender is None:
            await self._post_binding(pod, assignment.node)
        else:
            await self._bind_by_extender(self._extender, pod, assignment.node)

    async def unreserve(self, pod: SchedulerPod, assignment: NodeAssignment) -> None:
        """Remove the pod's entries from its claims; allocations stay without an entry.

        When this method returns, the removal has happened or can no longer happen: a removal that arrived after a new
        reservation of the pod would take away the new entry. Hence the resourceVersion, which upstream omits.
        """
        if assignment.node_allocatable_statuses:
            with suppress(BindingError):  # the pod is gone, or the next attempt writes the field again
                await self._patch_node_allocatable(pod, ())
        entry = {"$patch": "delete", "uid": pod.metadata.uid}
        for decided, _ in assignment.claims:
            claim = self._claims.get(decided.metadata.key)
            if assignment.extended is not None and decided is assignment.extended.claim:
                await self._delete_extended_claim(claim, pod)
                continue
            while claim is not None and claim.metadata.uid == decided.metadata.uid and _is_reserved_for(claim, pod):
                try:
                    await self._patch_until_definite(
                        claim, {"status": {"reservedFor": [entry]}}, "status", strategic=True
                    )
                except Conflict:
                    claim = await self._read_claim(decided.metadata.key)
                except ApiError:  # the claim is gone, or access was denied: the claim controller removes the entry
                    break
                else:
                    break

    async def _create(self, decided: ResourceClaim) -> ResourceClaim:
        """Create the claim for a pod's extended resources; raises BindingError."""
        meta = decided.metadata
        body = {"metadata": msgspec.to_builtins(meta), "spec": msgspec.to_builtins(decided.spec)}
        body["metadata"].pop("uid")
        try:
            made = await self._retry_until_definite(
                lambda: self._client.create(CLAIMS, body, model=ResourceClaim, namespace=meta.namespace)
            )
        except AlreadyExists:
            left = await self._read_claim(meta.key)
            if left is None or left.generated_for != decided.generated_for or left.metadata.deleting:
                raise BindingError(f"claim {'/'.join(meta.key)}: it exists already") from None
            return left
        except ApiError as error:
            raise BindingError(str(error)) from error
        self._claims.observe(made)
        return made

    async def _delete_extended_claim(self, claim: ResourceClaim | None, pod: SchedulerPod) -> None:
        """Delete the claim for a pod's extended resources, so that the next attempt may choose another node."""
        if claim is None or claim.generated_for != pod.metadata.uid:
            return
        key, uid = claim.metadata.key, claim.metadata.uid
        with suppress(ApiError):  # it is gone, or access was denied: the next attempt uses the claim as it is
            await self._retry_until_definite(lambda: self._client.delete(CLAIMS, key, uid=uid))

    async def deallocate(self, claim: ResourceClaim) -> None:
        """Remove an allocation without users; raises ApiError, after which the removal can no longer happen."""
        body = {"status": {"allocation": None, "reservedFor": None, "devices": None}}
        await self._patch_until_definite(claim, body, "status")

    async def fence(self, claim: ResourceClaim) -> None:
        """Block late writes of allocations that an earlier run of this scheduler has sent.

        Such a write carries the resourceVersion that the claim had then, so any other write of the claim blocks it. The
        finalizer of a claim without an allocation is of no use: it is left over from an allocation that was begun, and
        its removal is that other write.
        """
        current: ResourceClaim | None = claim
        while (
            current is not None
            and current.status.allocation is None
            and current.protected
            and not current.metadata.deleting
        ):
            kept = [name for name in current.metadata.finalizers or () if name != DELETE_PROTECTION]
            try:
                await self._patch_until_definite(current, {"metadata": {"finalizers": kept or None}}, None)
            except Conflict:
                current = await self._read_claim(claim.metadata.key)
            except ApiError:
                return
            else:
                return

    async def _reserve(
        self,
        decided: ResourceClaim,
        pod: SchedulerPod,
        allocation: AllocationResult | None,
        *,
        node: tuple[str, dict[str, str]],
    ) -> None:
        """Write what the claim lacks for the pod to use it."""
        key = decided.metadata.key
        claim = self._claims.get(key)
        if allocation is not None:
            stamp = rfc3339(self._clock.wall())
            allocation = msgspec.structs.replace(allocation, allocation_timestamp=stamp)
        attempts = _WriteAttempts(Backoff(random=self._random))
        while True:
            claim = _check_claim(claim, decided, allocation, node)
            if _may_use_claim(claim, pod):
                return
            try:
                await self._write(claim, pod, allocation)
            except ApiError as error:
                delay = attempts.failed(error, claim)
            else:
                return
            await asyncio.sleep(delay)
            claim = await self._read_claim(key)
            attempts.claim_read(claim)

    async def _write(self, claim: ResourceClaim, pod: SchedulerPod, allocation: AllocationResult | None) -> None:
        new = allocation if claim.status.allocation is None else None
        if new is not None and not claim.protected:
            finalizers = [*(claim.metadata.finalizers or ()), DELETE_PROTECTION]
            claim = await self._patch(claim, {"metadata": {"finalizers": finalizers}}, None)
        await self._patch(claim, {"status": _reserved_status(claim, pod, new)}, "status")

    async def _patch(
        self, claim: ResourceClaim, body: dict[str, Any], subresource: str | None, *, strategic: bool = False
    ) -> ResourceClaim:
        meta = claim.metadata
        written = await self._client.merge_patch(
            CLAIMS,
            meta.key,
            body,
            model=ResourceClaim,
            subresource=subresource,
            resource_version=meta.resource_version,
            uid=meta.uid,
            strategic=strategic,
        )
        self._claims.observe(written)
        return written

    async def _patch_until_definite(
        self, claim: ResourceClaim, body: dict[str, Any], subresource: str | None, *, strategic: bool = False
    ) -> None:
        """Patch until the outcome is definite; a `Conflict` may mean that an earlier attempt has succeeded."""
        await self._retry_until_definite(lambda: self._patch(claim, body, subresource, strategic=strategic))

    async def _read_claim(self, key: Key) -> ResourceClaim | None:
        """Read the claim from the API server; return None if it does not exist."""
        try:
            claim = await self._retry_until_definite(lambda: self._client.get(CLAIMS, key, ResourceClaim))
        except NotFound:
            return None
        self._claims.observe(claim)
        return claim

    async def _patch_node_allocatable(self, pod: SchedulerPod, statuses: Sequence[NodeAllocatableClaimStatus]) -> None:
        """Write the node resources that a pod gets through its claims into its status; raises BindingError."""
        await self._patch_status(pod, {"nodeAllocatableResourceClaimStatuses": msgspec.to_builtins(statuses)})

    async def _patch_extended_resources(self, pod: SchedulerPod, extended: ExtendedResourceClaim) -> None:
        """Write which claim serves the extended resources of a pod into its status; raises BindingError."""
        mappings = [
            {
                "containerName": mapping.container_name,
                "resourceName": mapping.resource_name,
                "requestName": mapping.request_name,
            }
            for mapping in extended.mappings
        ]
        claim = {"resourceClaimName": extended.claim.metadata.name, "requestMappings": mappings}
        await self._patch_status(pod, {"extendedResourceClaimStatus": claim})

    async def _patch_status(self, pod: SchedulerPod, status: dict[str, Any]) -> None:
        """Write fields of a pod's status; raises BindingError."""
        body = {"status": status}
        key, uid = pod.metadata.key, pod.metadata.uid
        try:
            await self._retry_until_definite(
                lambda: self._client.merge_patch(PODS, key, body, model=SchedulerPod, subresource="status", uid=uid)
            )
        except ApiError as error:
            raise BindingError(str(error)) from error

    async def _post_binding(self, pod: SchedulerPod, node: str) -> None:
        """Bind the pod; a repeated request is harmless, so it is sent until the outcome is definite."""
        meta = pod.metadata
        body = {
            "kind": "Binding",
            "metadata": {"namespace": meta.namespace, "name": meta.name, "uid": meta.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        try:
            await self._retry_until_definite(
                lambda: self._client.create(
                    PODS, body, model=Status, namespace=meta.namespace, name=meta.name, subresource="binding"
                )
            )
        except Conflict as error:
            try:
                current = await self._retry_until_definite(lambda: self._client.get(PODS, meta.key, SchedulerPod))
            except ApiError:
                raise BindingError(str(error)) from error
            if current.metadata.uid == meta.uid and current.spec.node_name not in {"", node}:
                raise BoundElsewhereError(str(error)) from error
            if current.metadata.uid != meta.uid or current.spec.node_name != node:
                raise BindingError(str(error)) from error
        except ApiError as error:
            raise BindingError(str(error)) from error

    async def _bind_by_extender(self, extender: Extender, pod: SchedulerPod, node: str) -> None:
        """Let the extender bind the pod; after an unknown outcome, poll the pod until no late binding can arrive."""
        try:
            await extender.bind(pod, node)
        except ExtenderRefusedError as error:
            if not await self._is_bound_to(pod, node):
                raise BindingError(str(error)) from error
        except ExtenderUnansweredError as error:
            until = self._clock.now() + WRITE_TIMEOUT
            while not await self._is_bound_to(pod, node):
                if self._clock.now() >= until:
                    raise BindingError(str(error)) from error
                await asyncio.sleep(POLL_SECONDS)

    async def _is_bound_to(self, pod: SchedulerPod, node: str) -> bool:
        """Return whether the pod is bound to the node; raises BindingError if it is gone or on another node."""
        meta = pod.metadata
        try:
            current = await self._retry_until_definite(lambda: self._client.get(PODS, meta.key, SchedulerPod))
        except ApiError as error:
            raise BindingError(str(error)) from error
        if current.metadata.uid != meta.uid:
            raise BindingError(f"pod {'/'.join(meta.key)}: it is gone")
        if current.spec.node_name not in {"", node}:
            raise BoundElsewhereError(f"pod {'/'.join(meta.key)}: is bound to node {current.spec.node_name} already")
        return current.spec.node_name == node

    async def _retry_until_definite(self, send: Callable[[], Awaitable[T]]) -> T:
        """Return the first definite response, or raise the first definite error.

        Once an attempt may still arrive, an error of a busy or unreachable server is not definite.
        """
        backoff = Backoff(random=self._random)
        may_arrive = False
        while True:
            try:
                return await send()
            except _DEFINITE_ERRORS:
                raise
            except ApiError as error:
                may_arrive = may_arrive or error.is_outcome_unknown
                if not may_arrive:
                    raise
            await asyncio.sleep(backoff.next())


@dataclass(slots=True)
class _WriteAttempts:
    """The outcomes of the attempts to write one claim.

    An attempt with an unknown outcome may still arrive until the claim has another resourceVersion than the attempt
    carried.
    """

    backoff: Backoff
    conflicts: int = 0
    outcome_unknown: bool = False
    uncertain_version: str = ""
    """The resourceVersion that an attempt with an unknown outcome may still change."""

    def failed(self, error: ApiError, claim: ResourceClaim) -> float:
        """Return the seconds until the next attempt; raises BindingError if there must be none."""
        if isinstance(error, Conflict):
            self.conflicts += 1
            if self.conflicts > CONFLICTS_MAX:
                raise BindingError(f"claim {'/'.join(claim.metadata.key)}: too many conflicts") from error
            return 0.0
        if error.is_outcome_unknown:
            self.outcome_unknown = True
        elif self.uncertain_version != claim.metadata.resource_version:
            raise BindingError(str(error)) from error
        return self.backoff.next()

    def claim_read(self, claim: ResourceClaim | None) -> None:
        """Record a read of the claim after a failed attempt."""
        if self.outcome_unknown and claim is not None:
            self.outcome_unknown, self.uncertain_version = False, claim.metadata.resource_version


def _check_claim(
    claim: ResourceClaim | None,
    decided: ResourceClaim,
    allocation: AllocationResult | None,
    node: tuple[str, dict[str, str]],
) -> ResourceClaim:
    """Return the claim if the decision can still be carried out; raises BindingError."""
    name = "/".join(decided.metadata.key)
    if claim is None or claim.metadata.uid != decided.metadata.uid:
        raise BindingError(f"claim {name} got deleted in the meantime")
    present = claim.status.allocation
    if claim.metadata.deleting:
        raise BindingError(f"claim {name} is being deleted")
    if present is None:
        if allocation is None:
            raise BindingError(f"claim {name} got deallocated in the meantime")
    elif allocation is not None and _device_ids(present) != _device_ids(allocation):
        raise BindingError(f"claim {name} got allocated elsewhere in the meantime")
    elif not matches_node_selector(present.node_selector, name=node[0], labels=node[1]):
        raise BindingError(f"claim {name} got allocated for other nodes in the meantime")
    return claim


def _device_ids(allocation: AllocationResult) -> list[tuple[str, ...]]:
    return [(r.request, r.driver, r.pool, r.device, r.share_id or "") for r in allocation.devices.results or ()]


def _is_reserved_for(claim: ResourceClaim, pod: SchedulerPod) -> bool:
    return any(entry.uid == pod.metadata.uid for entry in claim.entries)


def _may_use_claim(claim: ResourceClaim, pod: SchedulerPod) -> bool:
    """Report whether the pod may use the claim as it is: the claim is allocated and lists the pod or admits any pod."""
    return claim.status.allocation is not None and (_is_reserved_for(claim, pod) or claim.admits_any_pod)


def _reserved_status(claim: ResourceClaim, pod: SchedulerPod, new: AllocationResult | None) -> dict[str, Any]:
    """Return the status to write: the allocation, if it is new, and the list with the pod or its workload added."""
    reference = claim.spec.reserved_for
    status: dict[str, Any] = {}
    if new is not None and reference is not None and reference.uid:
        new = msgspec.structs.replace(new, reserved_for_any_pod=True)
        entry = reference
    else:
        entry = ConsumerReference(resource="pods", name=pod.metadata.name, uid=pod.metadata.uid)
    if new is not None:
        status["allocation"] = msgspec.to_builtins(new)
    status["reservedFor"] = msgspec.to_builtins([*claim.entries, entry])
    return status
