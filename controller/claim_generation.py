"""The loop of rule 13: creates the claims that pods and PodGroups request by templates.

A claim that a Reservation holds for a pod is handed over to the pod instead of creating a new claim; only
`dra.engine.claims.generation.held_claims` decides this.

The response to a creation enters the cache, where the next decision finds the claim: whatever fails in between, no
second claim is created. The status of the owner is written last. If the status names a claim that is gone, owner and
claim are read live before another claim is created: the pod informer may report the deletion of the owner itself a
minute and a half later, and until then the garbage collector would delete one claim after the other.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import msgspec

from controller.claim_events import ClaimEvents
from controller.claim_patcher import ClaimPatcher
from controller.leadership import Leadership
from controller.metrics import ControllerMetrics
from dra.engine.claims.claim_cache import ClaimCache
from dra.engine.claims.generation import manifests
from dra.engine.claims.generation.claim_owners import ClaimOwner, ClaimOwnerKind, ClaimOwnerView
from dra.engine.claims.generation.decide import (
    CreateClaim,
    GenerationPlan,
    HandOverClaim,
    RecordClaims,
    creation_failed_reason,
    decide,
    handed_over_reason,
)
from dra.engine.instants import NEVER, Instant
from dra.kube.client import WRITE_TIMEOUT, Client, Selection
from dra.kube.clock import Clock
from dra.kube.errors import ApiError, Conflict, NotFound, Status, UnreadableResponse
from dra.kube.rate_limiter import RequestPriority
from dra.kube.resources import CLAIMS, POD_GROUPS, PODS, TEMPLATES, Resource
from dra.kube.workqueue import BATCH_DELAY, ItemBackoff, RetryPolicy, WorkQueue
from dra.model.claims import ResourceClaim, WatchedClaim
from dra.model.meta import Uid
from dra.model.pods import Pod
from dra.model.templates import (
    LargeTemplate,
    PodGroup,
    ResourceClaimTemplate,
    WatchedTemplate,
    requests_admin_access,
)

WORKERS: Final = 16
"""Number of owners reconciled at the same time."""

DECISIONS_MAX: Final = 4
"""Maximum number of decisions in a row on one owner: read live; create or hand over; record; nothing left."""

RETRY: Final = (0.2, 60.0)
"""Seconds, minimum and maximum, before an owner is retried; an event enqueues it at once, but repeats no claim that was
refused."""

NO_ADMIN_ACCESS: Final = "admin access is requested, but the feature is disabled"
"""Upstream's message for a template that is older than the disabling of the feature (DRAAdminAccess, 1.34 and 1.35)."""

_log: Final = logging.getLogger(__name__)


