"""The kubelet's DRA manager: the claims that are prepared on each node, with the kubelet's checks, texts and cache.

1. Before each sandbox is created, every claim of the pod is read from the API server and checked. Nothing is remembered
   if any check fails.
2. The check of ``reservedFor`` comes before the cache lookup, so it is repeated for each new sandbox.
3. The cache is keyed by the claim's name and remembers its uid. A claim that was deallocated and allocated again while
   one of its pods is still on the node counts as prepared, and the pod gets the **old devices**: the real kubelet does
   the same.
4. Each driver must be registered before anything is remembered, so that a pod whose driver was never
   installed can be deleted. A driver that goes away later blocks the termination of the pods that had its devices.
5. Each driver gets one call for all claims of a pod; the claims count as prepared only if the whole call succeeds.
6. A claim is unprepared when its last pod on the node has ended. The allocation's node selector is not checked.
7. Since 1.37, a claim that is being unprepared rejects new pods, from the call to the driver until that call has
   succeeded or the kubelet restarts. Up to 1.36, a new pod joins meanwhile.
"""

import contextlib
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias

from dra.kube.errors import ApiError
from dra.model.claims import ResourceClaim
from dra.model.meta import Key, Uid
from dra.model.releases import NEWEST, Release
from localplane.nodes.drivers import ClaimIdentity, Device, DriverError, Preparer, drivers_of, union_of_names
from localplane.nodes.pod_types import KubeletPod
from localplane.schemas.builtin_schemas import Dialect

GetClaim: TypeAlias = Callable[[Key], Awaitable[ResourceClaim]]


class PrepareDynamicResourcesError(Exception):
    """The pod cannot start; the text is that of the kubelet's event."""


@dataclass(slots=True)
class ClaimInfo:
    """The cached state of a claim on a node."""

    identity: ClaimIdentity
    pods: dict[Uid, None] = field(default_factory=dict)
    devices: tuple[Device, ...] = ()
    prepared: bool = False


class Checkpointer(Protocol):
    """Stores the claims in use on each node across restarts of its kubelet."""

    def load(self) -> dict[str, list[ClaimInfo]]:
        """Return the claims in use on each node."""
        ...

    def save(self, node: str, claim_infos: list[ClaimInfo]) -> None:
        """Store the claims in use on a node."""
        ...


