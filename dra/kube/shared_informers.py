"""Informers that several parts share, as client-go's SharedInformerFactory has them: each form is watched once.

A form is a kind with a struct and a selection: pods that use claims, with few fields, and pods of Reservations, with
their containers, are two. Nothing is watched that nobody has subscribed to. Each subscriber gets each batch, in the
order of the subscriptions.

Trap: all subscribers see the same object, which the informer stores as well. None may change it; what is to be trimmed
for all of them is trimmed in ``prepare``.
"""

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from dra.kube.client import EVERYTHING, Client, Selection
from dra.kube.clock import Clock
from dra.kube.codec import ApiObject
from dra.kube.event_handlers import EventHandlerFuncs, end_process, ignore
from dra.kube.informers import Informers, staleness
from dra.kube.reflector import Reflector
from dra.kube.resources import Resource
from dra.kube.store import Change, Deleted, ServerRestored, Synced, Upserted
from dra.model.meta import Key, Uid

T = TypeVar("T", bound=ApiObject)


class SharedInformer(Generic[T]):
    """The informer of one form of a kind; `SharedInformers.informer` creates it."""

    def __init__(
        self,
        group: "SharedInformers",
        resource: Resource,
        model: type[T],
        *,
        keep: Callable[[T], bool] | None,
        selection: Selection,
        prepare: Callable[[T], object] | None,
    ) -> None:
        self._group = group
        self._subscribers: list[EventHandlerFuncs[T]] = []
        self._prepare = prepare
        self.reflector: Reflector[T] = Reflector(
            group.client, resource, model, handler=self._handle, keep=keep, selection=selection, clock=group.clock
        )
        self.objects: Mapping[Key, T] = self.reflector.objects
        """The objects as last seen, by their keys."""

    def subscribe(
        self,
        observe: Callable[[T], object],
        forget: Callable[[T], object] = ignore,
        *,
        leave: Callable[[T], object] | None = None,
        listed: Callable[[Synced], object] = ignore,
        restored: Callable[[ServerRestored], object] = end_process,
    ) -> None:
        """Call ``observe`` with objects that are new or have changed, ``forget`` with objects that are gone.

        ``leave``, by default ``forget``, is called with objects that may exist and left the selection, ``listed`` at
        the end of each list. Raises RuntimeError after the first list, whose objects the subscriber would lack.
        """
        if self.reflector.last_contact is not None:
            raise RuntimeError(f"{self.reflector.resource.label}: subscribed after the first list")
        self._subscribers.append(
            EventHandlerFuncs(on_upsert=observe, on_delete=forget, on_leave=leave, on_sync=listed, on_restore=restored)
        )

    @property
    def is_subscribed(self) -> bool:
        """Whether any part needs the informer."""
        return bool(self._subscribers)

    async def wait_for_sync(self) -> None:
        """Wait until all objects are listed; raise RuntimeError if no part has subscribed, since they never are."""
        if not self._subscribers:
            raise RuntimeError(f"{self.reflector.resource.label}: nobody has subscribed")
        await self.reflector.synced.wait()

    def observe_response(self, obj: T) -> None:
        """Pass the response to a write or to a live read to all subscribers, which must ignore older versions."""
        self._handle([Upserted(obj)])

    def observe_missing(self, key: Key, uid: Uid) -> None:
        """Tell all subscribers that an object is certainly gone, as a response shows before the watch does."""
        obj = self.objects.get(key)
        if obj is not None and obj.metadata.uid == uid:
            self._handle([Deleted(obj, certain=True)])

    def staleness(self) -> str:
        """Return why the informer is not up to date; empty when it is."""
        return staleness(self.reflector)

    def _handle(self, changes: list[Change[T]]) -> None:
        if self._prepare is not None:
            for change in changes:
                if isinstance(change, Upserted):
                    self._prepare(change.obj)
        for subscriber in self._subscribers:
            subscriber(changes)
        self._group.notify()


class SharedInformers:
    """All informers of a process, in the order in which they are waited for."""

    def __init__(self, client: Client, *, clock: Clock) -> None:
        self.client = client
        self.clock = clock
        self._informers: list[SharedInformer[Any]] = []
        self._listeners: list[Callable[[], object]] = []

    def informer(
        self,
        resource: Resource,
        model: type[T],
        *,
        keep: Callable[[T], bool] | None = None,
        selection: Selection = EVERYTHING,
        prepare: Callable[[T], object] | None = None,
    ) -> SharedInformer[T]:
        """Return a new informer, which runs if a part subscribes to it.

        ``keep`` says which objects are stored; ``prepare`` trims them, before any subscriber sees them.
        """
        informer = SharedInformer(self, resource, model, keep=keep, selection=selection, prepare=prepare)
        self._informers.append(informer)
        return informer

    def on_batch_end(self, listener: Callable[[], object]) -> None:
        """Call a listener after each batch of changes of any kind, once all subscribers have had it."""
        self._listeners.append(listener)

    def notify(self) -> None:
        """Call the listeners: something has changed that none of these informers shows."""
        for listener in self._listeners:
            listener()

    async def run(self) -> None:
        """Watch until cancelled; raises what a subscriber raises."""
        await self._running().run()

    async def wait_for_sync(self) -> None:
        """Wait until all objects of all kinds are listed."""
        await self._running().wait_for_sync()

    def not_ready_reasons(self) -> list[str]:
        """Return the staleness of each informer; empty when ready."""
        return self._running().not_ready_reasons()

    def _running(self) -> Informers:
        return Informers(*[informer.reflector for informer in self._informers if informer.is_subscribed])
