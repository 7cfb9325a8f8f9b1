"""The loop that creates the claims that pods and PodGroups request by templates (rule Stock duties).

A claim that a Reservation holds for a pod is handed over to the pod instead of creating a new claim; only
`dra.engine.claims.generation.held_claims` decides this.

The response to a creation enters the cache, where the next decision finds the claim: whatever fails in between, no
second claim is created. The status of the owner is written last. If the status names a claim that is gone, owner and
claim are read live before another claim is created: the pod informer may report the deletion of the owner itself a
minute and a half later, and until then the garbage collector would delete one claim after the other.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import msgspec

from controller.claim_events import ClaimEvents
from controller.informers import ControllerInformers
from controller.metrics import ControllerMetrics
from controller.reconciler import AGAIN, Reconciler, Settings
from controller.runtime import Runtime
from dra.engine.claims import live_reads
from dra.engine.claims.claim_cache import ClaimCache
from dra.engine.claims.generation import attempts, manifests
from dra.engine.claims.generation.attempts import ConfirmLost, OwnerAction, OwnerPlan
from dra.engine.claims.generation.claim_owners import ClaimOwner, ClaimOwnerKind
from dra.engine.claims.generation.decide import (
    CreateClaim,
    HandOverClaim,
    RecordClaims,
    creation_failed_reason,
    handed_over_reason,
)
from dra.engine.claims.generation.owner_index import ClaimOwnerIndex
from dra.engine.claims.reasons import Reason
from dra.engine.instants import Instant, Moment
from dra.kube.client import Selection
from dra.kube.errors import ApiError, Conflict, NotFound, Status, UnreadableResponse
from dra.kube.rate_limiter import RequestPriority
from dra.kube.resources import CLAIMS, POD_GROUPS, PODS, TEMPLATES, Resource
from dra.model.claims import ResourceClaim, WatchedClaim
from dra.model.meta import Uid
from dra.model.pods import Pod
from dra.model.templates import LargeTemplate, PodGroup, ResourceClaimTemplate, requests_admin_access
from dra.requests.claim_patcher import ClaimPatcher

NO_ADMIN_ACCESS: Final = "admin access is requested, but the feature is disabled"
"""Upstream's message for a template that is older than the disabling of the feature (DRAAdminAccess, 1.34 and 1.35)."""


class AdminAccessError(Exception):
    """The API server would create the claim without admin access."""


class UnobservedClaimError(Exception):
    """A claim exists that no watch shows: after a restore from a backup, its owner cannot be determined for a while."""


