"""The informers of the descheduler: jobs, Reservations, all pods, and the budgets of pods."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final

from controller.optional_informer import OptionalInformer
from dra.api.migration.well_known import (
    ANNOTATION_EVICT,
    ANNOTATION_NOT_PROTECTED,
    ANNOTATION_POD_DELETION_COST,
    ANNOTATION_PROTECTED_OPERATIONS,
    ANNOTATION_RELATED_BUDGET,
    ANNOTATION_SOFT_EVICTION,
    EVICTION_COST,
)
from dra.api.reservations.well_known import MAX_ANNOTATION_LENGTH, RETAINED_POD_ANNOTATIONS
from dra.engine.migration.evictability import STATIC_POD_ANNOTATIONS
from dra.engine.migration.job_cache import JobCache
from dra.engine.migration.view import MigrationPod
from dra.kube.backoff import Backoff
from dra.kube.client import Client
from dra.kube.clock import Clock
from dra.kube.errors import ApiError
from dra.kube.event_handlers import EventHandlerFuncs
from dra.kube.informers import Informers
from dra.kube.reflector import Reflector
from dra.kube.resources import (
    POD_DISRUPTION_BUDGETS,
    POD_MIGRATION_JOBS,
    POD_UNAVAILABLE_BUDGETS,
    PODS,
    RESERVATIONS,
)
from dra.model.annotations import trim_annotations
from dra.model.meta import UnstructuredObject
from dra.model.preemption import PodDisruptionBudget, PodUnavailableBudget
from dra.model.references import GroupResource

_RETAINED: Final = RETAINED_POD_ANNOTATIONS | {
    *STATIC_POD_ANNOTATIONS,
    ANNOTATION_EVICT,
    ANNOTATION_NOT_PROTECTED,
    ANNOTATION_POD_DELETION_COST,
    ANNOTATION_PROTECTED_OPERATIONS,
    ANNOTATION_RELATED_BUDGET,
    ANNOTATION_SOFT_EVICTION,
    EVICTION_COST,
}
"""Annotations of pods that are kept in memory even if a pod has many."""

_log: Final = logging.getLogger(__name__)


class MigrationInformers(Informers):
    """Reflectors that feed the cache of migrations; `run` raises ServerRestoredError."""

    def __init__(self, client: Client, *, cache: JobCache, clock: Clock, on_change: Callable[[], None]) -> None:
        """Create the informers; `on_change` is called after each batch of events."""
        self._client = client
        self._cache = cache
        self._on_change = on_change
        self._jobs = Reflector(
            client,
            POD_MIGRATION_JOBS,
            UnstructuredObject,
            handler=EventHandlerFuncs(
                on_upsert=cache.watch_job,
                on_delete=lambda found: cache.forget_job(found.metadata.uid),
                on_sync=lambda listed: cache.jobs_listed(listed.resource_version),
                on_batch_end=on_change,
            ),
            clock=clock,
        )
        self._reservations = Reflector(
            client,
            RESERVATIONS,
            UnstructuredObject,
            handler=EventHandlerFuncs(
                on_upsert=cache.watch_reservation,
                on_delete=lambda found: cache.forget_reservation(found.metadata.name, found.metadata.uid),
                on_sync=lambda listed: cache.reservations_listed(listed.resource_version),
                on_batch_end=on_change,
            ),
            clock=clock,
        )
        super().__init__(
            self._jobs,
            self._reservations,
            Reflector(
                client,
                PODS,
                MigrationPod,
                handler=EventHandlerFuncs(
                    on_upsert=self._observe_pod, on_delete=cache.forget_pod, on_batch_end=on_change
                ),
                clock=clock,
            ),
            Reflector(
                client,
                POD_DISRUPTION_BUDGETS,
                PodDisruptionBudget,
                handler=EventHandlerFuncs(
                    on_upsert=cache.arbitration.observe_disruption_budget,
                    on_delete=cache.arbitration.forget_disruption_budget,
                    on_batch_end=on_change,
                ),
                clock=clock,
            ),
        )
        self._unavailable_budgets = OptionalInformer(
            client,
            kind=GroupResource(resource=POD_UNAVAILABLE_BUDGETS.plural, group=POD_UNAVAILABLE_BUDGETS.group),
            model=PodUnavailableBudget,
            handler=EventHandlerFuncs(
                on_upsert=cache.arbitration.observe_unavailable_budget,
                on_delete=cache.arbitration.forget_unavailable_budget,
                on_batch_end=on_change,
            ),
            on_settled=self._budgets_settled,
            on_gone=self._budgets_gone,
            clock=clock,
        )
        self._settled = asyncio.Event()
        self._unsettled_reason = ""
        """Why it is unknown whether the cluster has PodUnavailableBudgets, or which; empty if nothing has failed."""

    def _budgets_gone(self, budgets: Iterable[PodUnavailableBudget]) -> None:
        for each in budgets:
            self._cache.arbitration.forget_unavailable_budget(each)
        self._on_change()

    def _budgets_settled(self, unknown: str) -> None:
        self._unsettled_reason = unknown
        if not unknown:
            self._settled.set()

    def not_ready_reasons(self) -> list[str]:
        """Return what is not up to date: PodUnavailableBudgets only until the first list, which migrations wait for."""
        missing = []
        if not self._settled.is_set():
            reason = f" ({self._unsettled_reason})" if self._unsettled_reason else ""
            missing.append(f"{POD_UNAVAILABLE_BUDGETS.label}: not listed yet{reason}")
        return [*super().not_ready_reasons(), *missing]

    def _observe_pod(self, pod: MigrationPod) -> None:
        trim_annotations(pod.metadata, keep=_RETAINED, value_max_characters=MAX_ANNOTATION_LENGTH)
        self._cache.observe_pod(pod)

    async def run(self) -> None:
        """Watch all kinds until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(super().run(), name="watches")
            group.create_task(self._unavailable_budgets.run(), name="unavailable budgets")

    async def wait_for_sync(self) -> None:
        """Wait until everything is listed, and it is known whether the cluster has PodUnavailableBudgets."""
        await super().wait_for_sync()
        await self._settled.wait()

    async def catch_up(self) -> None:
        """List all jobs and Reservations into the cache: watches may be behind the writes of another process."""
        backoff = Backoff(base=0.2, cap=5.0)
        while True:
            try:
                for reflector, observe in (
                    (self._jobs, self._cache.observe_job),
                    (self._reservations, self._cache.observe_reservation),
                ):
                    async for page in self._client.list_pages(reflector.resource, UnstructuredObject):
                        for each in reflector.admit_page(page)[0]:
                            observe(each)
            except ApiError as error:
                _log.info("listing after the change of leader failed, retrying: %s", error)
                await asyncio.sleep(backoff.next())
            else:
                return
