"""The part of the cluster that the descheduler keeps in memory: jobs, Reservations, all pods, and their budgets."""

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
from dra.kube.resources import POD_DISRUPTION_BUDGETS, POD_MIGRATION_JOBS, POD_UNAVAILABLE_BUDGETS, PODS, RESERVATIONS
from dra.kube.shared_informers import SharedInformers
from dra.kube.store import Change, Deleted
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


class MigrationInformers(SharedInformers):
    """The informers of the descheduler."""

    def __init__(self, client: Client, *, clock: Clock) -> None:
        super().__init__(client, clock=clock)
        self.jobs = self.informer(POD_MIGRATION_JOBS, UnstructuredObject)
        self.reservations = self.informer(RESERVATIONS, UnstructuredObject)
        self.pods = self.informer(PODS, MigrationPod, prepare=_trim)
        self.disruption_budgets = self.informer(POD_DISRUPTION_BUDGETS, PodDisruptionBudget)
        self.unavailable_budgets = UnavailableBudgetInformer(client, self, clock=clock)

    async def run(self) -> None:
        """Watch all kinds until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(super().run(), name="watches")
            group.create_task(self.unavailable_budgets.run(), name="unavailable budgets")

    async def wait_for_sync(self) -> None:
        """Wait until everything is listed, and it is known whether the cluster has PodUnavailableBudgets."""
        await super().wait_for_sync()
        await self.unavailable_budgets.wait_for_sync()

    def not_ready_reasons(self) -> list[str]:
        """Return what is not up to date: PodUnavailableBudgets only until the first list, which migrations wait for."""
        return [*super().not_ready_reasons(), *filter(None, (self.unavailable_budgets.staleness(),))]

    async def catch_up(self, cache: JobCache) -> None:
        """List all jobs and Reservations into the cache: watches may be behind the writes of another process."""
        backoff = Backoff(base=0.2, cap=5.0)
        while True:
            try:
                for informer, observe in (
                    (self.jobs, cache.observe_job),
                    (self.reservations, cache.observe_reservation),
                ):
                    reflector = informer.reflector
                    async for page in self.client.list_pages(reflector.resource, UnstructuredObject):
                        for obj in reflector.admit_page(page)[0]:
                            observe(obj)
            except ApiError as error:
                _log.info("listing after the change of leader failed, retrying: %s", error)
                await asyncio.sleep(backoff.next())
            else:
                return


class UnavailableBudgetInformer(OptionalInformer[PodUnavailableBudget]):
    """The informer of PodUnavailableBudgets, which exist only in clusters with OpenKruise."""

    def __init__(self, client: Client, informers: SharedInformers, *, clock: Clock) -> None:
        """Create the informer; the listeners of ``informers`` are called after each batch of changes."""
        self._informers = informers
        self._subscribers: list[EventHandlerFuncs[PodUnavailableBudget]] = []
        super().__init__(
            client,
            kind=GroupResource(resource=POD_UNAVAILABLE_BUDGETS.plural, group=POD_UNAVAILABLE_BUDGETS.group),
            model=PodUnavailableBudget,
            handler=self._handle,
            on_settled=self._settle,
            on_gone=self._forget,
            clock=clock,
        )
        self._settled = asyncio.Event()
        self._unsettled_reason = ""
        """Why it is unknown whether the cluster has PodUnavailableBudgets, or which; empty if nothing has failed."""

    def subscribe(
        self, observe: Callable[[PodUnavailableBudget], object], forget: Callable[[PodUnavailableBudget], object]
    ) -> None:
        """Call ``observe`` with budgets that are new or have changed, ``forget`` with budgets that are gone."""
        self._subscribers.append(EventHandlerFuncs(on_upsert=observe, on_delete=forget))

    async def wait_for_sync(self) -> None:
        """Wait until it is known which budgets there are."""
        await self._settled.wait()

    def staleness(self) -> str:
        """Return why the budgets were not listed yet; empty once they were, or the kind is known not to be served."""
        if self._settled.is_set():
            return ""
        reason = f" ({self._unsettled_reason})" if self._unsettled_reason else ""
        return f"{POD_UNAVAILABLE_BUDGETS.label}: not listed yet{reason}"

    def _handle(self, changes: list[Change[PodUnavailableBudget]]) -> None:
        for subscriber in self._subscribers:
            subscriber(changes)
        self._informers.notify()

    def _forget(self, budgets: Iterable[PodUnavailableBudget]) -> None:
        self._handle([Deleted(obj=budget, certain=True) for budget in budgets])

    def _settle(self, unknown: str) -> None:
        self._unsettled_reason = unknown
        if not unknown:
            self._settled.set()


def _trim(pod: MigrationPod) -> None:
    trim_annotations(pod.metadata, keep=_RETAINED, value_max_characters=MAX_ANNOTATION_LENGTH)
