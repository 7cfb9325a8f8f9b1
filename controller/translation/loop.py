"""The loop that makes and deletes the templates that translated pods name.

Each decision carries out one plan; what it has changed comes back by the watches, and is decided about again. So a
write that fails, or whose outcome is unknown, needs no memory.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from controller.card_informer import CardInformer
from controller.claim_events import ClaimEvents
from controller.leadership import Leadership
from controller.metrics import ControllerMetrics
from controller.optional_part import OptionalPart
from controller.translation.informers import templates_of_requests
from dra.api.koordinator import well_known
from dra.engine.claims.reasons import Reason
from dra.engine.instants import NEVER, Instant
from dra.engine.translation import template_plan
from dra.engine.translation.template_index import TemplateIndex, TemplateView
from dra.engine.translation.template_plan import (
    CreateTemplate,
    DeleteClaim,
    DeleteTemplate,
    MarkTemplate,
    TemplateAction,
    TemplatePlan,
)
from dra.kube.client import WRITE_TIMEOUT, Client
from dra.kube.clock import Clock, rfc3339
from dra.kube.errors import AlreadyExists, ApiError, NotFound
from dra.kube.informers import Informers
from dra.kube.resources import CLAIMS, TEMPLATES
from dra.kube.workqueue import ItemBackoff, RetryPolicy, WorkQueue
from dra.model.claims import ResourceClaim
from dra.model.meta import Key, PartialObjectMetadata, Uid
from dra.model.pods import Pod
from dra.model.templates import ResourceClaimTemplate

WORKERS: Final = 32
"""Number of templates written at the same time: pods with many new templates come together, and wait."""

RETRY: Final = (0.2, 60.0)
"""Seconds, minimum and maximum, before a failed write is retried."""

RECHECK: Final = 1.0
"""Seconds until a template is decided about again of which the watch has not told what a write has found."""

REMAKE_INTERVAL: Final = 5.0
"""Minimum seconds between two deletions of a template of one name: card sizes may come and go."""

MAX_SLEEP: Final = 600.0
"""Maximum seconds until the wall clock is read again: it may jump."""

_log: Final = logging.getLogger(__name__)


class TemplateLoop(OptionalPart):
    """The loop that reconciles the templates of translated pods with the API server."""

    def __init__(  # noqa: PLR0913 - keyword-only: what is read of other parts, and what every loop needs
        self,
        client: Client,
        *,
        claim: Callable[[Key], ResourceClaim | None],
        pods_known: Callable[[], bool],
        cards: CardInformer,
        events: ClaimEvents,
        metrics: ControllerMetrics,
        clock: Clock,
        leadership: Leadership,
        templates_known: Callable[[], Awaitable[None]] | None,
    ) -> None:
        """Create the loop; ``claim`` finds claims by key, ``pods_known`` says whether all pods have been observed.

        In mode replace, where this controller generates claims, ``templates_known`` waits for the informer that feeds
        `template_changed` and `template_gone`; in mode alongside it is None, and the loop has an informer of its own.
        """
        self._client = client
        self._claim = claim
        self._pods_known = pods_known
        self._events = events
        self._clock = clock
        self._leadership = leadership
        self._templates_known = templates_known
        self._index = TemplateIndex()
        self._cards = cards
        cards.on_change(self.enqueue_dirty)
        self._decided_sizes: tuple[int, ...] = ()
        own = templates_of_requests(client, index=self._index, clock=clock, on_change=self.enqueue_dirty)
        self._informers = Informers(*([own] if templates_known is None else []))
        # No delay for batches: claim generation has one, and so finds the template of a pod that it has just seen.
        self._queue: WorkQueue[Key] = WorkQueue(clock)
        self._retry: RetryPolicy[Key] = RetryPolicy(
            _log,
            subject=lambda key: f"template {key[0]}/{key[1]}",
            bounds=RETRY,
            on_internal_error=metrics.failures.inc,
        )
        self._refusals: ItemBackoff[Key] = ItemBackoff()
        self._refused: dict[Key, Instant] = {}
        """Template → when its refused creation is repeated, however many pods name the template until then."""

        self._deleted: dict[Key, Instant] = {}
        self._told: dict[Uid, set[str]] = {}
        """The notes of Events on each pod: a pod changes, and is decided about, several times until it runs."""

        self._acting = False

    def pod_changed(self, pod: Pod, /) -> None:
        """Record a pod from a list or a watch; `enqueue_dirty` ends a batch."""
        self._index.observe_pod(pod)

    def pod_gone(self, pod: Pod, /) -> None:
        """Forget a deleted pod."""
        self._index.forget_pod(pod.metadata.uid)
        self._told.pop(pod.metadata.uid, None)

    def template_changed(self, template: ResourceClaimTemplate, /) -> None:
        """Record a template from a list or a watch."""
        self._index.observe_template(template)

    def template_gone(self, template: ResourceClaimTemplate, /) -> None:
        """Forget a deleted template."""
        self._index.forget_template(template.metadata.key, template.metadata.uid)

    async def watch(self) -> None:
        """Watch what no other part watches, until cancelled."""
        await self._informers.run()

    def not_ready_reasons(self) -> list[str]:
        """Return the staleness of the informers; empty when ready."""
        return self._informers.not_ready_reasons()

    def enqueue_dirty(self) -> None:
        """Enqueue the templates to decide about, if this replica acts; a standby decides about all when it begins."""
        if not self._acting:
            self._index.dirty.clear()
            return
        sizes = self._cards.sizes.by_frequency()
        if sizes != self._decided_sizes:
            self._decided_sizes = sizes
            self._index.mark_all_dirty()
        while self._index.dirty:
            self._queue.add(self._index.dirty.pop())

    async def run(self) -> None:
        """Reconcile templates until cancelled, once all templates and card sizes are known."""
        await self._cards.wait_for_sync()
        await self._informers.wait_for_sync()
        if self._templates_known is not None:
            await self._templates_known()
        self._acting = True
        self._index.mark_all_dirty()
        self.enqueue_dirty()
        await self._queue.run(self._reconcile_or_recheck, workers=WORKERS, retry=self._retry)

    async def _reconcile_or_recheck(self, key: Key) -> Instant:
        """Reconcile one template; return when it is due again."""
        try:
            return await self.reconcile(key)
        except NotFound:
            return self._clock.now() + RECHECK

    async def reconcile(self, key: Key) -> Instant:
        """Execute the plan for one template; return when to look again, and raise ApiError."""
        view = self._index.view(key, claim=self._claim, card_sizes=self._decided_sizes, pods_known=self._pods_known())
        plan = template_plan.decide(view, now=self._clock.wall(), generates_claims=self._templates_known is not None)
        due = self._due(plan)
        if not any(isinstance(each, CreateTemplate) for each in plan.actions):
            self._refusals.forget(key)
            self._refused.pop(key, None)
        elif self._clock.now() < self._refused.get(key, -NEVER):
            self._index.mark_dirty(key)  # its pods are told with the next attempt
            return min(due, self._refused[key])
        try:
            for action in plan.actions:
                due = min(due, await self._apply(action, view))
        except ApiError:
            if not any(isinstance(each, CreateTemplate) for each in plan.actions):
                self._index.mark_dirty(key)  # the pods that the plan was about are looked at again
            raise
        self._report(plan.reasons)
        return due

    def _report(self, reasons: Iterable[Reason]) -> None:
        """Report each reason once on each pod that still exists."""
        for reason in reasons:
            if not self._index.has_pod(reason.subject.uid):
                continue
            told = self._told.setdefault(reason.subject.uid, set())
            if reason.note not in told:
                told.add(reason.note)
                self._events.record(reason)

    def _due(self, plan: TemplatePlan) -> Instant:
        if plan.wake_at is None:
            return NEVER
        seconds = (plan.wake_at - self._clock.wall()).total_seconds()
        return self._clock.now() + min(max(seconds, 0.0) + 0.05, MAX_SLEEP)

    async def _apply(self, action: TemplateAction, view: TemplateView) -> Instant:
        """Execute an action; return when to look again."""
        match action:
            case CreateTemplate():
                return await self._create(action, view)
            case DeleteTemplate():
                return await self._delete(action)
            case MarkTemplate():
                await self._mark(action)
            case DeleteClaim():
                await self._delete_claim(action)
        return NEVER

    async def _create(self, action: CreateTemplate, view: TemplateView) -> Instant:
        namespace, name = action.key
        try:
            await self._client.create(
                TEMPLATES,
                action.manifest,
                model=PartialObjectMetadata,
                namespace=namespace,
                timeout_seconds=self._write_timeout(),
            )
        except AlreadyExists:
            return self._clock.now() + RECHECK
        except ApiError as error:
            self._refused[action.key] = self._clock.now() + self._refusals.next_delay(action.key, RETRY)
            self._report(template_plan.creation_failed_reasons(view, error.message))
            raise
        _log.info("template %s/%s: created for %d pods", namespace, name, len(view.pods))
        return NEVER

    async def _delete(self, action: DeleteTemplate) -> Instant:
        now = self._clock.now()
        until = self._deleted.get(action.key, -NEVER) + REMAKE_INTERVAL
        if now < until:
            self._index.mark_dirty(action.key)
            return until
        await self._client.delete(
            TEMPLATES,
            action.key,
            uid=action.uid,
            resource_version=action.resource_version,
            timeout_seconds=self._write_timeout(),
        )
        self._deleted = {key: when for key, when in self._deleted.items() if now - when < REMAKE_INTERVAL}
        self._deleted[action.key] = now
        _log.info("template %s/%s: deleted", *action.key)
        return NEVER

    async def _mark(self, action: MarkTemplate) -> None:
        since = rfc3339(action.unused_since) if action.unused_since is not None else None
        await self._client.merge_patch(
            TEMPLATES,
            action.key,
            {"metadata": {"annotations": {well_known.ANNOTATION_UNUSED_SINCE: since}}},
            model=PartialObjectMetadata,
            resource_version=action.resource_version,
            uid=action.uid,
            timeout_seconds=self._write_timeout(),
        )

    async def _delete_claim(self, action: DeleteClaim) -> None:
        try:
            await self._client.delete(
                CLAIMS,
                action.key,
                uid=action.uid,
                resource_version=action.resource_version,
                timeout_seconds=self._write_timeout(),
            )
        except NotFound:
            return
        self._events.record(action.reason)

    def _write_timeout(self) -> float:
        return self._leadership.write_timeout(WRITE_TIMEOUT, now=self._clock.now())
