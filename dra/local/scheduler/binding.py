"""What follows a decision: claims are written, then the pod is bound; and what is to be undone if that fails.

The order of upstream: the finalizer of a claim that is allocated, its status with the allocation and the reservation in
one write, the binding. Every write carries the resourceVersion it was decided on, so that two who write one claim
notice each other. An answer that leaves open whether a write has happened (500, a broken connection) is followed by a
look, never by a guess: giving devices away that a late write still takes would be damage.

KEP rules 1 and 2: with ``spec.reservedFor`` the workload is listed instead of the pod and ``reservedForAnyPod`` set, in
the write of the allocation; a pod that is listed, or admitted because any is, costs no write.
"""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, Final, TypeVar

import msgspec

from dra.kube.backoff import Backoff
from dra.kube.client import Client
from dra.kube.clock import Clock, second_time
from dra.kube.errors import ApiError, Conflict, NotFound, Status
from dra.kube.resources import CLAIMS, PODS
from dra.local.scheduler.cycle import Placement
from dra.local.scheduler.holdings import Holdings
from dra.model.claims import DELETE_PROTECTION, AllocationResult, ResourceClaim
from dra.model.meta import Key, Uid
from dra.model.nodes import matches
from dra.model.placement import PlacedPod
from dra.model.references import ConsumerReference

CONFLICTS_MAX: Final = 5
"""Times that a claim is read again because somebody else has written it."""

T = TypeVar("T")


class BindingError(Exception):
    """The pod is not bound, and everything that was written for it is harmless."""


