"""What follows a decision: claims are written, then the pod is bound; and what is to be undone if that fails.

The order of upstream: the finalizer of a claim that is allocated, its status with the allocation and the reservation in
one write, the binding. Every write carries the resourceVersion it was decided on, so that two who write one claim
notice each other. An answer that leaves open whether a write has happened (500, a broken connection) is followed by a
look, never by a guess: giving devices away that a late write still takes would be damage.

KEP rules 1 and 2: with ``spec.reservedFor`` the workload is listed instead of the pod and ``reservedForAnyPod`` set, in
the write of the allocation; a pod that is listed, or admitted because any is, costs no write.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any, Final, TypeVar

import msgspec

from dra.kube.backoff import Backoff
from dra.kube.client import WRITE_TIMEOUT, Client
from dra.kube.clock import Clock, rfc3339
from dra.kube.errors import ApiError, Conflict, Forbidden, Invalid, NotFound, Status
from dra.kube.resources import CLAIMS, PODS
from dra.model.claims import DELETE_PROTECTION, AllocationResult, ResourceClaim
from dra.model.meta import Key, Uid
from dra.model.nodes import matches_node_selector
from dra.model.references import ConsumerReference
from dra.model.scheduling import NodeAllocatableClaimStatus, SchedulerPod
from localplane.scheduler.claim_tracker import ClaimTracker
from localplane.scheduler.scheduler_extender import Extender, ExtenderRefusedError, ExtenderUnansweredError
from localplane.scheduler.scheduling_cycle import NodeAssignment

POLL_SECONDS: Final = 1.0
"""Seconds between looks at a pod of which nobody knows whether it is bound."""

CONFLICTS_MAX: Final = 5
"""Times that a claim is read again because somebody else has written it."""

_DEFINITE_ERRORS: Final = (Conflict, Forbidden, Invalid, NotFound)
"""What the same request would be told again."""

T = TypeVar("T")


class BindingError(Exception):
    """The pod is not bound, and everything that was written for it is harmless."""


class BoundElsewhereError(BindingError):
    """The pod is bound to another node, by somebody else or by an earlier life: what is reserved for it stays."""


class Binder:
    """Carries placements out."""

    def __init__(
        self, client: Client, holdings: ClaimTracker, *, clock: Clock, chance: Random, extender: Extender | None = None
    ) -> None:
        """``extender``, if there is one, binds pods."""
        self._extender = extender
        self._client = client
        self._holdings = holdings
        self._clock = clock
        self._chance = chance
        self._turns: dict[Uid, asyncio.Lock] = {}
        """One writer per claim at a time: our own writes need not conflict with each other."""

    def forget(self, uid: Uid) -> None:
        """A claim is gone."""
        self._turns.pop(uid, None)

    async def bind(self, pod: SchedulerPod, placement: NodeAssignment, *, labels: dict[str, str]) -> None:
        """Reserve the claims and bind the pod. Raises BindingError."""
        for claim, allocation in placement.claims:
            async with self._turns.setdefault(claim.metadata.uid, asyncio.Lock()):
                await self._reserve(claim, pod, allocation, node=(placement.node, labels))
        if placement.through_claims:
            await self._tell(pod, placement.through_claims)
        if self._extender is None:
            await self._bind(pod, placement.node)
        else:
            await self._bind_by_extender(self._extender, pod, placement.node)

    async def unreserve(self, pod: SchedulerPod, placement: NodeAssignment) -> None:
        """Take the pod's entries back; allocations stay, with nobody listed.

        Certainly done when this returns, or certainly not: a removal that arrives when the pod has been reserved again
        would leave it without. Hence the resourceVersion, which upstream does without.
        """
        if placement.through_claims:
            with suppress(BindingError):  # the pod is gone, or will be told anew
                await self._tell(pod, ())
        entry = {"$patch": "delete", "uid": pod.metadata.uid}
        for decided, _ in placement.claims:
            claim = self._holdings.get(decided.metadata.key)
            while claim is not None and claim.metadata.uid == decided.metadata.uid and _is_reserved_for(claim, pod):
                try:
                    await self._change(claim, {"status": {"reservedFor": [entry]}}, "status", strategic=True)
                except Conflict:
                    claim = await self._look(decided.metadata.key)
                except ApiError:  # the claim is gone, or we lost the right: the claim controller does it then
                    break
                else:
                    break

    async def deallocate(self, claim: ResourceClaim) -> None:
        """Take back an allocation that nobody uses. Raises ApiError, and nothing will happen any more then."""
        body = {"status": {"allocation": None, "reservedFor": None, "devices": None}}
        await self._change(claim, body, "status")

    async def fence(self, claim: ResourceClaim) -> None:
        """Make sure that no allocation which an earlier life of ours has sent can still arrive.

        It bears the version of the claim as it was then, so that any write does. The finalizer of a claim without an
        allocation is of no use: it is the trace of an allocation that was begun, and is taken away.
        """
        found: ResourceClaim | None = claim
        while found is not None and found.status.allocation is None and found.protected and not found.metadata.deleting:
            kept = [name for name in found.metadata.finalizers or () if name != DELETE_PROTECTION]
            try:
                await self._change(found, {"metadata": {"finalizers": kept or None}}, None)
            except Conflict:
                found = await self._look(claim.metadata.key)
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
        claim = self._holdings.get(key)
        if allocation is not None:
            stamp = rfc3339(self._clock.wall())
            allocation = msgspec.structs.replace(allocation, allocation_timestamp=stamp)
        attempts = _WriteAttempts(Backoff(random=self._chance))
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
            claim = await self._look(key)
            attempts.looked(claim)

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
        self._holdings.observe(written)
        return written

    async def _change(
        self, claim: ResourceClaim, body: dict[str, Any], subresource: str | None, *, strategic: bool = False
    ) -> None:
        """Patch until the answer leaves nothing open: a `Conflict` may mean that an earlier attempt did succeed."""
        await self._retry_until_definite(lambda: self._patch(claim, body, subresource, strategic=strategic))

    async def _look(self, key: Key) -> ResourceClaim | None:
        """Return the claim as it is now."""
        try:
            claim = await self._retry_until_definite(lambda: self._client.get(CLAIMS, key, ResourceClaim))
        except NotFound:
            return None
        self._holdings.observe(claim)
        return claim

    async def _tell(self, pod: SchedulerPod, found: Sequence[NodeAllocatableClaimStatus]) -> None:
        """Write into the pod what of its node's resources it has through its claims. Raises BindingError."""
        body = {"status": {"nodeAllocatableResourceClaimStatuses": msgspec.to_builtins(found)}}
        key, uid = pod.metadata.key, pod.metadata.uid
        try:
            await self._retry_until_definite(
                lambda: self._client.merge_patch(PODS, key, body, model=SchedulerPod, subresource="status", uid=uid)
            )
        except ApiError as error:
            raise BindingError(str(error)) from error

    async def _bind(self, pod: SchedulerPod, node: str) -> None:
        """Bind the pod; posting it again is harmless, so it is done until there is an answer."""
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
                found = await self._retry_until_definite(lambda: self._client.get(PODS, meta.key, SchedulerPod))
            except ApiError:
                raise BindingError(str(error)) from error
            if found.metadata.uid == meta.uid and found.spec.node_name not in {"", node}:
                raise BoundElsewhereError(str(error)) from error
            if found.metadata.uid != meta.uid or found.spec.node_name != node:
                raise BindingError(str(error)) from error
        except ApiError as error:
            raise BindingError(str(error)) from error

    async def _bind_by_extender(self, extender: Extender, pod: SchedulerPod, node: str) -> None:
        """Have the extender bind the pod; where it cannot tell whether it has, look until nothing can come any more."""
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
        """Read whether the pod is bound to the node. Raises BindingError: it is gone, or on another one."""
        meta = pod.metadata
        try:
            found = await self._retry_until_definite(lambda: self._client.get(PODS, meta.key, SchedulerPod))
        except ApiError as error:
            raise BindingError(str(error)) from error
        if found.metadata.uid != meta.uid:
            raise BindingError(f"pod {'/'.join(meta.key)}: it is gone")
        if found.spec.node_name not in {"", node}:
            raise BoundElsewhereError(f"pod {'/'.join(meta.key)}: is bound to node {found.spec.node_name} already")
        return found.spec.node_name == node

    async def _retry_until_definite(self, send: Callable[[], Awaitable[T]]) -> T:
        """Return the first answer that leaves nothing open, or raise what is one.

        Once an attempt may still arrive, a server that is busy or out of reach is no answer.
        """
        backoff = Backoff(random=self._chance)
        doubt = False
        while True:
            try:
                return await send()
            except _DEFINITE_ERRORS:
                raise
            except ApiError as error:
                doubt = doubt or error.ambiguous
                if not doubt:
                    raise
            await asyncio.sleep(backoff.next())


