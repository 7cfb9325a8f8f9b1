"""The event handlers that feed the scheduler cache: nodes, Reservations, pods, and disruption budgets."""

import asyncio
import logging
from typing import Final

from controller.extender.events import ExtenderEvents
from controller.extender.informers import ExtenderInformers
from controller.extender.metrics import ExtenderMetrics
from controller.runtime import Runtime
from dra.engine.scheduling.scheduler_cache import SchedulerCache
from dra.kube.backoff import Backoff
from dra.kube.errors import ApiError
from dra.kube.resources import PODS, RESERVATIONS
from dra.kube.store import Synced
from dra.model.meta import UnstructuredObject
from dra.model.scheduling import SchedulerNode, SchedulerPod

_log: Final = logging.getLogger(__name__)


class SchedulerEventHandlers:
    """Subscribes the scheduler cache to shared informers, and reports what its decisions cannot count on."""

    def __init__(
        self, runtime: Runtime[ExtenderMetrics], informers: ExtenderInformers, *, cache: SchedulerCache
    ) -> None:
        self._client = runtime.client
        self._informers = informers
        self._cache = cache
        self._events = ExtenderEvents(runtime.recorder)
        informers.nodes.subscribe(self._observe_node, self._forget_node)
        informers.reservations.subscribe(
            self._observe_reservation, self._forget_reservation, listed=self._reservations_listed
        )
        informers.pods.subscribe(self._observe_pod, cache.forget_pod, listed=self._pods_listed)
        informers.quotas.subscribe(cache.observe_quota, cache.forget_quota)
        informers.budgets.subscribe(cache.observe_budget, cache.forget_budget, listed=self._budgets_listed)

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
        reservations, pods = self._informers.reservations.reflector, self._informers.pods.reflector
        async for reservation_page in self._client.list_pages(RESERVATIONS, UnstructuredObject):
            for reservation in reservations.admit_page(reservation_page)[0]:
                self._cache.observe_reservation(reservation)
        async for pod_page in self._client.list_pages(PODS, SchedulerPod):
            for pod in pods.admit_page(pod_page)[0]:
                self._cache.observe_read_pod(pod, is_watched=pod.metadata.key in pods.objects)

    def _observe_node(self, node: SchedulerNode) -> None:
        report = self._cache.observe_node(node)
        if report.error:
            self._events.node_annotation_unreadable(node, report.error)
        if report.shortage:
            self._events.node_shrunk(node, report.shortage)

    def _forget_node(self, node: SchedulerNode) -> None:
        self._cache.forget_node(node.metadata.name)

    def _observe_reservation(self, reservation: UnstructuredObject) -> None:
        if self._cache.observe_reservation(reservation):
            self._cache.unschedulable.move_all_to_due()
        if error := self._cache.reservation_errors.get(reservation.metadata.uid):
            _log.warning("%s", error)

    def _forget_reservation(self, reservation: UnstructuredObject) -> None:
        self._cache.forget_reservation(reservation.metadata.uid)
        self._cache.unschedulable.move_all_to_due()

    def _reservations_listed(self, synced: Synced) -> None:
        listed = {reservation.metadata.uid for reservation in self._informers.reservations.objects.values()}
        if self._cache.replace_reservations(listed, synced.resource_version):
            self._cache.unschedulable.move_all_to_due()

    def _observe_pod(self, pod: SchedulerPod) -> None:
        if text := self._cache.observe_pod(pod):
            self._events.node_overcommitted(pod, text)

    def _pods_listed(self, synced: Synced) -> None:
        listed = {pod.metadata.uid for pod in self._informers.pods.objects.values()}
        self._cache.replace_pods(listed, synced.resource_version)

    def _budgets_listed(self, _: Synced) -> None:
        self._cache.budgets_listed()