class ClaimGenerationLoop:
    """The loop that reconciles dirty owners of claims with the API server."""

    def __init__(
        self,
        client: Client,
        *,
        cache: ClaimCache,
        events: ClaimEvents,
        metrics: ControllerMetrics,
        clock: Clock,
        leadership: Leadership,
    ) -> None:
        self._client = client
        self._cache = cache
        self._events = events
        self._metrics = metrics
        self._clock = clock
        self._leadership = leadership
        self._patcher = ClaimPatcher(client)
        self._queue: WorkQueue[Uid] = WorkQueue(clock, batch_delay=BATCH_DELAY)
        self._retry: RetryPolicy[Uid] = RetryPolicy(
            _log, subject="owner {} of claims".format, bounds=RETRY, on_internal_error=metrics.failures.inc
        )
        self._unsettled: ItemBackoff[Uid] = ItemBackoff()
        self._large_templates = asyncio.Lock()
        """Held by the only claim that is created from a large template: each takes a megabyte until it is created."""
        self._refusals: ItemBackoff[Uid] = ItemBackoff()
        self._refused: dict[Uid, tuple[Instant, CreateClaim]] = {}
        """Owner → until when its refused claim is not requested again, and which claim that is."""

    def enqueue_dirty(self) -> None:
        """Enqueue the owners that the cache has marked dirty."""
        dirty = self._cache.owners.dirty
        while dirty:
            self._queue.add(dirty.pop())

    async def run(self) -> None:
        """Reconcile owners until cancelled."""
        await self._queue.run(self._process_item, workers=WORKERS, retry=self._retry)

    async def _process_item(self, uid: Uid) -> Instant | None:
        """Reconcile one owner; return when it is due again if something is left to do."""
        try:
            settled = await self.reconcile(uid)
        finally:
            self.enqueue_dirty()
        if settled:
            self._unsettled.forget(uid)
            self._forget_refusal(uid)
            return None
        now = self._clock.now()
        until, _ = self._refused.get(uid, (-NEVER, None))
        # A refusal that is over says nothing about what is missing now, such as a template deleted since.
        return until if now < until else now + self._unsettled.next_delay(uid, RETRY)

    async def reconcile(self, uid: Uid) -> bool:
        """Execute the plan for one owner; return whether nothing is left to retry."""
        confirmed = False
        for _ in range(DECISIONS_MAX):
            view = self._cache.owner_view(uid)
            if view is None:
                self._events.forget(("", uid))
                return True
            plan = decide(view)
            self._events.publish(("", uid), plan.reasons, now=self._clock.now())
            if plan.done:
                return not plan.reasons
            if self._is_refused(uid, plan.create):
                return False
            lost = _missing_claims(plan.create, view) if not confirmed else ()
            if lost:
                confirmed = await self._confirm_lost(lost, view.owner)
                if not confirmed:
                    return False
                continue
            if not await self._carry_out(plan, view):
                return False
        return True

    async def _carry_out(self, plan: GenerationPlan, view: ClaimOwnerView) -> bool:
        """Execute the plan; return False if the API server would not preserve a claim as requested."""
        for action in plan.create:
            if not await self._create(action, view):
                return False
        if plan.create:
            self._forget_refusal(view.owner.uid)
        for taken in plan.hand_over:
            await self._hand_over(taken)
        if plan.record is not None:
            await self._record(plan.record)
        return True

    async def _confirm_lost(self, names: Sequence[str], owner: ClaimOwner) -> bool:
        """Read an owner live, and the claims that its status names; return False if a claim exists outside the cache.

        After a restore from a backup, a deleted claim may exist again with the same uid: until everything is listed
        again, its owner cannot be determined.
        """
        await self._read_owner(owner)
        for name in names:
            key = (owner.key[0], name)
            try:
                found = await self._client.get(CLAIMS, key, WatchedClaim)
            except NotFound as error:
                _raise_if_not_served(error, name)
                continue
            self._cache.observe_claim(found, now=self._clock.now())
            if self._cache.claim(key) is None:
                return False
        return True

    async def _read_owner(self, owner: ClaimOwner) -> None:
        """Read an owner live into the cache, or remove it from the cache if it is gone."""
        try:
            if owner.kind is ClaimOwnerKind.POD:
                pod = await self._client.get(PODS, owner.key, Pod)
                if pod.metadata.uid != owner.uid:
                    self._cache.forget_pod(owner.uid)
                self._cache.observe_pod(pod, now=self._clock.now())
            else:
                self._cache.owners.observe_group(await self._client.get(self._groups(), owner.key, PodGroup))
        except NotFound as error:
            _raise_if_not_served(error, owner.key[1])
            if owner.kind is ClaimOwnerKind.POD:
                self._cache.forget_pod(owner.uid)
            else:
                self._cache.owners.forget(owner.uid)

    def _groups(self) -> Resource:
        return replace(POD_GROUPS, version=self._cache.owners.groups_version)

    async def _create(self, action: CreateClaim, view: ClaimOwnerView) -> bool:
        """Create a claim; return False if the API server would not preserve it as requested."""
        template = action.template
        if not (isinstance(template, WatchedTemplate) and template.is_reduced):
            return await self._create_from(template, action, view)
        async with self._large_templates:
            try:
                whole = await self._read_template(template)
            except ApiError:
                self._refuse(view.owner.uid, action)  # a megabyte is not read again at each event
                raise
            return await self._create_from(whole, action, view)

    async def _read_template(self, template: WatchedTemplate) -> ResourceClaimTemplate:
        """Read a template whose spec is too large for the cache.

        Raises NotFound if it was deleted. Lists, because the controller has no right to get templates.
        """
        namespace, name = template.metadata.key
        selection = Selection(namespace=namespace, fields=f"metadata.name={name}")
        subject = TEMPLATES.describe(template.metadata.key)
        async for page in self._client.list_pages(TEMPLATES, LargeTemplate, selection=selection):
            for found in page.items:
                try:
                    return found.to_template()
                except msgspec.DecodeError as error:
                    raise UnreadableResponse(subject, error) from error
        raise NotFound(subject, Status(code=404, message="was deleted, or is too large to be read"))

    async def _create_from(self, template: ResourceClaimTemplate, planned: CreateClaim, view: ClaimOwnerView) -> bool:
        """Create a claim from a whole template; the planned action, which a refusal keeps, may have a reduced one."""
        action = msgspec.structs.replace(planned, template=template)
        admin = requests_admin_access(template.spec.spec.get("devices"))
        count = partial(self._metrics.created, admin_access=admin, owner=action.owner.kind)
        try:
            if admin and not await self._preserves_admin_access(action):  # upstream counts no failed creation
                self._refuse(view.owner.uid, planned)
                self._events.publish(
                    ("", view.owner.uid),
                    [creation_failed_reason(view.owner, action.entry, NO_ADMIN_ACCESS)],
                    now=self._clock.now(),
                )
                return False
            claim = await self._post(action, dry_run=False)
        except ApiError as error:
            count("failure")
            self._refuse(view.owner.uid, planned)
            # Upstream puts the claim's name before the colon; the claim has no name yet.
            reason = creation_failed_reason(view.owner, action.entry, f"create ResourceClaim : {error.message}")
            self._events.publish(("", view.owner.uid), [reason], now=self._clock.now())
            raise
        count("success")
        self._cache.observe_claim(claim, now=self._clock.now(), ours=True)
        return True

    def _refuse(self, uid: Uid, action: CreateClaim) -> None:
        until = self._clock.now() + self._refusals.next_delay(uid, RETRY)
        self._refused[uid] = (until, action)

    def _is_refused(self, uid: Uid, create: Sequence[CreateClaim]) -> bool:
        """Return whether one of these claims was refused a moment ago; a changed template may be accepted."""
        until, refused = self._refused.get(uid, (-NEVER, None))
        return self._clock.now() < until and any(
            refused is not None and (each.entry, each.template) == (refused.entry, refused.template) for each in create
        )

    def _forget_refusal(self, uid: Uid) -> None:
        self._refusals.forget(uid)
        self._refused.pop(uid, None)

    async def _post(self, action: CreateClaim, *, dry_run: bool) -> ResourceClaim:
        return await self._client.create(
            CLAIMS,
            manifests.claim_manifest(action, group_version=self._cache.owners.groups_version),
            model=ResourceClaim if dry_run else WatchedClaim,  # a dry run is asked for the requests of any size
            namespace=action.owner.key[0],
            timeout_seconds=self._leadership.write_timeout(WRITE_TIMEOUT, now=self._clock.now()),
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
                write_timeout=self._write_timeout,
            )
        except Conflict:
            found = await self._client.get(CLAIMS, claim.metadata.key, WatchedClaim)
            self._cache.observe_claim(found, now=self._clock.now())
            raise
        except NotFound as error:
            if error.is_about(claim.metadata.name):
                self._cache.forget_claim(claim.metadata.key, claim.metadata.uid)
            raise
        now = self._clock.now()
        self._cache.observe_claim(handed_over, now=now, ours=True)
        reason = handed_over_reason(action)
        _log.info("%s", reason.text)
        self._events.publish(("", claim.metadata.uid), [reason], now=now)

    def _write_timeout(self) -> float:
        return self._leadership.write_timeout(WRITE_TIMEOUT, now=self._clock.now())

    async def _record(self, action: RecordClaims) -> None:
        owner = action.owner
        body, timeout = (
            manifests.claim_statuses_manifest(action),
            self._leadership.write_timeout(WRITE_TIMEOUT, now=self._clock.now()),
        )
        try:
            if owner.kind is ClaimOwnerKind.POD:
                pod = await self._client.apply(
                    PODS,
                    owner.key,
                    body,
                    model=Pod,
                    manager=manifests.FIELD_MANAGER,
                    subresource="status",
                    uid=owner.uid,
                    timeout_seconds=timeout,
                )
                self._cache.observe_pod(pod, now=self._clock.now())
            else:
                group = await self._client.apply(
                    self._groups(),
                    owner.key,
                    body,
                    model=PodGroup,
                    manager=manifests.FIELD_MANAGER,
                    subresource="status",
                    uid=owner.uid,
                    timeout_seconds=timeout,
                )
                self._cache.owners.observe_group(group)
        except NotFound as error:
            _raise_if_not_served(error, owner.key[1])
            self._cache.owners.forget(owner.uid)


def _raise_if_not_served(error: NotFound, name: str) -> None:
    """Raise the error again unless the object is missing: during an upgrade, one of several servers lacks the kind."""
    if not error.is_about(name):
        raise error


def _missing_claims(create: Sequence[CreateClaim], view: ClaimOwnerView) -> tuple[str, ...]:
    """Return the names of deleted claims in the owner's status that new claims will replace."""
    records = (view.owner.record(action.entry) for action in create)
    names = (record.resource_claim_name for record in records if record is not None)
    return tuple(name for name in names if name and name not in view.named)