class DraManager:
    """The DRA managers of all nodes."""

    def __init__(
        self,
        preparer: Preparer,
        *,
        api: Dialect,
        get_claim: GetClaim,
        checkpoint: Checkpointer | None = None,
        release: Release = NEWEST,
    ) -> None:
        self._preparer = preparer
        self._refuses_while_unpreparing = release.traits.refuses_pods_while_unpreparing
        self._unpreparing: set[tuple[str, Key]] = set()
        """Claims that drivers were called to unprepare, by node; in memory only, like the kubelet's flag."""

        self._any_pod = api is Dialect.KEP
        self._get_claim = get_claim
        self._cache: dict[str, dict[Key, ClaimInfo]] = {}
        self._claims_by_pod: dict[Uid, dict[Key, None]] = {}
        """Keys of each pod's claims in the cache of its node."""
        self._checkpoint = checkpoint
        for node, known in checkpoint.load().items() if checkpoint is not None else ():
            self._cache[node] = {info.identity.key: replace(info, prepared=False) for info in known}
            for info in known:
                for uid in info.pods:
                    self._claims_by_pod.setdefault(uid, {})[info.identity.key] = None

    def __iter__(self) -> Iterator[tuple[str, ClaimInfo]]:
        """Yield every cached claim with its node."""
        return ((node, info) for node, cache in tuple(self._cache.items()) for info in tuple(cache.values()))

    async def prepare(self, node: str, pod: KubeletPod) -> None:
        """Prepare all claims of a pod; raises `PrepareDynamicResourcesError`."""
        try:
            await self._prepare(node, pod)
        except (PrepareDynamicResourcesError, ApiError, DriverError) as error:
            raise PrepareDynamicResourcesError(
                f"Failed to prepare dynamic resources: prepare dynamic resources: {error}"
            ) from error

    async def unprepare(self, node: str, pod: KubeletPod) -> None:
        """Release the claims of a pod that has ended; unprepare those without other pods; raises `DriverError`."""
        uid, cache = pod.metadata.uid, self._cache.get(node, {})
        used = {key: cache[key] for key in self._claims_by_pod.get(uid, ())}
        alone = [known.identity for known in used.values() if len(known.pods) == 1]
        if alone:
            self._unpreparing |= {(node, identity.key) for identity in alone}
            await self._unprepare(node, alone)
            self._unpreparing -= {(node, identity.key) for identity in alone}
        for key, known in used.items():
            known.pods.pop(uid, None)
            if known.pods:  # other pods use it, or (up to 1.36) a pod has joined during the call to the driver
                continue
            del cache[key]
        self._claims_by_pod.pop(uid, None)
        if used:
            self._save(node)

    def devices(self, node: str, key: Key) -> tuple[Device, ...]:
        """Return the prepared devices of a claim on a node."""
        known = self._cache.get(node, {}).get(key)
        return known.devices if known is not None else ()

    async def adopt(self, node: str, pod: KubeletPod, claims: list[ResourceClaim]) -> None:
        """Take over a running pod's claims, as a kubelet and a driver do that read their checkpoints.

        The kubelet's checkpoint does not record what is prepared: for the next pod of the claim, the driver is called
        again.
        """
        for claim in claims:
            known = self._add_pod(node, pod.metadata.uid, claim)
            with contextlib.suppress(DriverError):  # the pod runs, whatever its driver reports now
                known.devices = known.devices or (await self._preparer.prepare(node, [claim]))[claim.metadata.uid]
        self._save(node)

    def node_rebooted(self, node: str) -> None:
        """Keep the claims of a node and clear their preparation state, which the checkpoint does not contain."""
        self._unpreparing = {entry for entry in self._unpreparing if entry[0] != node}
        for known in self._cache.get(node, {}).values():
            known.prepared = False

    async def _unprepare(self, node: str, claims: list[ClaimIdentity]) -> None:
        try:
            await self._preparer.unprepare(node, claims)
        except DriverError as error:
            raise DriverError(f"unprepare dynamic resources: {error}") from error

    def _add_pod(self, node: str, uid: Uid, claim: ResourceClaim) -> ClaimInfo:
        """Record that a pod uses a claim; raises `PrepareDynamicResourcesError` if the kubelet rejects the pod."""
        key = claim.metadata.key
        known = self._cache.setdefault(node, {}).setdefault(key, ClaimInfo(ClaimIdentity.of(claim)))
        if known.identity.uid != claim.metadata.uid:
            raise PrepareDynamicResourcesError(
                f"old ResourceClaim with same name {claim.metadata.name} and different UID {known.identity.uid}"
                " still exists (previous pod force-deleted?!)"
            )
        if self._refuses_while_unpreparing and (node, key) in self._unpreparing:
            raise PrepareDynamicResourcesError(f"ResourceClaim {claim.metadata.name} is being unprepared")
        if not known.prepared:  # the claim may have been reallocated since the last attempt
            drivers = union_of_names(known.identity.drivers, drivers_of(claim))
            known.identity = replace(known.identity, drivers=drivers)
        known.pods[uid] = None
        self._claims_by_pod.setdefault(uid, {})[key] = None
        return known

    async def _prepare(self, node: str, pod: KubeletPod) -> None:
        claims: list[ResourceClaim] = []
        for name, generated in pod_claims(pod):
            claim = await self._get_usable_claim(pod, name, generated=generated)
            self._preparer.check_registered(node, drivers_of(claim))
            claims.append(claim)
        used = [(self._add_pod(node, pod.metadata.uid, claim), claim) for claim in claims]
        unprepared = [(known, claim) for known, claim in used if not known.prepared]
        self._save(node)
        if not unprepared:
            return
        devices = await self._preparer.prepare(node, [claim for _, claim in unprepared])
        for known, claim in unprepared:
            known.devices = devices[claim.metadata.uid]
            known.prepared = True
        self._save(node)

    def _save(self, node: str) -> None:
        if self._checkpoint is not None:
            self._checkpoint.save(node, list(self._cache.get(node, {}).values()))

    async def _get_usable_claim(self, pod: KubeletPod, name: str, *, generated: bool) -> ResourceClaim:
        """Return the current claim; raises `PrepareDynamicResourcesError` if the pod may not use the claim."""
        meta = pod.metadata
        try:
            claim = await self._get_claim((meta.namespace, name))
        except ApiError as error:
            raise PrepareDynamicResourcesError(f"fetch ResourceClaim {name}: {error.message or error}") from error
        if generated and claim.generated_for != meta.uid:
            raise PrepareDynamicResourcesError(
                f"ResourceClaim {meta.namespace}/{name} was not created for Pod {meta.namespace}/{meta.name}"
                " (Pod is not owner)"
            )
        if not self._is_reserved_for(meta.uid, claim):
            raise PrepareDynamicResourcesError(
                f"pod {meta.name} ({meta.uid}) is not allowed to use ResourceClaim {name} ({claim.metadata.uid})"
            )
        if claim.status.allocation is None:
            raise PrepareDynamicResourcesError(f"ResourceClaim {name}: not allocated")
        return claim

    def _is_reserved_for(self, uid: Uid, claim: ResourceClaim) -> bool:
        """Report whether ``reservedFor`` lists the pod, by uid alone as upstream, or with the KEP admits any pod."""
        allocation = claim.status.allocation
        if self._any_pod and allocation is not None and allocation.reserved_for_any_pod:
            return True
        return any(entry.uid == uid for entry in claim.entries)


def pod_claims(pod: KubeletPod) -> list[tuple[str, bool]]:
    """Return the claims of a pod by name, and whether each was generated for it.

    Raises `PrepareDynamicResourcesError` if a claim has not been generated yet. An entry that needs no claim has a
    status without a name.
    """
    statuses = {status.name: status.resource_claim_name for status in pod.status.resource_claim_statuses or ()}
    claims: list[tuple[str, bool]] = []
    for entry in pod.spec.resource_claims or ():
        if entry.resource_claim_name:
            claims.append((entry.resource_claim_name, False))
        elif entry.name in statuses:
            name = statuses[entry.name]
            if name:
                claims.append((name, True))
        else:
            namespace, name = pod.key
            raise PrepareDynamicResourcesError(f'pod "{namespace}/{name}": ResourceClaim not created yet')
    extended = pod.status.extended_resource_claim_status
    if extended is not None:
        claims.append((extended.resource_claim_name, False))
    return claims