class ClaimGeneration(Reconciler[Uid]):
    """The loop that creates claims for their owners."""

    settings = Settings(
        name="claims of owner",
        workers=16,
        retry=attempts.RETRY,
        retry_after={AdminAccessError: attempts.RETRY, UnobservedClaimError: attempts.RETRY},
    )
    cache: ClaimOwnerIndex
    _runtime: Runtime[ControllerMetrics]

    def __init__(
        self,
        runtime: Runtime[ControllerMetrics],
        informers: ControllerInformers,
        *,
        cache: ClaimCache,
        events: ClaimEvents,
    ) -> None:
        """Create the loop, once the cache has subscribed to Reservations, if it does.

        A template that is not in the cache when all are listed is missing, and a claim that a Reservation holds for a
        pod is not created again.
        """
        reservations = (informers.reservations,) if informers.reservations.is_subscribed else ()
        super().__init__(runtime, informers, cache.owners, needs=(informers.templates, *reservations))
        self._claims = cache
        self._events = events
        self._patcher = ClaimPatcher(runtime.client)
        self._large_templates = asyncio.Lock()
        """Held by the only claim that is created from a large template: each takes a megabyte until it is created."""

    async def reconcile(self, key: Uid, now: Moment) -> Instant:
        """Create, hand over and record the claims that one owner lacks; return when to look again."""
        plan = self._decide(key, now)
        match plan.actions:
            case (ConfirmLost() as question,):
                await self._confirm_lost(question)
                plan = self._decide(key, now, confirmed=True)
        self._publish(key, plan.reasons)
        for action in plan.actions:
            await self._carry_out(action)
        self.cache.attempts.observe_plan(key, plan, now=now.instant)
        return AGAIN if plan.actions else plan.wake_at

    def _decide(self, key: Uid, now: Moment, *, confirmed: bool = False) -> OwnerPlan:
        view = self._claims.owner_view(key)
        return attempts.decide(view, self.cache.attempts.of(key), now=now.instant, confirmed=confirmed)

    async def _carry_out(self, action: OwnerAction) -> None:
        match action:
            case CreateClaim():
                await self._create(action)
            case HandOverClaim():
                await self._hand_over(action)
            case RecordClaims():
                await self._record(action)
            case ConfirmLost():
                pass

    def _publish(self, uid: Uid, reasons: Sequence[Reason]) -> None:
        self._events.publish(("", uid), reasons, now=self._runtime.instant())

    async def _confirm_lost(self, question: ConfirmLost) -> None:
        """Read an owner live, and the claims that its status names; raise UnobservedClaimError if one of them exists.

        Raises ApiError.
        """
        owner = question.owner
        await self._read_owner(owner)
        for name in question.names:
            key = (owner.key[0], name)
            try:
                claim = await self._runtime.client.get(CLAIMS, key, WatchedClaim)
            except NotFound as error:
                _raise_if_not_served(error, name)
                continue
            self._claims.observe_claim(claim, now=self._runtime.instant())
            if self._claims.claim(key) is None:
                raise UnobservedClaimError(f"claim {'/'.join(key)} exists, and was seen to be deleted")

    async def _read_owner(self, owner: ClaimOwner) -> None:
        """Read an owner live into the cache, or remove it from the cache if it is gone."""
        client = self._runtime.client
        try:
            if owner.kind is ClaimOwnerKind.POD:
                pod = await client.get(PODS, owner.key, Pod)
                live_reads.observe_pod(self._claims, owner.uid, pod, now=self._runtime.instant())
            else:
                self.cache.observe_group(await client.get(self._groups(), owner.key, PodGroup))
        except NotFound as error:
            _raise_if_not_served(error, owner.key[1])
            if owner.kind is ClaimOwnerKind.POD:
                self._claims.forget_pod(owner.uid)
            else:
                self.cache.forget(owner.uid)

    def _groups(self) -> Resource:
        return replace(POD_GROUPS, version=self.cache.groups_version)

    async def _create(self, action: CreateClaim) -> None:
        """Create a claim; raise ApiError, or AdminAccessError if the API server would not preserve the request."""
        try:
            if action.needs_template:
                async with self._large_templates:
                    template = await self._read_template(action.template)
                    await self._create_from(msgspec.structs.replace(action, template=template))
            else:
                await self._create_from(action)
        except (ApiError, AdminAccessError):
            # The action has a reduced template: a megabyte is neither kept nor read again at each event.
            self.cache.attempts.refuse(action.owner.uid, action, now=self._runtime.instant())
            raise
        self.cache.attempts.forget(action.owner.uid)

    async def _read_template(self, template: ResourceClaimTemplate) -> ResourceClaimTemplate:
        """Read a template whose spec is too large for the cache.

        Raises NotFound if it was deleted. Lists, because the controller has no right to get templates.
        """
        namespace, name = template.metadata.key
        selection = Selection(namespace=namespace, fields=f"metadata.name={name}")
        subject = TEMPLATES.describe(template.metadata.key)
        async for page in self._runtime.client.list_pages(TEMPLATES, LargeTemplate, selection=selection):
            for large in page.items:
                try:
                    return large.to_template()
                except msgspec.DecodeError as error:
                    raise UnreadableResponse(subject, error) from error
        raise NotFound(subject, Status(code=404, message="was deleted, or is too large to be read"))

    async def _create_from(self, action: CreateClaim) -> None:
        admin = action.requests_admin_access
        count = partial(self._runtime.metrics.created, admin_access=admin, owner=action.owner.kind)
        try:
            if admin and not await self._preserves_admin_access(action):  # upstream counts no failed creation
                self._publish_failure(action, NO_ADMIN_ACCESS)
                raise AdminAccessError(NO_ADMIN_ACCESS)
            claim = await self._post(action, dry_run=False)
        except ApiError as error:
            count("failure")
            # Upstream puts the claim's name before the colon; the claim has no name yet.
            self._publish_failure(action, f"create ResourceClaim : {error.message}")
            raise
        count("success")
        self._claims.observe_claim(claim, now=self._runtime.instant(), ours=True)

    def _publish_failure(self, action: CreateClaim, error: str) -> None:
        self._publish(action.owner.uid, [creation_failed_reason(action.owner, action.entry, error)])

    async def _post(self, action: CreateClaim, *, dry_run: bool) -> ResourceClaim:
        return await self._runtime.client.create(
            CLAIMS,
            manifests.claim_manifest(action, group_version=self.cache.groups_version),
            model=ResourceClaim if dry_run else WatchedClaim,  # a dry run is asked for the requests of any size
            namespace=action.owner.key[0],
            timeout_seconds=self._runtime.write_timeout(),
            dry_run=dry_run,
        )

    async def _preserves_admin_access(self, action: CreateClaim) -> bool:
        """Check by a dry run that the API server keeps adminAccess: without it the claim would take whole devices."""
        return requests_admin_access((await self._post(action, dry_run=True)).spec.devices)

    async def _hand_over(self, action: HandOverClaim) -> None:
        """Hand a held claim over to its owner; raise Conflict after a concurrent write, to decide again."""
        claim = action.held.claim
        try:
            handed_over = await self._patcher.patch(
                manifests.hand_over_write(action),
                claim,
                priority=RequestPriority.URGENT,
                write_timeout=self._runtime.write_timeout,
            )
        except Conflict:
            newer = await self._runtime.client.get(CLAIMS, claim.metadata.key, WatchedClaim)
            self._claims.observe_claim(newer, now=self._runtime.instant())
            raise
        except NotFound as error:
            if error.is_about(claim.metadata.name):
                self._claims.forget_claim(claim.metadata.key, claim.metadata.uid)
            raise
        self._claims.observe_claim(handed_over, now=self._runtime.instant(), ours=True)
        reason = handed_over_reason(action)
        self._log.info("%s", reason.text)
        self._publish(claim.metadata.uid, [reason])

    async def _record(self, action: RecordClaims) -> None:
        """Write the names of an owner's claims into its status."""
        owner, is_pod = action.owner, action.owner.kind is ClaimOwnerKind.POD
        try:
            recorded = await self._runtime.client.apply(
                PODS if is_pod else self._groups(),
                owner.key,
                manifests.claim_statuses_manifest(action),
                model=Pod if is_pod else PodGroup,
                manager=manifests.FIELD_MANAGER,
                subresource="status",
                uid=owner.uid,
                timeout_seconds=self._runtime.write_timeout(),
            )
        except NotFound as error:
            _raise_if_not_served(error, owner.key[1])
            self.cache.forget(owner.uid)
            return
        match recorded:
            case Pod():
                self._claims.observe_pod(recorded, now=self._runtime.instant())
            case PodGroup():
                self.cache.observe_group(recorded)


def _raise_if_not_served(error: NotFound, name: str) -> None:
    """Raise the error again unless the object is missing: during an upgrade, one of several servers lacks the kind."""
    if not error.is_about(name):
        raise error
