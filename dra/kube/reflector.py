"""A reflector: keeps a local copy of the objects of one kind and reports every change.

The reflector lists, then watches from the list's resourceVersion on. A watch that ends is reopened where it ended; only
when the server has dropped that version are all objects listed again and compared (`Store`). Changes go to the event
handler in batches, one per block of frames, because at ten thousand pods most of the cost of a change is handing it
over. A batch ends with a large object, and other tasks run before the next one: a user may create hundreds of them.

Traps:
- A connection can die silently (NAT, a server that hangs), so a silence longer than the interval of bookmarks ends it.
- A server restored from a backup accepts a watch from a version that it has not reached yet and sends nothing until it
  has (seen on 1.36.3). So after a silence, and after a broken connection, the reflector asks for the server's version:
  a restored server has been restarted. The store reports the restore (`ServerRestored`).
- An ERROR event comes with HTTP status 200. Whatever it says, its resourceVersion cannot be used: list again.
- The objects of a forbidden or vanished kind stay in the store: a failed watch proves no deletion. `failure` shows it.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import replace
from random import Random
from typing import Final, Generic, NoReturn, TypeAlias, TypeVar

import msgspec

from dra.kube.backoff import JITTER, Backoff
from dra.kube.client import EVERYTHING, Client, Selection
from dra.kube.clock import SYSTEM, Clock
from dra.kube.codec import (
    OBJECT_DECODE_ERRORS,
    RESPONSE_DECODE_ERRORS,
    ApiObject,
    ListPage,
    ObjectIdentity,
    codec_of,
    identity_of,
)
from dra.kube.errors import (
    ApiError,
    Expired,
    ResponseTooLarge,
    Status,
    Timeout,
    Unreachable,
    UnreadableResponse,
    error_of,
)
from dra.kube.object_sizes import LARGE_OBJECT_BYTES, ObjectTooLargeError
from dra.kube.resources import Resource
from dra.kube.store import Change, ServerRestored, Store
from dra.model.meta import Key
from dra.model.resource_versions import is_older

T = TypeVar("T", bound=ApiObject)

EventHandler: TypeAlias = Callable[[list[Change[T]]], None]

WATCH_TIMEOUT_SECONDS: Final = (300, 600)
"""Range of the duration of a watch, drawn at random so that the watches of all replicas do not move to a new server at
once."""

WATCH_IDLE_TIMEOUT: Final = 90.0
"""Seconds without a frame after which a watch is reopened. Bookmarks come every 60 to 75 s where etcd reports its
progress (kubeadm enables that); elsewhere a quiet kind has none for minutes, and reopening a watch costs little."""

_log: Final = logging.getLogger(__name__)


class _WatchEvent(msgspec.Struct, gc=False):
    """A frame of a watch; the type of `object` depends on `type`."""

    type: str
    object: msgspec.Raw


_WATCH_EVENTS: Final = msgspec.json.Decoder(_WatchEvent)
_STATUSES: Final = msgspec.json.Decoder(Status)


class _RelistError(Exception):
    """The resourceVersion that the watch started from cannot be used any more."""

    def __init__(self, cause: ApiError) -> None:
        super().__init__(cause)
        self.cause = cause


class Reflector(Generic[T]):
    """The reflector of one kind and one selection, with one event handler. `run` never returns; cancel it."""

    def __init__(  # noqa: PLR0913 - keyword-only; what to watch, what to keep, and two injected sources of chance
        self,
        client: Client,
        resource: Resource,
        model: type[T],
        *,
        handler: EventHandler[T],
        keep: Callable[[T], bool] | None = None,
        selection: Selection = EVERYTHING,
        clock: Clock = SYSTEM,
        random: Random | None = None,
    ) -> None:
        self.resource = resource
        self.synced = asyncio.Event()
        self.failure: ApiError | None = None
        """Error that currently prevents updates of the store."""
        self.last_contact: float | None = None
        """Time, on the clock's `now`, at which the server last showed that the store is up to date (list, event,
        bookmark)."""
        self.unreadable = 0
        """Number of received objects that do not fit the struct."""

        self._client = client
        self._model = model
        self._codec = codec_of(resource, model)
        self._handler = handler
        self._selection = selection
        self._clock = clock
        self._random = random or JITTER
        self._backoff = Backoff(random=self._random)
        self._keep = keep
        self._store: Store[T] = Store(keep=keep, has_selectors=selection.has_selectors)
        self._large = client.large_objects.ledger(resource)
        self._version = ""
        self._reached = ""
        """Version that the watch had reached before a list became due."""

        self._in_doubt = False
        """Whether the server may be at an older version than this reflector."""

        self._reported: set[type[ApiError]] = set()
        """Kinds of errors that are logged as warnings, until the server shows again that the store is up to date."""

    @property
    def objects(self) -> Mapping[Key, T]:
        """Return the stored objects, read-only."""
        return self._store.objects

    @property
    def resource_version(self) -> str:
        """Return the version that the store has reached; empty while a list is due."""
        return self._version

    def lag(self) -> float | None:
        """Return seconds since the server last showed that the store is up to date; None before the first list."""
        return None if self.last_contact is None else self._clock.now() - self.last_contact

    async def run(self) -> NoReturn:
        """List and watch until cancelled."""
        try:
            await self._run()
        finally:
            self._client.large_objects.close(self._large)

    async def _run(self) -> NoReturn:
        while True:
            try:
                if not self._version:
                    await self._list()
                elif self._in_doubt:
                    await self._check_version()
                await self._watch()
            except _RelistError as stale:
                self._reached, self._version = self._version, ""
                self.failure = stale.cause
                _log.info("%s; listing all", stale.cause)
            except ApiError as error:
                self._in_doubt = self._in_doubt or isinstance(error, Unreachable)
                self._observe_failure(error)
            delay = self._backoff.next()
            if self.failure is not None and self.failure.retry_after is not None:
                delay = max(delay, self.failure.retry_after)
            await asyncio.sleep(delay)

    async def _list(self) -> None:
        """List the whole collection into the store, page by page."""
        version = ""
        refused: set[Key] = set()
        async for page in self._client.list_pages(self.resource, self._model, selection=self._selection):
            changes: list[Change[T]] = []
            if page.first:
                self._store.begin_list()
                refused.clear()
                if is_older(page.resource_version, self._reached):
                    changes.append(ServerRestored(self.resource.label, page.resource_version, self._reached))
            items, unreadable = self.admit_page(page)
            refused.update(identity.key for identity in unreadable)
            self._store.add_page(items, unreadable, changes)
            version = page.resource_version
            if not page.token:
                self._store.end_list(version, changes)
                self._large.retain(self._store.objects, refused)
            if changes:
                self._handler(changes)
            await asyncio.sleep(0)
        self._version = version
        self._in_doubt = False
        self._observe_contact()
        self.synced.set()

    async def _watch(self) -> None:
        """Apply events to the store until the watch ends."""
        seconds = self._random.randint(*WATCH_TIMEOUT_SECONDS)
        opened = self._client.watch(
            self.resource, self._model, resource_version=self._version, seconds=seconds, selection=self._selection
        )
        try:
            async with opened as blocks:
                self._observe_contact()
                ended = await self._follow(blocks)
        except (Expired, ResponseTooLarge) as error:  # a list names an object that is too large for a frame
            raise _RelistError(error) from error
        except Timeout as error:
            if error.has_cause("ResourceVersionTooLarge"):  # the server is at an older version: restored from a backup
                raise _RelistError(error) from error
            raise
        self._in_doubt = not ended

    async def _check_version(self) -> None:
        """Raise `_RelistError` if the server is at an older version than this reflector."""
        version = await self._client.current_resource_version(self.resource, selection=self._selection)
        if is_older(version, self._version):
            message = f"the server is at version {version}, we had come to {self._version}: restored from a backup?"
            raise _RelistError(Unreachable(self.resource.label, message, outcome_unknown=False))
        self._in_doubt = False

    async def _follow(self, blocks: AsyncIterator[bytes]) -> bool:
        """Apply blocks as they arrive; return whether the server ended the watch (not a silence)."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(WATCH_IDLE_TIMEOUT) as limit:
                async for block in blocks:
                    began = self._clock.now()
                    for is_large in self._handle_block(block):
                        self._backoff.reset()
                        self._observe_contact()
                        limit.reschedule(loop.time() + WATCH_IDLE_TIMEOUT)
                        # A flood of blocks must not starve other tasks; large objects take half of the time at most.
                        await asyncio.sleep(self._clock.now() - began if is_large else 0)
                        began = self._clock.now()
        except TimeoutError:
            return False
        return True

    def _handle_block(self, block: bytes) -> Iterator[bool]:
        """Decode a block of frames into one batch of changes; yield False after it, and True after a large object."""
        changes: list[Change[T]] = []
        try:
            for event in _WATCH_EVENTS.decode_lines(block):
                self._version = self._handle_event(event, changes) or self._version
                if len(event.object) > LARGE_OBJECT_BYTES:
                    batch, changes = changes, []
                    if batch:
                        self._handler(batch)
                    yield True
        except RESPONSE_DECODE_ERRORS as error:
            raise _RelistError(UnreadableResponse(self.resource.label, error)) from error
        finally:  # events before an ERROR are valid
            if changes:
                self._handler(changes)
        yield False

    def _handle_event(self, event: _WatchEvent, changes: list[Change[T]]) -> str:
        """Apply one event and return its resourceVersion."""
        if event.type == "BOOKMARK":
            return identity_of(event.object).resource_version
        if event.type == "ERROR":
            raise _RelistError(error_of(_STATUSES.decode(event.object), self.resource.label))
        is_deleted = event.type == "DELETED"
        try:
            obj = self._codec.one(event.object)
            if is_deleted:
                self._large.forget((obj.metadata.namespace, obj.metadata.name))
            elif len(event.object) > self._codec.large_bytes:
                obj = self._admit(obj, self._codec.memory(obj, event.object))
            else:
                self._large.forget((obj.metadata.namespace, obj.metadata.name))
        except OBJECT_DECODE_ERRORS as error:
            identity = identity_of(event.object)
            if is_deleted:
                self._large.forget(identity.key)
                self._store.forget(identity, changes)
            if not (is_deleted and isinstance(error, ObjectTooLargeError)):
                self._report_unreadable(identity, error)
            return identity.resource_version
        if is_deleted:
            self._store.delete(obj, changes)
        else:
            self._store.upsert(obj, changes)
        return obj.metadata.resource_version

    def admit_page(self, page: ListPage[T]) -> tuple[list[T], list[ObjectIdentity]]:
        """Return the items of a page that this reflector keeps, and the objects that are unreadable or too large."""
        malformed = [identity for identity in page.unreadable if identity.key not in page.too_large]
        for identity in malformed:
            self._report_unreadable(identity, "in a list")
        if self._keep is not None and page.sizes:
            sizes = {index: size for index, size in page.sizes.items() if self._keep(page.items[index])}
            page = replace(page, sizes=sizes)
        items, refused = self._large.admit_page(page, reduce=self._codec.reduce)
        self.unreadable += len(refused)
        return items, malformed + refused

    def _admit(self, obj: T, memory: int) -> T:
        """Return a large object, or the rest of it that there is room for; raise `ObjectTooLargeError`."""
        if self._keep is not None and not self._keep(obj):
            self._large.forget((obj.metadata.namespace, obj.metadata.name))
            return obj
        return self._large.admit_object(obj, memory, reduce=self._codec.reduce)

    def _observe_contact(self) -> None:
        self.last_contact = self._clock.now()
        self.failure = None
        self._reported.clear()

    def _observe_failure(self, error: ApiError) -> None:
        # Once for each kind of error, not at every attempt: a missing permission may follow a lost connection.
        level = logging.DEBUG if type(error) in self._reported else logging.WARNING
        self._reported.add(type(error))
        _log.log(level, "%s; the cache of %s is unchanged", error, self.resource.label)
        self.failure = error

    def _report_unreadable(self, identity: ObjectIdentity, error: Exception | str) -> None:
        self.unreadable += 1
        if isinstance(error, ObjectTooLargeError):
            self._large.refuse(identity, str(error))
            return
        _log.warning(
            "%s %s: cannot be decoded (%s); its last known state stays in the cache",
            self.resource.kind,
            identity,
            error,
        )
