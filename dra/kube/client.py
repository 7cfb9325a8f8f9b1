"""The verbs of the API, typed: what goes in is a kind and a name, what comes out is a struct or an `ApiError`.

Reads are consistent: never with ``resourceVersion=0``, which may show a state older than one already seen. Writes are
JSON merge patches, so that fields we do not know survive; a PUT of our narrow structs would erase them.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeVar

import msgspec
from google.protobuf.message import DecodeError

from dra.kube.clock import SYSTEM, Clock
from dra.kube.codec import RESPONSE_DECODE_ERRORS, Codec, ListPage, codec_of
from dra.kube.errors import Conflict, Expired, Invalid, ResponseTooLarge, Status, UnreadableResponse
from dra.kube.rate_limiter import RateLimiter, RequestPriority
from dra.kube.resources import REVIEWS, Resource
from dra.kube.sender import RequestObserver, Sender
from dra.kube.transport import APPLY_PATCH, JSON, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, Request, Transport
from dra.model.claims import ResourceClaim
from dra.model.meta import Key, PartialObjectMetadata, Struct, Uid

T = TypeVar("T")

PAGE_SIZE: Final = 500
"""Objects in a page of a list; what kubectl and client-go ask for."""

PAGE_BYTES_MAX: Final = 8 << 20
"""Bytes of a page. An object may have a megabyte, and whoever may create objects may create hundreds of such ones: a
page of those would take all the memory of a process. A page that is longer is asked for again, with fewer objects."""

LIST_BYTES_MAX: Final = 64 << 20
"""Bytes of a list that comes in one piece."""

_UNPAGED: Final = 0
"""What asks for all objects in one page."""

PAGE_SHRINK_FACTOR: Final = 8
"""Part of the objects of a page that was too long, in the next attempt."""

READ_TIMEOUT: Final = 30.0
WRITE_TIMEOUT: Final = 10.0
"""Seconds from the wish to write to the answer, waiting for one's turn included. Also how long the last write of a
leader that lost its lease may be under way, see `dra.kube.leader_election`."""


REWRITE_ATTEMPTS: Final = 6
"""Attempts to write a claim in two requests before it is to be decided again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which objects of a kind: by namespace (None: all), and by selectors as in the API."""

    namespace: str | None = None
    fields: str = ""
    labels: str = ""

    @property
    def narrowed(self) -> bool:
        """Whether objects can leave the selection without being deleted."""
        return bool(self.fields or self.labels)

    def query(self) -> dict[str, str]:
        """Return the query parameters."""
        return {
            **({"fieldSelector": self.fields} if self.fields else {}),
            **({"labelSelector": self.labels} if self.labels else {}),
        }


EVERYTHING: Final = Selection()


class ServerVersion(Struct, frozen=True):
    """The server's answer to ``/version``."""

    major: str = ""
    minor: str = ""
    git_version: str = ""


class _SelfSubjectAccessReviewStatus(Struct, frozen=True):
    allowed: bool = False


class _SelfSubjectAccessReview(Struct, frozen=True):
    status: _SelfSubjectAccessReviewStatus = _SelfSubjectAccessReviewStatus()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Write:
    """What is written where; the answer to it is the object as it is then."""

    method: str
    path: str
    body: Mapping[str, Any] | Sequence[Mapping[str, Any]]
    what: str
    label: str
    query: Mapping[str, str] = field(default_factory=dict)
    content_type: str = JSON


