"""Tells users of requests in Koordinator's form that have no effect (`dra.engine.translation.notices`).

Such pods have no claims, so the informer of the claim loop does not store them. The API server selects by the QoS
class: pods of the classes that are never bound to CPUs, most pods of a cluster, are not sent at all.
"""

from datetime import datetime, timedelta
from typing import Final

from controller.claim_events import ClaimEvents
from controller.enabled_namespaces import EnabledNamespaces
from controller.optional_part import OptionalPart
from dra.engine.translation.notices import UNBOUND_CLASSES, notices
from dra.kube.client import Client, Selection
from dra.kube.clock import Clock
from dra.kube.event_handlers import EventHandlerFuncs, ignore
from dra.kube.informers import Informers
from dra.kube.reflector import Reflector
from dra.kube.resources import PODS
from dra.model.koordinator_classes import LABEL_QOS_CLASS
from dra.model.meta import PartialObjectMetadata, Uid

SELECTION: Final = Selection(labels=f"{LABEL_QOS_CLASS},{LABEL_QOS_CLASS} notin ({','.join(UNBOUND_CLASSES)})")

MAX_AGE: Final = timedelta(hours=1)
"""Maximum age of a pod of which a leader tells: API servers keep Events for an hour."""


class RequestNotices(OptionalPart):
    """The loop that records an Event on each pod with a request that has no effect."""

    def __init__(self, client: Client, *, namespaces: EnabledNamespaces, events: ClaimEvents, clock: Clock) -> None:
        self._namespaces = namespaces
        self._events = events
        self._clock = clock
        self._acting = False
        self._told: set[Uid] = set()
        self._pods = Reflector(
            client,
            PODS,
            PartialObjectMetadata,
            handler=EventHandlerFuncs[PartialObjectMetadata](
                on_upsert=self._observe,
                on_delete=lambda pod: self._told.discard(pod.metadata.uid),
                on_restore=ignore,
            ),
            selection=SELECTION,
            keep=lambda pod: any(notices(pod.metadata)),
            clock=clock,
        )
        self._informers = Informers(self._pods)
        namespaces.on_enable(self._namespace_enabled)

    async def watch(self) -> None:
        """Watch pods until cancelled."""
        await self._informers.run()

    async def run(self) -> None:
        """Tell of the pods that exist; from then on, of each pod that is created."""
        await self._namespaces.wait_for_sync()
        await self._informers.wait_for_sync()
        self._acting = True
        for pod in self._pods.objects.values():
            self._observe(pod)

    def not_ready_reasons(self) -> list[str]:
        """Return the staleness of the pods; empty when ready."""
        return self._informers.not_ready_reasons()

    def _namespace_enabled(self, name: str) -> None:
        for pod in self._pods.objects.values():
            if pod.metadata.namespace == name:
                self._observe(pod)

    def _observe(self, pod: PartialObjectMetadata) -> None:
        meta = pod.metadata
        if not self._acting or meta.namespace not in self._namespaces or meta.uid in self._told:
            return
        self._told.add(meta.uid)
        created = meta.creation_timestamp
        if created and self._clock.wall() - datetime.fromisoformat(created) > MAX_AGE:
            return
        for reason in notices(meta):
            self._events.record(reason)
