"""Keeps a local picture of one kind of objects and tells every change of it.

List, then watch from the list's resourceVersion on; a watch that ends is opened again where it ended, and only when
the server has forgotten that point everything is listed again and compared (`Store`). Changes go to the sink in
batches, one per block of frames, because at ten thousand pods the cost of a change is the cost of handing it over.

Traps:
- A connection can die without a word (NAT, a server that hangs), so a silence longer than bookmarks take ends it.
- A server restored from a backup accepts a watch from a version that it has not reached yet and says nothing until it
  has (seen on 1.36.3). So a silence is a reason to ask for its version, and so is a connection that broke: what is
  restored is restarted. The store tells of it (`Rewound`).
- An ERROR event comes with HTTP status 200. Whatever it says, its resourceVersion is of no more use: list again.
- A forbidden or vanished kind keeps its objects here: doubt is no deletion. `failure` tells.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
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
    ObjectIdentity,
    codec_of,
    identity_of,
)
from dra.kube.errors import ApiError, Expired, Status, Timeout, Unreachable, UnreadableResponse, error_of
from dra.kube.resources import Resource
from dra.kube.store import Change, ServerRestored, Store, is_older_version
from dra.model.meta import Key

T = TypeVar("T", bound=ApiObject)

EventHandler: TypeAlias = Callable[[list[Change[T]]], None]

WATCH_TIMEOUT_SECONDS: Final = (300, 600)
"""Length of a watch, drawn at random: so that not all watches of all replicas move to a new server at once."""

WATCH_IDLE_TIMEOUT: Final = 90.0
"""Seconds without a frame after which a watch is opened anew. Bookmarks come every 60 to 75 s where etcd reports its
progress (kubeadm has it do so); where it does not, a quiet kind has none for minutes, and a new watch costs little."""

_log: Final = logging.getLogger(__name__)


class _WatchEvent(msgspec.Struct, gc=False):
    """A frame of a watch; what `object` is depends on `type`."""

    type: str
    object: msgspec.Raw


_WATCH_EVENTS: Final = msgspec.json.Decoder(_WatchEvent)
_STATUSES: Final = msgspec.json.Decoder(Status)


class _RelistError(Exception):
    """The resourceVersion that the watch started from is of no use any more."""

    def __init__(self, cause: ApiError) -> None:
        super().__init__(cause)
        self.cause = cause


class Reflector(Generic[T]):
    """One kind, one selection, one sink. `run` never returns; cancel it."""

    def __init__(  # noqa: PLR0913 - keyword-only; what to watch, what to keep, and two injected sources of chance
        self,
        client: Client,
        resource: Resource,
        model: type[T],
        *,
        sink: EventHandler[T],
        keep: Callable[[T], bool] | None = None,
        selection: Selection = EVERYTHING,
        clock: Clock = SYSTEM,
        random: Random | None = None,
    ) -> None:
        self.resource = resource
        self.synced = asyncio.Event()
        self.failure: ApiError | None = None
        """Why the picture is not being kept up right now."""
        self.last_contact: float | None = None
        """When the server last showed that the picture is up to date (list, event or bookmark); clock's `now`."""
        self.unreadable = 0
        """How many objects came that do not fit the struct."""

        self._client = client
        self._model = model
        self._codec = codec_of(resource, model)
        self._sink = sink
        self._selection = selection
        self._clock = clock
        self._random = random or JITTER
        self._backoff = Backoff(random=self._random)
        self._store: Store[T] = Store(keep=keep, narrowed=selection.narrowed)
        self._version = ""
        self._reached = ""
        """The version that we had come to before a list became due."""

        self._in_doubt = False
        """Whether the server may know less than we."""

    @property
    def objects(self) -> Mapping[Key, T]:
        """The picture as it is now, read-only."""
        return self._store.objects

    @property
    def resource_version(self) -> str:
        """How far the picture reaches; empty while a list is due."""
        return self._version

    def lag(self) -> float | None:
        """Return seconds since the server last showed that the picture is up to date; None before the first list."""
        return None if self.last_contact is None else self._clock.now() - self.last_contact

    async def run(self) -> NoReturn:
        """List and watch until cancelled."""
        while True:
            try:
                if not self._version:
                    await self._list()
                elif self._in_doubt:
                    await self._check()
                await self._watch()
            except _RelistError as stale:
                self._reached, self._version = self._version, ""
                self.failure = stale.cause
                _log.info("%s; listing all", stale.cause)
            except ApiError as error:
                self._in_doubt = self._in_doubt or isinstance(error, Unreachable)
                self._failed(error)
            delay = self._backoff.next()
            if self.failure is not None and self.failure.retry_after is not None:
                delay = max(delay, self.failure.retry_after)
            await asyncio.sleep(delay)

    async def _list(self) -> None:
        """Take in the whole collection, a page at a time."""
        version = ""
        async for page in self._client.list_pages(self.resource, self._model, selection=self._selection):
            changes: list[Change[T]] = []
            if page.first:
                self._store.begin_list()
                if is_older_version(page.resource_version, self._reached):
                    changes.append(ServerRestored(self.resource.label, page.resource_version, self._reached))
            for each in page.unreadable:
                self._report_unreadable(each)
            self._store.listed(page.items, page.unreadable, changes)
            version = page.resource_version
            if not page.token:
                self._store.end_list(version, changes)
            if changes:
                self._sink(changes)
        self._version = version
        self._in_doubt = False
        self._alive()
        self.synced.set()

    async def _watch(self) -> None:
        """Take in events until the watch ends."""
        seconds = self._random.randint(*WATCH_TIMEOUT_SECONDS)
        opened = self._client.watch(
            self.resource, self._model, resource_version=self._version, seconds=seconds, selection=self._selection
        )
        try:
            async with opened as blocks:
                self._alive()
                ended = await self._follow(blocks)
        except Expired as error:
            raise _RelistError(error) from error
        except Timeout as error:
            if error.has_cause("ResourceVersionTooLarge"):  # the server knows less than we: restored from a backup
                raise _RelistError(error) from error
            raise
        self._in_doubt = not ended

    async def _check(self) -> None:
        """Make sure that the server has come as far as we have."""
        version = await self._client.current_resource_version(self.resource, selection=self._selection)
        if is_older_version(version, self._version):
            message = f"the server is at version {version}, we had come to {self._version}: restored from a backup?"
            raise _RelistError(Unreachable(self.resource.label, message, ambiguous=False))
        self._in_doubt = False

    async def _follow(self, blocks: AsyncIterator[bytes]) -> bool:
        """Take in blocks while they come; return whether the server ended the watch, not its silence."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(WATCH_IDLE_TIMEOUT) as limit:
                async for block in blocks:
                    self._take(block)
                    self._backoff.reset()
                    self._alive()
                    limit.reschedule(loop.time() + WATCH_IDLE_TIMEOUT)
                    await asyncio.sleep(0)  # a flood of blocks must not keep others from running
        except TimeoutError:
            return False
        return True

    def _take(self, block: bytes) -> None:
        """Turn a block of frames into one batch of changes."""
        changes: list[Change[T]] = []
        version = self._version
        try:
            for event in _WATCH_EVENTS.decode_lines(block):
                version = self._handle_event(event, changes) or version
        except RESPONSE_DECODE_ERRORS as error:
            raise _RelistError(UnreadableResponse(self.resource.label, error)) from error
        finally:  # what came before an ERROR has happened
            self._version = version
            if changes:
                self._sink(changes)

    def _handle_event(self, event: _WatchEvent, changes: list[Change[T]]) -> str:
        """Apply one event and return its resourceVersion."""
        if event.type == "BOOKMARK":
            return identity_of(event.object).resource_version
        if event.type == "ERROR":
            raise _RelistError(error_of(_STATUSES.decode(event.object), self.resource.label))
        try:
            obj = self._codec.one(event.object)
        except OBJECT_DECODE_ERRORS as error:
            identity = identity_of(event.object)
            self._report_unreadable(identity, error)
            if event.type == "DELETED":
                self._store.forget(identity, changes)
            return identity.resource_version
        if event.type == "DELETED":
            self._store.delete(obj, changes)
        else:
            self._store.upsert(obj, changes)
        return obj.metadata.resource_version

    def _alive(self) -> None:
        self.last_contact = self._clock.now()
        self.failure = None

    def _failed(self, error: ApiError) -> None:
        level = logging.WARNING if self.failure is None else logging.DEBUG  # once, not at every attempt
        _log.log(level, "%s; what is known of %s stays as it is", error, self.resource.label)
        self.failure = error

    def _report_unreadable(self, identity: ObjectIdentity, error: Exception | str = "in a list") -> None:
        self.unreadable += 1
        _log.warning(
            "%s %s: does not have the form we know (%s); we go on with its last known state",
            self.resource.kind,
            identity,
            error,
        )