class Client:
    """Talks to one API server through one transport, at one pace."""

    def __init__(
        self,
        transport: Transport,
        limiter: RateLimiter,
        *,
        clock: Clock = SYSTEM,
        observer: RequestObserver | None = None,
    ) -> None:
        self._clock = clock
        self._sender = Sender(transport, limiter, clock=clock, observer=observer, lasting=WRITE_TIMEOUT)

    @property
    def late_writes_until(self) -> float:
        """Until when a write may still arrive whose answer nobody waits for any more; in the past if there is none."""
        return self._sender.late_writes_until

    async def get(
        self,
        resource: Resource,
        key: Key,
        model: type[T],
        *,
        priority: RequestPriority = RequestPriority.NORMAL,
        within: float = READ_TIMEOUT,
    ) -> T:
        """Read one object."""
        codec = codec_of(resource, model)
        request = Request(method="GET", path=resource.path(*key), accept=codec.accept_one, timeout=within)
        response = await self._sender.send(request, what=resource.what(key), label=resource.label, priority=priority)
        return _decoded(codec.one, response.body, resource.what(key))

    async def read(self, path: str, model: type[T]) -> T:
        """Read what is at a path that is no object's: discovery, for one."""
        request = Request(method="GET", path=path, timeout=READ_TIMEOUT)
        response = await self._sender.send(request, what=path, label="-", priority=RequestPriority.NORMAL)
        return _decoded(msgspec.json.Decoder(model).decode, response.body, path)

    async def list_pages(
        self,
        resource: Resource,
        model: type[T],
        *,
        selection: Selection = EVERYTHING,
        priority: RequestPriority = RequestPriority.NORMAL,
    ) -> AsyncIterator[ListPage[T]]:
        """Read a collection page by page, consistently: all pages show the resourceVersion of the last one.

        When the server has forgotten the state that the pages are cut from (410 after a few minutes), everything comes
        once more and in one piece, as in client-go: a list that was too slow in pages would be so again.

        No page is longer than `PAGE_BYTES`; where objects are large, pages have fewer of them. Raises TooLong where
        everything in one piece is longer than `WHOLE_BYTES`.
        """
        codec = codec_of(resource, model)
        query, most = selection.query(), PAGE_SIZE
        token = ""
        while True:
            request = Request(
                method="GET",
                path=resource.path(selection.namespace),
                query=query | ({"limit": str(most)} if most else {}) | ({"continue": token} if token else {}),
                accept=codec.accept_list,
                most=PAGE_BYTES_MAX if most else LIST_BYTES_MAX,
                timeout=READ_TIMEOUT,
            )
            try:
                response = await self._sender.send(
                    request, what=resource.label, label=resource.label, priority=priority
                )
            except Expired:
                if not token:
                    raise
                most, token = _UNPAGED, ""
                continue
            except ResponseTooLarge:
                if most <= 1:
                    raise
                most = max(1, most // PAGE_SHRINK_FACTOR)
                continue
            page = _decoded(partial(codec.page, first=not token), response.body, resource.label)
            del response
            yield page
            token = page.token
            if not token:
                return

    async def current_resource_version(self, resource: Resource, *, selection: Selection = EVERYTHING) -> str:
        """Return the resourceVersion that a list would have now."""
        codec = codec_of(resource, PartialObjectMetadata)
        request = Request(
            method="GET",
            path=resource.path(selection.namespace),
            query={**selection.query(), "limit": "1"},
            accept=codec.accept_list,
            timeout=READ_TIMEOUT,
        )
        response = await self._sender.send(
            request, what=resource.label, label=resource.label, priority=RequestPriority.NORMAL
        )
        return _decoded(partial(codec.page, first=True), response.body, resource.label).resource_version

    def watch(
        self,
        resource: Resource,
        model: type[Any],
        *,
        resource_version: str,
        seconds: int,
        selection: Selection = EVERYTHING,
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Open a watch from `resource_version` on, with bookmarks; the server ends it after `seconds`.

        Yields blocks of frames, see `Transport.stream`.
        """
        request = Request(
            method="GET",
            path=resource.path(selection.namespace),
            query={
                **selection.query(),
                "watch": "true",
                "resourceVersion": resource_version,
                "allowWatchBookmarks": "true",
                "timeoutSeconds": str(seconds),
            },
            accept=codec_of(resource, model).accept_one,
            timeout=READ_TIMEOUT,
        )
        return self._sender.stream(request, what=resource.label, label=resource.label, priority=RequestPriority.NORMAL)

    async def merge_patch(  # noqa: PLR0913 - keyword-only, and each is one property of a patch
        self,
        resource: Resource,
        key: Key,
        body: Mapping[str, Any],
        *,
        model: type[T],
        subresource: str | None = None,
        resource_version: str | None = None,
        uid: Uid | None = None,
        priority: RequestPriority = RequestPriority.NORMAL,
        within: float = WRITE_TIMEOUT,
        dry_run: bool = False,
        strategic: bool = False,
    ) -> T:
        """Change an object with a JSON merge patch and return it as it is then.

        With `resource_version` it fails with `Conflict` unless the object is still that version; with `uid`, unless it
        is still that object. The response is the only news of one's own write that is certain to be in order: the
        next write of a chain takes its resourceVersion from here. `within` bounds all of it, the wait for the limiter
        included; a leader passes what is left of its lease.

        A `strategic` merge patch, which only built-in kinds know, merges lists by their keys: a condition is added
        without a word about the others, whose fields we may not know.
        """
        preconditions = {
            **({"resourceVersion": resource_version} if resource_version is not None else {}),
            **({"uid": uid} if uid is not None else {}),
        }
        if preconditions:
            body = {**body, "metadata": {**body.get("metadata", {}), **preconditions}}
        what = resource.what(key)
        write = _Write(
            method="PATCH",
            path=resource.path(*key, subresource),
            query={"dryRun": "All"} if dry_run else {},
            body=body,
            content_type=STRATEGIC_PATCH if strategic else MERGE_PATCH,
            what=what,
            label=_label(resource, subresource),
        )
        try:
            return await self._write(write, codec_of(resource, model), priority=priority, within=within)
        except Invalid as error:
            if uid is None or not error.has_cause_in("metadata.uid"):
                raise
            # To the server a patch with another uid tries to change an immutable field; to us it is a precondition.
            message = f"the object with uid {uid} is gone, another one has its name"
            raise Conflict(what, Status(code=409, reason="Conflict", message=message)) from error

    async def json_patch(  # noqa: PLR0913 - keyword-only, and each is one property of a patch
        self,
        resource: Resource,
        key: Key,
        operations: Sequence[Mapping[str, Any]],
        *,
        model: type[T],
        subresource: str | None = None,
        priority: RequestPriority = RequestPriority.NORMAL,
        within: float = WRITE_TIMEOUT,
    ) -> T:
        """Change an object with a JSON patch (RFC 6902) and return the object as it is then.

        The operations are done all or none. Raises `Invalid` where one of them fails, a ``test`` for example: the API
        server does not say which.
        """
        write = _Write(
            method="PATCH",
            path=resource.path(*key, subresource),
            body=operations,
            content_type=JSON_PATCH,
            what=resource.what(key),
            label=_label(resource, subresource),
        )
        return await self._write(write, codec_of(resource, model), priority=priority, within=within)

    async def rewrite(  # noqa: PLR0913 - keyword-only, those of a patch
        self,
        resource: Resource,
        key: Key,
        body: Mapping[str, Any],
        *,
        before: ResourceClaim,
        subresource: str | None = None,
        priority: RequestPriority = RequestPriority.NORMAL,
        within: float = WRITE_TIMEOUT,
    ) -> ResourceClaim:
        """Do what `merge_patch` does to a claim, where the API server refuses any JSON: see `dra.kube.protobuf_claim`.

        It takes two requests, so whoever writes all the time is always in between. Therefore it is done to any version
        that is like the claim ``before``, which was decided on, and tried some times.
        """
        deadline = self._clock.now() + within
        left = REWRITE_ATTEMPTS
        while True:
            left -= 1
            try:
                return await self._rewrite(
                    resource,
                    key,
                    body,
                    before=before,
                    subresource=subresource,
                    priority=priority,
                    within=max(deadline - self._clock.now(), 0.0) / 2,
                )
            except Conflict:
                if not left or self._clock.now() >= deadline:
                    raise

    async def _rewrite(  # noqa: PLR0913 - likewise
        self,
        resource: Resource,
        key: Key,
        body: Mapping[str, Any],
        *,
        before: ResourceClaim,
        subresource: str | None,
        priority: RequestPriority,
        within: float,
    ) -> ResourceClaim:
        what, label = resource.what(key), _label(resource, subresource)
        from dra.kube.protobuf_claim import PROTOBUF, ProtobufClaim  # noqa: PLC0415 - protobuf takes 20 ms, and few claims need it

        read = Request(method="GET", path=resource.path(*key), accept=PROTOBUF, timeout=within)
        found = await self._sender.send(read, what=what, label=resource.label, priority=priority)
        try:
            claim = ProtobufClaim(found.body)
        except (ValueError, DecodeError) as error:
            raise UnreadableResponse(what, error) from error
        same = (claim.uid, claim.resource_version) == (before.metadata.uid, before.metadata.resource_version)
        if not same and not claim.is_like(before):
            raise Conflict(what, Status(code=409, reason="Conflict", message="it has been changed meanwhile"))
        claim.apply(body)
        codec = codec_of(resource, ResourceClaim)
        write = Request(
            method="PUT",
            path=resource.path(*key, subresource),
            body=claim.encode(),
            content_type=PROTOBUF,
            accept=codec.accept_one,
            timeout=within,
        )
        response = await self._sender.send(write, what=what, label=label, priority=priority)
        return _decoded(codec.one, response.body, what)

    async def replace(  # noqa: PLR0913 - keyword-only, and each is one property of a replacement
        self,
        resource: Resource,
        key: Key,
        content: Mapping[str, Any],
        *,
        model: type[T],
        subresource: str | None = None,
        priority: RequestPriority = RequestPriority.NORMAL,
        within: float = WRITE_TIMEOUT,
    ) -> T:
        """Write a whole object that was read as a `DynamicObject` (PUT): for the few paths that take nothing else."""
        write = _Write(
            method="PUT",
            path=resource.path(*key, subresource),
            body=content,
            what=resource.what(key),
            label=_label(resource, subresource),
        )
        return await self._write(write, codec_of(resource, model), priority=priority, within=within)

    async def create(  # noqa: PLR0913 - keyword-only, and each is one property of a creation
        self,
        resource: Resource,
        body: Mapping[str, Any],
        *,
        model: type[T],
        namespace: str | None = None,
        name: str | None = None,
        subresource: str | None = None,
        priority: RequestPriority = RequestPriority.NORMAL,
        within: float = WRITE_TIMEOUT,
        dry_run: bool = False,
    ) -> T:
        """Create an object, or with `name` and `subresource` post to one (``binding``, ``eviction``)."""
        write = _Write(
            method="POST",
            path=resource.path(namespace, name, subresource),
            query={"dryRun": "All"} if dry_run else {},
            body={"apiVersion": resource.api_version, "kind": resource.kind, **body},
            what=resource.what((namespace or "", name or body.get("metadata", {}).get("name") or "(new)")),
            label=_label(resource, subresource),
        )
        return await self._write(write, codec_of(resource, model), priority=priority, within=within)

    async def apply(  # noqa: PLR0913 - keyword-only, and each is one property of an application
        self,
        resource: Resource,
        key: Key,
        body: Mapping[str, Any],
        *,
        model: type[T],
        manager: str,
        subresource: str | None = None,
        uid: Uid | None = None,
        priority: RequestPriority = RequestPriority.NORMAL,
        within: float = WRITE_TIMEOUT,
        force: bool = True,
        dry_run: bool = False,
    ) -> T:
        """Make these fields what they are here, whoever had them before (server-side apply).

        Without `force` it fails with `Conflict` if somebody else manages one of them and has it otherwise.

        What an earlier application of the same `manager` had and this one has not is removed. With `uid` it fails with
        `Conflict` if the object with that uid is gone.
        """
        metadata = {"namespace": key[0], "name": key[1], **({"uid": uid} if uid is not None else {})}
        content = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
        content["metadata"] = {**body.get("metadata", {}), **metadata}
        write = _Write(
            method="PATCH",
            path=resource.path(*key, subresource),
            query={
                "fieldManager": manager,
                "force": "true" if force else "false",
                **({"dryRun": "All"} if dry_run else {}),
            },
            body=content,
            content_type=APPLY_PATCH,
            what=resource.what(key),
            label=_label(resource, subresource),
        )
        return await self._write(write, codec_of(resource, model), priority=priority, within=within)

    async def delete(  # noqa: PLR0913 - keyword-only, and each is one property of a deletion
        self,
        resource: Resource,
        key: Key,
        *,
        uid: Uid,
        grace_seconds: int | None = None,
        propagation: str | None = None,
        priority: RequestPriority = RequestPriority.NORMAL,
        within: float = WRITE_TIMEOUT,
    ) -> None:
        """Ask for the deletion of the object with this uid; `Conflict` if another one has taken its name."""
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        if propagation is not None:
            options["propagationPolicy"] = propagation
        request = Request(
            method="DELETE",
            path=resource.path(*key),
            body=msgspec.json.encode(options),
            content_type=JSON,
            timeout=within,
        )
        await self._sender.send(request, what=resource.what(key), label=resource.label, priority=priority)

    async def _write(self, write: _Write, codec: Codec[T], *, priority: RequestPriority, within: float) -> T:
        request = Request(
            method=write.method,
            path=write.path,
            query=write.query,
            body=msgspec.json.encode(write.body),
            content_type=write.content_type,
            accept=codec.accept_one,
            timeout=within,
        )
        response = await self._sender.send(request, what=write.what, label=write.label, priority=priority)
        return _decoded(codec.one, response.body, write.what)

    async def version(self) -> ServerVersion:
        """Return the server's version."""
        return await self.read("/version", ServerVersion)

    async def can_i(
        self, verb: str, resource: Resource, *, subresource: str = "", namespace: str = "", name: str = ""
    ) -> bool:
        """Whether we have the right to `verb`; without a namespace: in all of them."""
        attributes = {
            "verb": verb,
            "group": resource.group,
            "resource": resource.plural,
            "subresource": subresource,
            "namespace": namespace,
            "name": name,
        }
        review = await self.create(
            REVIEWS, {"spec": {"resourceAttributes": attributes}}, model=_SelfSubjectAccessReview
        )
        return review.status.allowed


def _decoded(decode: Callable[[bytes], T], body: bytes, what: str) -> T:
    """Return the decoded body; `Unreadable` if it is something else."""
    try:
        return decode(body)
    except RESPONSE_DECODE_ERRORS as error:
        raise UnreadableResponse(what, error) from error


def _label(resource: Resource, subresource: str | None) -> str:
    """Return how metrics call the resource."""
    return f"{resource.label}/{subresource}" if subresource else resource.label
