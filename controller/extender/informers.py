"""The informers of the extender: nodes, reservations, disruption budgets, and all pods that have not finished."""

import asyncio
import logging
from typing import Final

from controller.extender.events import ExtenderEvents
from dra.engine.scheduling.scheduler_cache import SchedulerCache
from dra.kube.backoff import Backoff
from dra.kube.client import Client
from dra.kube.clock import Clock
from dra.kube.errors import ApiError
from dra.kube.event_handlers import EventHandlerFuncs
from dra.kube.informers import Informers
from dra.kube.reflector import Reflector
from dra.kube.resources import NODES, POD_DISRUPTION_BUDGETS, PODS, RESERVATIONS
from dra.kube.store import Synced
from dra.model.meta import UnstructuredObject
from dra.model.preemption import PodDisruptionBudget
from dra.model.scheduling import SchedulerNode, SchedulerPod

_log: Final = logging.getLogger(__name__)


def _is_unfinished(pod: SchedulerPod) -> bool:
    return not pod.terminal


class SchedulerInformers(Informers):
    """The reflectors that feed the scheduler cache; `run` raises ServerRestoredError.

    PodDisruptionBudgets are not waited for: they matter only where other victims than kube-scheduler's are chosen, and
    a process with the permissions of an older release may not list them.
    """

    def __init__(
        self,
        client: Client,
        *,
        cache: SchedulerCache,
        clock: Clock,
        events: ExtenderEvents,
    ) -> None:
        self._events = events
        self._client = client
        self._cache = cache
        self._reservations = Reflector(
            client,
            RESERVATIONS,
            UnstructuredObject,
            handler=EventHandlerFuncs(
                on_upsert=self._on_reservation,
                on_delete=self._on_reservation_deleted,
                on_sync=self._on_reservations_listed,
            ),
            clock=clock,
        )
        self._pods = Reflector(
            client,
            PODS,
            SchedulerPod,
            handler=EventHandlerFuncs(on_upsert=self._on_pod, on_delete=cache.forget_pod, on_sync=self._on_pods_listed),
            keep=_is_unfinished,
            clock=clock,
        )
        nodes = Reflector(
            client,
            NODES,
            SchedulerNode,
            handler=EventHandlerFuncs(
                on_upsert=self._on_node, on_delete=lambda node: cache.forget_node(node.metadata.name)
            ),
            clock=clock,
        )
        self._budgets = Reflector(
            client,
            POD_DISRUPTION_BUDGETS,
            PodDisruptionBudget,
            handler=EventHandlerFuncs(
                on_upsert=cache.observe_budget, on_delete=cache.forget_budget, on_sync=lambda _: cache.budgets_listed()
            ),
            clock=clock,
        )
        super().__init__(nodes, self._reservations, self._pods)

    async def run(self) -> None:
        """Watch all kinds until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(super().run(), name="watches")
            group.create_task(self._budgets.run(), name="reflect budgets")

    async def catch_up(self) -> None:
        """List everything into the cache: informers may be behind the latest writes of another process."""
        backoff = Backoff(base=0.2, cap=5.0)
        while True:
            try:
                await self._list()
            except ApiError as error:
                _log.info("listing after the change of leader failed, retrying: %s", error)
                await asyncio.sleep(backoff.next())
            else:
                return

    async def _list(self) -> None:
        async for page in self._client.list_pages(RESERVATIONS, UnstructuredObject):
            for each in self._reservations.admit_page(page)[0]:
                self._cache.observe_reservation(each)
        async for pods in self._client.list_pages(PODS, SchedulerPod):
            for pod in self._pods.admit_page(pods)[0]:
                self._cache.observe_read_pod(pod, is_watched=pod.metadata.key in self._pods.objects)

    def _on_node(self, node: SchedulerNode) -> None:
        if error := self._cache.observe_node(node):
            self._events.node_annotation_unreadable(node, error)

    def _on_reservation(self, found: UnstructuredObject) -> None:
        if self._cache.observe_reservation(found):
            self._cache.unschedulable.move_all_to_due()
        if (error := self._cache.reservation_errors.get(found.metadata.uid)) is not None:
            _log.warning("%s", error)

    def _on_reservation_deleted(self, found: UnstructuredObject) -> None:
        self._cache.forget_reservation(found.metadata.uid)
        self._cache.unschedulable.move_all_to_due()

    def _on_reservations_listed(self, synced: Synced) -> None:
        listed = {each.metadata.uid for each in self._reservations.objects.values()}
        if self._cache.replace_reservations(listed, synced.resource_version):
            self._cache.unschedulable.move_all_to_due()

    def _on_pod(self, pod: SchedulerPod) -> None:
        if shortage := self._cache.observe_pod(pod):
            self._events.node_overcommitted(pod, shortage)

    def _on_pods_listed(self, synced: Synced) -> None:
        listed = {each.metadata.uid for each in self._pods.objects.values()}
        self._cache.replace_pods(listed, synced.resource_version)
