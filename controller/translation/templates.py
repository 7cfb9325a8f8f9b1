"""The loop that makes and deletes the templates that translated pods name.

The watches report what a plan has changed, and each report leads to a new decision. So nothing need be remembered of a
write that failed or whose outcome is unknown.
"""

from collections.abc import Iterable
from typing import Final

from controller.claim_events import ClaimEvents
from controller.informers import ControllerInformers
from controller.metrics import ControllerMetrics
from controller.reconciler import Reconciler, Settings
from controller.runtime import Runtime
from dra.api.koordinator import well_known
from dra.api.parameters.cpu_policies import CpuBindPolicy
from dra.engine.claims.reasons import Reason
from dra.engine.instants import Instant, Moment
from dra.engine.translation.template_index import TemplateIndex, TemplateView
from dra.engine.translation.template_plan import (
    CreateTemplate,
    DeleteClaim,
    DeleteTemplate,
    MarkTemplate,
    TemplateAction,
    creation_failed_reasons,
    decide,
)
from dra.kube.clock import rfc3339
from dra.kube.errors import AlreadyExists, ApiError, NotFound
from dra.kube.event_handlers import ignore
from dra.kube.resources import CLAIMS, TEMPLATES
from dra.model.meta import Key, PartialObjectMetadata

RECHECK: Final = (1.0, 60.0)
"""Seconds, minimum and maximum, until the next decision about a template after a write met a state that the watch has
not reported yet."""


class Templates(Reconciler[Key]):
    """The loop that reconciles the templates of translated pods with the API server."""

    settings = Settings(
        name="template",
        workers=32,  # pods with many new templates come together, and wait
        retry=(0.2, 60.0),
        retry_after={AlreadyExists: RECHECK, NotFound: RECHECK},
        batch_delay=0.0,  # claim generation has one, and so finds the template of a pod that it has just seen
    )
    cache: TemplateIndex
    _runtime: Runtime[ControllerMetrics]

    def __init__(
        self,
        runtime: Runtime[ControllerMetrics],
        informers: ControllerInformers,
        *,
        events: ClaimEvents,
        generates_claims: bool,
        default_policy: CpuBindPolicy = CpuBindPolicy.FULL_PCPUS,
    ) -> None:
        """Create the loop; ``generates_claims``: whether this controller generates claims (mode replace)."""
        cache = TemplateIndex(default_policy=default_policy)
        super().__init__(runtime, informers, cache, needs=(informers.card_slices, informers.templates))
        self._informers = informers
        self._events = events
        self._generates_claims = generates_claims
        informers.claims.subscribe(cache.observe_claim)
        informers.pods.subscribe(cache.observe_pod, cache.forget_pod)
        informers.templates.subscribe(cache.observe_template, cache.forget_template, restored=ignore)
        informers.card_slices.subscribe(cache.sizes.observe_slice, cache.sizes.forget_slice, restored=ignore)

    async def reconcile(self, key: Key, now: Moment) -> Instant:
        """Execute the plan for one template; return when to look again, and raise ApiError."""
        pods, claims = self._informers.pods, self._informers.claims
        view = self.cache.view(key, claims=claims.objects, pods_known=not pods.staleness())
        plan = decide(view, now=now, generates_claims=self._generates_claims)
        for action in plan.actions:
            await self._apply(action, view)
        self._report(plan.reasons)
        self.cache.carried_out(view, plan)
        return min(plan.wake_at, now.instant_of(plan.wake_at_wall))

    def _report(self, reasons: Iterable[Reason]) -> None:
        for reason in self.cache.newly_reported(reasons):
            self._events.record(reason)

    async def _apply(self, action: TemplateAction, view: TemplateView) -> None:
        match action:
            case CreateTemplate():
                await self._create(action, view)
            case DeleteTemplate():
                await self._delete(action)
            case MarkTemplate():
                await self._mark(action)
            case DeleteClaim():
                await self._delete_claim(action)

    async def _create(self, action: CreateTemplate, view: TemplateView) -> None:
        namespace, name = action.key
        try:
            await self._runtime.client.create(
                TEMPLATES,
                action.manifest,
                model=PartialObjectMetadata,
                namespace=namespace,
                timeout_seconds=self._runtime.write_timeout(),
            )
        except AlreadyExists:
            raise
        except ApiError as error:
            self.cache.creation_refused(view, now=self._runtime.instant())
            self._report(creation_failed_reasons(view, error.message))
            raise
        self._log.info("template %s/%s: created for %d pods", namespace, name, len(view.pods))

    async def _delete(self, action: DeleteTemplate) -> None:
        await self._runtime.client.delete(
            TEMPLATES,
            action.key,
            uid=action.uid,
            resource_version=action.resource_version,
            timeout_seconds=self._runtime.write_timeout(),
        )
        self.cache.template_deleted(action.key, now=self._runtime.instant())
        self._log.info("template %s/%s: deleted", *action.key)

    async def _mark(self, action: MarkTemplate) -> None:
        since = rfc3339(action.unused_since) if action.unused_since is not None else None
        await self._runtime.client.merge_patch(
            TEMPLATES,
            action.key,
            {"metadata": {"annotations": {well_known.ANNOTATION_UNUSED_SINCE: since}}},
            model=PartialObjectMetadata,
            resource_version=action.resource_version,
            uid=action.uid,
            timeout_seconds=self._runtime.write_timeout(),
        )

    async def _delete_claim(self, action: DeleteClaim) -> None:
        try:
            await self._runtime.client.delete(
                CLAIMS,
                action.key,
                uid=action.uid,
                resource_version=action.resource_version,
                timeout_seconds=self._runtime.write_timeout(),
            )
        except NotFound:
            return
        self._events.record(action.reason)