class Binder:
    """Carries placements out."""

    def __init__(self, client: Client, holdings: Holdings, *, clock: Clock, chance: Random) -> None:
        self._client = client
        self._holdings = holdings
        self._clock = clock
        self._chance = chance
        self._turns: dict[Uid, asyncio.Lock] = {}
        """One writer per claim at a time: our own writes need not conflict with each other."""

    def forget(self, uid: Uid) -> None:
        """A claim is gone."""
        self._turns.pop(uid, None)

    async def bind(self, pod: PlacedPod, placement: Placement, *, labels: dict[str, str]) -> None:
        """Reserve the claims and bind the pod. Raises BindingError."""
        for claim, allocation in placement.claims:
            async with self._turns.setdefault(claim.metadata.uid, asyncio.Lock()):
                await self._reserve(claim, pod, allocation, node=(placement.node, labels))
        await self._bind(pod, placement.node)

    async def unreserve(self, pod: PlacedPod, placement: Placement) -> None:
        """Take the pod's entries back; allocations stay, with nobody listed."""
        for decided, _ in placement.claims:
            claim = self._holdings.get(decided.metadata.key)
            if claim is None or claim.metadata.uid != decided.metadata.uid or not _listed(claim, pod):
                continue
            entry = {"$patch": "delete", "uid": pod.metadata.uid}
            try:
                self._holdings.observe(
                    await self._client.merge_patch(
                        CLAIMS,
                        claim.metadata.key,
                        {"status": {"reservedFor": [entry]}},
                        model=ResourceClaim,
                        subresource="status",
                        uid=claim.metadata.uid,
                        strategic=True,
                    )
                )
            except ApiError:  # upstream logs it, too: the claim controller removes the entry when the pod ends
                continue

    async def deallocate(self, claim: ResourceClaim) -> None:
        """Take back an allocation that nobody uses. Raises ApiError."""
        body = {"status": {"allocation": None, "reservedFor": None, "devices": None}}
        self._holdings.observe(
            await self._client.merge_patch(
                CLAIMS,
                claim.metadata.key,
                body,
                model=ResourceClaim,
                subresource="status",
                resource_version=claim.metadata.resource_version,
                uid=claim.metadata.uid,
            )
        )

    async def _reserve(
        self,
        decided: ResourceClaim,
        pod: PlacedPod,
        allocation: AllocationResult | None,
        *,
        node: tuple[str, dict[str, str]],
    ) -> None:
        """Write what the claim lacks for the pod to use it."""
        key = decided.metadata.key
        claim = self._holdings.get(key)
        if allocation is not None:
            stamp = second_time(self._clock.wall())
            allocation = msgspec.structs.replace(allocation, allocation_timestamp=stamp)
        conflicts = 0
        backoff = Backoff(random=self._chance)
        while True:
            claim = _checked(claim, decided, allocation, node)
            if _admitted(claim, pod):
                return
            try:
                await self._write(claim, pod, allocation)
            except Conflict:
                conflicts += 1
                if conflicts > CONFLICTS_MAX:
                    raise BindingError(f"claim {'/'.join(key)}: too many conflicts") from None
            except ApiError as error:
                if not error.ambiguous:
                    raise BindingError(str(error)) from error
                await asyncio.sleep(backoff.next())
            else:
                return
            claim = await self._look(key)

    async def _write(self, claim: ResourceClaim, pod: PlacedPod, allocation: AllocationResult | None) -> None:
        new = allocation if claim.status.allocation is None else None
        if new is not None and not claim.protected:
            finalizers = [*(claim.metadata.finalizers or ()), DELETE_PROTECTION]
            claim = await self._patch(claim, {"metadata": {"finalizers": finalizers}}, None)
        await self._patch(claim, {"status": _status(claim, pod, new)}, "status")

    async def _patch(self, claim: ResourceClaim, body: dict[str, Any], subresource: str | None) -> ResourceClaim:
        meta = claim.metadata
        written = await self._client.merge_patch(
            CLAIMS,
            meta.key,
            body,
            model=ResourceClaim,
            subresource=subresource,
            resource_version=meta.resource_version,
            uid=meta.uid,
        )
        self._holdings.observe(written)
        return written

    async def _look(self, key: Key) -> ResourceClaim | None:
        """Return the claim as it is now."""
        try:
            claim = await self._certainly(lambda: self._client.get(CLAIMS, key, ResourceClaim))
        except NotFound:
            return None
        self._holdings.observe(claim)
        return claim

    async def _bind(self, pod: PlacedPod, node: str) -> None:
        """Bind the pod; posting it again is harmless, so it is done until there is an answer."""
        meta = pod.metadata
        body = {
            "kind": "Binding",
            "metadata": {"namespace": meta.namespace, "name": meta.name, "uid": meta.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        try:
            await self._certainly(
                lambda: self._client.create(
                    PODS, body, model=Status, namespace=meta.namespace, name=meta.name, subresource="binding"
                )
            )
        except Conflict as error:
            try:
                found = await self._certainly(lambda: self._client.get(PODS, meta.key, PlacedPod))
            except ApiError:
                raise BindingError(str(error)) from error
            if found.metadata.uid != meta.uid or found.spec.node_name != node:
                raise BindingError(str(error)) from error
        except ApiError as error:
            raise BindingError(str(error)) from error

    async def _certainly(self, send: Callable[[], Awaitable[T]]) -> T:
        """Return the first answer that leaves nothing open; raises what is one."""
        backoff = Backoff(random=self._chance)
        while True:
            try:
                return await send()
            except ApiError as error:
                if not error.ambiguous:
                    raise
            await asyncio.sleep(backoff.next())


def _checked(
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
    elif allocation is not None and _devices(present) != _devices(allocation):
        raise BindingError(f"claim {name} got allocated elsewhere in the meantime")
    elif not matches(present.node_selector, name=node[0], labels=node[1]):
        raise BindingError(f"claim {name} got allocated for other nodes in the meantime")
    return claim


def _devices(allocation: AllocationResult) -> list[tuple[str, ...]]:
    return [(r.request, r.driver, r.pool, r.device, r.share_id or "") for r in allocation.devices.results or ()]


def _listed(claim: ResourceClaim, pod: PlacedPod) -> bool:
    return any(entry.uid == pod.metadata.uid for entry in claim.entries)


def _admitted(claim: ResourceClaim, pod: PlacedPod) -> bool:
    """Whether the pod may use the claim as it is: it is listed, or any pod may, and somebody keeps the reservation."""
    allocation = claim.status.allocation
    if allocation is None:
        return False
    if _listed(claim, pod):
        return True
    return bool(allocation.reserved_for_any_pod) and any(not entry.is_pod for entry in claim.entries)


def _status(claim: ResourceClaim, pod: PlacedPod, new: AllocationResult | None) -> dict[str, Any]:
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
