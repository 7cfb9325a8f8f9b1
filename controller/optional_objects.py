"""The objects of a kind that not every API server serves, with the subscribers and the readiness of an informer."""

import asyncio
from collections.abc import Callable, Iterable
from typing import TypeVar

from controller.optional_informer import OptionalInformer
from dra.kube.client import Client
from dra.kube.clock import Clock
from dra.kube.codec import ApiObject
from dra.kube.event_handlers import EventHandlerFuncs
from dra.kube.resources import Resource
from dra.kube.shared_informers import SharedInformers
from dra.kube.store import Change, Deleted
from dra.model.references import GroupResource

T = TypeVar("T", bound=ApiObject)


class OptionalObjects(OptionalInformer[T]):
    """The informer of a kind that may be absent, beside the informers of the kinds that are not."""

    def __init__(
        self, client: Client, informers: SharedInformers, *, resource: Resource, model: type[T], clock: Clock
    ) -> None:
        """Create the informer; the listeners of ``informers`` are called after each batch of changes."""
        self._resource = resource
        self._informers = informers
        self._subscribers: list[EventHandlerFuncs[T]] = []
        super().__init__(
            client,
            kind=GroupResource(resource=resource.plural, group=resource.group),
            model=model,
            handler=self._handle,
            on_settled=self._settle,
            on_gone=self._forget,
            clock=clock,
        )
        self._settled = asyncio.Event()
        self._unsettled_reason = ""
        """Why it is unknown whether the kind is served, or which objects exist; empty if nothing has failed."""

    def subscribe(self, observe: Callable[[T], object], forget: Callable[[T], object]) -> None:
        """Call ``observe`` with objects that are new or have changed, ``forget`` with objects that are gone."""
        self._subscribers.append(EventHandlerFuncs(on_upsert=observe, on_delete=forget))

    async def wait_for_sync(self) -> None:
        """Wait until it is known which objects there are."""
        await self._settled.wait()

    def staleness(self) -> str:
        """Return why the objects were not listed yet; empty once they were, or the kind is known not to be served."""
        if self._settled.is_set():
            return ""
        reason = f" ({self._unsettled_reason})" if self._unsettled_reason else ""
        return f"{self._resource.label}: not listed yet{reason}"

    def _handle(self, changes: list[Change[T]]) -> None:
        for subscriber in self._subscribers:
            subscriber(changes)
        self._informers.notify()

    def _forget(self, gone: Iterable[T]) -> None:
        self._handle([Deleted(obj=obj, certain=True) for obj in gone])

    def _settle(self, unknown: str) -> None:
        self._unsettled_reason = unknown
        if not unknown:
            self._settled.set()
