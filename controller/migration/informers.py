"""The part of the cluster that the descheduler keeps in memory: jobs, Reservations, all pods, and their budgets."""

import asyncio
import logging
from typing import ClassVar, Final

from controller.optional_objects import OptionalObjects
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
from dra.engine.migration.pod_memory import drop_unread
from dra.engine.migration.view import MigrationPod
from dra.kube.backoff import Backoff
from dra.kube.client import Client
from dra.kube.clock import Clock
from dra.kube.errors import ApiError
from dra.kube.resources import POD_DISRUPTION_BUDGETS, POD_MIGRATION_JOBS, POD_UNAVAILABLE_BUDGETS, PODS, RESERVATIONS
from dra.kube.shared_informers import SharedInformers
from dra.model.annotations import trim_annotations
from dra.model.meta import UnstructuredObject
from dra.model.preemption import PodDisruptionBudget, PodUnavailableBudget

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
    """The informers of migrations; `controller.descheduling.informers` has those of profiles as well."""

    pod_form: ClassVar[type[MigrationPod]] = MigrationPod

    def __init__(self, client: Client, *, clock: Clock) -> None:
        super().__init__(client, clock=clock)
        self.jobs = self.informer(POD_MIGRATION_JOBS, UnstructuredObject)
        self.reservations = self.informer(RESERVATIONS, UnstructuredObject)
        self.pods = self.informer(PODS, self.pod_form, prepare=self.prepare_pod)
        self.disruption_budgets = self.informer(POD_DISRUPTION_BUDGETS, PodDisruptionBudget)
        self.unavailable_budgets = OptionalObjects(
            client, self, resource=POD_UNAVAILABLE_BUDGETS, model=PodUnavailableBudget, clock=clock
        )
        """OpenKruise's budgets, which exist only in clusters with OpenKruise."""

    def prepare_pod(self, pod: MigrationPod) -> None:
        """Remove from a pod that was just decoded what nobody reads."""
        trim_pod_annotations(pod)
        drop_unread(pod)

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


def trim_pod_annotations(pod: MigrationPod) -> None:
    """Remove the annotations that nobody reads of a pod that has many."""
    trim_annotations(pod.metadata, keep=_RETAINED, value_max_characters=MAX_ANNOTATION_LENGTH)