@dataclass(slots=True)
class _WriteAttempts:
    """What became of the attempts to write one claim.

    One whose outcome is not known may still arrive, until the claim is seen in another version than it bore.
    """

    backoff: Backoff
    conflicts: int = 0
    unsure: bool = False
    doubt: str = ""
    """The version that such an attempt may still change."""

    def failed(self, error: ApiError, claim: ResourceClaim) -> float:
        """Return the seconds until the next attempt. Raises BindingError when there shall be none."""
        if isinstance(error, Conflict):
            self.conflicts += 1
            if self.conflicts > CONFLICTS_MAX:
                raise BindingError(f"claim {'/'.join(claim.metadata.key)}: too many conflicts") from error
            return 0.0
        if error.ambiguous:
            self.unsure = True
        elif self.doubt != claim.metadata.resource_version:
            raise BindingError(str(error)) from error
        return self.backoff.next()

    def looked(self, claim: ResourceClaim | None) -> None:
        """The claim was read after that."""
        if self.unsure and claim is not None:
            self.unsure, self.doubt = False, claim.metadata.resource_version


def _check_claim(
    claim: ResourceClaim | None,
    decided: ResourceClaim,
    allocation: AllocationResult | None,
    node: tuple[str, dict[str, str]],
) -> ResourceClaim:
    """Return the claim if what was decided can still be done. Raises BindingError."""
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
    """Whether the pod may use the claim as it is: it is listed, or any pod may, and somebody keeps the reservation."""
    return claim.status.allocation is not None and (_is_reserved_for(claim, pod) or claim.admits_any_pod)


def _reserved_status(claim: ResourceClaim, pod: SchedulerPod, new: AllocationResult | None) -> dict[str, Any]:
    """Return the status to write: the allocation, if it is new, and the list with the pod, or with its workload."""
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
