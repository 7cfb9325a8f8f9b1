"""What the extender watches: nodes, reservations, and all pods that have not finished."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

import msgspec

from controller.extender.picture import Picture
from controller.extender.reporting import Reporting
from dra.engine.reservations.holdings import Holding
from dra.kube.backoff import Backoff
from dra.kube.client import Client
from dra.kube.clock import Clock
from dra.kube.errors import ApiError
from dra.kube.reflector import Reflector
from dra.kube.reflectors import Reflectors
from dra.kube.resources import NODES, PODS, RESERVATIONS
from dra.kube.store import Change, Deleted, Rewound, RewoundError, Synced, Upserted
from dra.model.meta import DynamicObject
from dra.model.placement import Host, PlacedPod

_log: Final = logging.getLogger(__name__)


def _unfinished(pod: PlacedPod) -> bool:
    return not pod.terminal


def _eases(before: Holding | None, after: Holding | None) -> bool:
    """Whether somebody may fit now who did not before. A pod that has entered is no reason to ask all others again."""
    if before is None or after is None:
        return before is not after
    if before.listed - after.listed and after.available:
        return True
    same = {"listed": after.listed, "predecessors": after.predecessors}
    return msgspec.structs.replace(before, **same) != after


class Watching(Reflectors):
    """Three reflectors that feed the picture; `run` raises RewoundError."""

    def __init__(
        self, client: Client, *, picture: Picture, clock: Clock, freed: Callable[[], None], reporting: Reporting
    ) -> None:
        """``freed`` is called when a reservation lets go of something, or can be used from now on."""
        self._reporting = reporting
        self._known = False
        """Whether pods are told one by one: in a first list those that did not ask are those before our time."""
        self._client = client
        self._picture = picture
        self._freed = freed
        self._reservations = Reflector(client, RESERVATIONS, DynamicObject, sink=self._take_reservations, clock=clock)
        self._pods = Reflector(client, PODS, PlacedPod, sink=self._take_pods, keep=_unfinished, clock=clock)
        nodes = Reflector(client, NODES, Host, sink=self._take_nodes, clock=clock)
        super().__init__(nodes, self._reservations, self._pods)

    async def catch_up(self) -> None:
        """Take in all that is there now: watches may be behind what somebody else has just written."""
        backoff = Backoff(base=0.2, cap=5.0)
        while True:
            try:
                await self._list()
            except ApiError as error:
                _log.info("not caught up yet: %s", error)
                await asyncio.sleep(backoff.next())
            else:
                return

    async def _list(self) -> None:
        async for page in self._client.list_pages(RESERVATIONS, DynamicObject):
            for each in page.items:
                self._picture.observe_reservation(each)
        async for pods in self._client.list_pages(PODS, PlacedPod):
            for pod in pods.items:
                if pod.spec.node_name:
                    self._picture.observe_pod(pod)
                    if pod.metadata.key not in self._pods.objects:
                        self._picture.learn_pod(pod)

    def _take_nodes(self, changes: list[Change[Host]]) -> None:
        for change in changes:
            match change:
                case Upserted(obj=node):
                    before = self._picture.faults.get(node.metadata.name)
                    self._picture.observe_node(node)
                    fault = self._picture.faults.get(node.metadata.name)
                    if fault is not None and fault != before:
                        self._reporting.unreadable(node, fault)
                case Deleted(obj=node):
                    self._picture.forget_node(node.metadata.name)
                case Rewound():
                    raise RewoundError(change)
                case _:
                    pass

    def _take_reservations(self, changes: list[Change[DynamicObject]]) -> None:
        for change in changes:
            match change:
                case Upserted(obj=found):
                    uid = found.metadata.uid
                    before = self._picture.books.holding(uid)
                    self._picture.observe_reservation(found)
                    after = self._picture.books.holding(uid)
                    if _eases(before, after):
                        self._freed()
                case Deleted(obj=found):
                    self._picture.forget_reservation(found.metadata.uid)
                    self._freed()
                case Synced(resource_version=version):
                    shown = {each.metadata.uid for each in self._reservations.objects.values()}
                    if self._picture.listed_reservations(shown, version):
                        self._freed()
                case Rewound():
                    raise RewoundError(change)

    def _take_pods(self, changes: list[Change[PlacedPod]]) -> None:
        for change in changes:
            match change:
                case Upserted(obj=pod):
                    asked = not pod.spec.node_name or self._picture.books.seat(pod.metadata.uid) is not None
                    self._picture.observe_pod(pod)
                    room = self._picture.books.room(pod.spec.node_name)
                    if self._known and not asked and room is not None:
                        self._reporting.overfull(pod, room)
                case Deleted(obj=pod):
                    self._picture.forget_pod(pod)
                case Synced(resource_version=version):
                    self._known = True
                    shown = {each.metadata.uid for each in self._pods.objects.values()}
                    self._picture.listed_pods(shown, version)
                case Rewound():
                    raise RewoundError(change)
