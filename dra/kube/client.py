"""The verbs of the API, typed: a kind and a name go in, a struct or an `ApiError` comes out.

Reads are consistent: they never use ``resourceVersion=0``, which may return a state older than one already seen. Writes
are JSON merge patches, so that fields unknown to these structs survive; a PUT of a narrow struct would erase them.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

import msgspec
from google.protobuf.message import DecodeError

from dra.kube.clock import SYSTEM, Clock
from dra.kube.codec import Codec, ListPage, codec_of, decode_response
from dra.kube.errors import ApiError, Conflict, Invalid, Status, UnreadableResponse
from dra.kube.large_objects import LargeObjects
from dra.kube.page_reader import PageReader
from dra.kube.rate_limiter import RateLimiter, RequestPriority
from dra.kube.resources import Resource
from dra.kube.sender import RequestObserver, Sender
from dra.kube.transport import APPLY_PATCH, JSON, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, Request, Transport
from dra.model.claims import ResourceClaim
from dra.model.meta import Key, PartialObjectMetadata, Struct, Uid

T = TypeVar("T")

READ_TIMEOUT: Final = 30.0
WRITE_TIMEOUT: Final = 10.0
"""Seconds from the request of a write to its answer, including the wait for the rate limiter. Also how long the last
write of a leader that lost its lease may be in flight, see `dra.kube.leader_election`."""


REWRITE_ATTEMPTS: Final = 6
"""Number of attempts to write a claim in two requests before the caller must decide again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The objects of a kind to list or watch: by namespace (None: all namespaces), and by selectors as in the API."""

    namespace: str | None = None
    fields: str = ""
    labels: str = ""

    @property
    def has_selectors(self) -> bool:
        """Report whether objects can leave the selection without being deleted."""
        return bool(self.fields or self.labels)

    def query(self) -> dict[str, str]:
        """Return the selectors as query parameters."""
        return {
            **({"fieldSelector": self.fields} if self.fields else {}),
            **({"labelSelector": self.labels} if self.labels else {}),
        }


EVERYTHING: Final = Selection()


class ServerVersion(Struct, frozen=True):
    """The answer of the API server to ``/version``."""

    major: str = ""
    minor: str = ""
    git_version: str = ""


class _Write(msgspec.Struct, frozen=True, kw_only=True):
    """The method, path and body of a write; the API server answers with the resulting object."""

    method: str
    path: str
    body: Mapping[str, Any] | Sequence[Mapping[str, Any]]
    subject: str
    label: str
    query: Mapping[str, str] = msgspec.field(default_factory=dict)
    content_type: str = JSON


class Client:
    """A typed client of one API server, with one transport and one rate limiter."""

    def __init__(
        self,
        transport: Transport,
        limiter: RateLimiter,
        *,
        clock: Clock = SYSTEM,
        observer: RequestObserver | None = None,
        large_objects: LargeObjects | None = None,
    ) -> None:
        """Create a client; ``large_objects`` is the account of the process."""
        self.large_objects = large_objects or LargeObjects()
        self._clock = clock
        self._sender = Sender(transport, limiter, clock=clock, observer=observer, late_write_seconds=WRITE_TIMEOUT)

    @property
    def late_writes_until(self) -> float:
        """Return until when a write whose answer was given up on may still arrive; in the past if there is none."""
        return self._sender.late_writes_until

    async def get(  # noqa: PLR0913 - keyword-only, and each is one property of a read
        self,
        resource: Resource,
        key: Key,
        model: type[T],
        *,
        subresource: str | None = None,
        priority: RequestPriority = RequestPriority.NORMAL,
        timeout_seconds: float = READ_TIMEOUT,
        max_bytes: int | None = None,
    ) -> T:
        """Read one object from the API server, or a subresource such as ``scale``.

        Raises `ResponseTooLarge` if the object is longer than `max_bytes`.
        """
        codec = codec_of(resource, model)
        path = resource.path(*key, subresource)
        request = Request(
            method="GET", path=path, accept=codec.accept_one, timeout=timeout_seconds, max_bytes=max_bytes
        )
        response = await self._sender.send(
            request, subject=resource.describe(key), label=_label(resource, subresource), priority=priority
        )
        return decode_response(codec.one, response.body, resource.describe(key))

    async def read(self, path: str, model: type[T], *, priority: RequestPriority = RequestPriority.NORMAL) -> T:
        """Read a path that belongs to no object, such as a discovery document."""
        request = Request(method="GET", path=path, timeout=READ_TIMEOUT)
        response = await self._sender.send(request, subject=path, label="-", priority=priority)
        return decode_response(msgspec.json.Decoder(model).decode, response.body, path)

    async def list_pages(
        self,
        resource: Resource,
        model: type[T],
        *,
        selection: Selection = EVERYTHING,
        priority: RequestPriority = RequestPriority.NORMAL,
        may_matter: Callable[[bytes], bool] | None = None,
        ahead: bool = False,
    ) -> AsyncIterator[ListPage[T]]:
        """Read a collection page by page, see `PageReader`.

        ``may_matter`` tells by the JSON of an object, or of a whole page, whether the object is to be decoded; others
        are left out. ``ahead``: a page is requested before the page before it is decoded.
        """
        reader = PageReader(
            partial(self._sender.send, subject=resource.label, label=resource.label, priority=priority),
            Request(
                method="GET", path=resource.path(selection.namespace), query=selection.query(), timeout=READ_TIMEOUT
            ),
            codec_of(resource, model),
            label=resource.label,
            may_matter=may_matter,
            ahead=ahead,
        )
        async with aclosing(reader.pages()) as pages:
            async for page in pages:
                yield page

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
            request, subject=resource.label, label=resource.label, priority=RequestPriority.NORMAL
        )
        return decode_response(partial(codec.page, first=True), response.body, resource.label).resource_version

    def watch(
        self,
        resource: Resource,
        model: type[Any],
        *,
        resource_version: str,
        seconds: int,
        selection: Selection = EVERYTHING,
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Open a watch from `resource_version` on, with bookmarks; the server ends the watch after `seconds`.

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
        return self._sender.stream(
            request, subject=resource.label, label=resource.label, priority=RequestPriority.NORMAL
        )

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
        timeout_seconds: float = WRITE_TIMEOUT,
        dry_run: bool = False,
        strategic: bool = False,
    ) -> T:
        """Change an object with a JSON merge patch and return the resulting object.

        With `resource_version` the patch fails with `Conflict` unless the object still has that version; with `uid`,
        unless it is still the same object. The response is the only source about one's own write that is certain to be
        in order: the next write of a chain takes its resourceVersion from the response. `timeout_seconds` bounds the
        whole call, including the wait for the rate limiter; a leader passes what is left of its lease.

        A `strategic` merge patch, supported for built-in kinds only, merges lists by their keys: it can add a condition
        without repeating the other conditions, whose fields may be unknown here.
        """
        preconditions = {
            **({"resourceVersion": resource_version} if resource_version is not None else {}),
            **({"uid": uid} if uid is not None else {}),
        }
        if preconditions:
            body = {**body, "metadata": {**body.get("metadata", {}), **preconditions}}
        subject = resource.describe(key)
        write = _Write(
            method="PATCH",
            path=resource.path(*key, subresource),
            query={"dryRun": "All"} if dry_run else {},
            body=body,
            content_type=STRATEGIC_PATCH if strategic else MERGE_PATCH,
            subject=subject,
            label=_label(resource, subresource),
        )
        try:
            return await self._write(
                write, codec_of(resource, model), priority=priority, timeout_seconds=timeout_seconds
            )
        except Invalid as error:
            if uid is None or not error.has_field_cause("metadata.uid"):
                raise
            # The server sees an attempt to change an immutable field; here the uid is a precondition.
            message = f"the object with uid {uid} was deleted, and another object has its name"
            raise Conflict(subject, Status(code=409, reason="Conflict", message=message)) from error

    async def json_patch(  # noqa: PLR0913 - keyword-only, and each is one property of a patch
        self,
        resource: Resource,
        key: Key,
        operations: Sequence[Mapping[str, Any]],
        *,
        model: type[T],
        subresource: str | None = None,
        priority: RequestPriority = RequestPriority.NORMAL,
        timeout_seconds: float = WRITE_TIMEOUT,
    ) -> T:
        """Change an object with a JSON patch (RFC 6902) and return the resulting object.

        The server applies either all operations or none. Raises `Invalid` if an operation fails, for example a
        ``test``: the API server does not say which one.
        """
        write = _Write(
            method="PATCH",
            path=resource.path(*key, subresource),
            body=operations,
            content_type=JSON_PATCH,
            subject=resource.describe(key),
            label=_label(resource, subresource),
        )
        return await self._write(write, codec_of(resource, model), priority=priority, timeout_seconds=timeout_seconds)

    async def update_as_protobuf(  # noqa: PLR0913 - keyword-only, those of a patch
        self,
        resource: Resource,
        key: Key,
        body: Mapping[str, Any],
        *,
        before: ResourceClaim,
        subresource: str | None = None,
        priority: RequestPriority = RequestPriority.NORMAL,
        timeout_seconds: float = WRITE_TIMEOUT,
    ) -> ResourceClaim:
        """Patch a claim whose JSON writes the API server refuses: see `dra.kube.protobuf_claim`.

        Has the effect of `merge_patch`, but takes two requests, so a client that writes all the time always comes in
        between. Therefore the change is applied to any version that is equivalent to the claim ``before``, which was
        decided on, and tried up to `REWRITE_ATTEMPTS` times.
        """
        deadline = self._clock.now() + timeout_seconds
        left = REWRITE_ATTEMPTS
        while True:
            left -= 1
            try:
                return await self._update_as_protobuf(
                    resource,
                    key,
                    body,
                    before=before,
                    subresource=subresource,
                    priority=priority,
                    timeout_seconds=max(deadline - self._clock.now(), 0.0) / 2,
                )
            except Conflict:
                if not left or self._clock.now() >= deadline:
                    raise

    async def _update_as_protobuf(  # noqa: PLR0913 - likewise
        self,
        resource: Resource,
        key: Key,
        body: Mapping[str, Any],
        *,
        before: ResourceClaim,
        subresource: str | None,
        priority: RequestPriority,
        timeout_seconds: float,
    ) -> ResourceClaim:
        subject, label = resource.describe(key), _label(resource, subresource)
        from dra.kube.protobuf_claim import PROTOBUF, ProtobufClaim  # noqa: PLC0415 - protobuf takes 20 ms, and few claims need it

        read = Request(method="GET", path=resource.path(*key), accept=PROTOBUF, timeout=timeout_seconds)
        current = await self._sender.send(read, subject=subject, label=resource.label, priority=priority)
        try:
            claim = ProtobufClaim(current.body)
        except (ValueError, DecodeError) as error:
            raise UnreadableResponse(subject, error) from error
        same = (claim.uid, claim.resource_version) == (before.metadata.uid, before.metadata.resource_version)
        if not same and not claim.is_like(before):
            raise Conflict(subject, Status(code=409, reason="Conflict", message="another client changed the object"))
        claim.apply(body)
        codec = codec_of(resource, type(before))
        write = Request(
            method="PUT",
            path=resource.path(*key, subresource),
            body=claim.encode(),
            content_type=PROTOBUF,
            accept=codec.accept_one,
            timeout=timeout_seconds,
        )
        response = await self._sender.send(write, subject=subject, label=label, priority=priority)
        return decode_response(codec.one, response.body, subject)

    async def replace(  # noqa: PLR0913 - keyword-only, and each is one property of a replacement
        self,
        resource: Resource,
        key: Key,
        content: Mapping[str, Any],
        *,
        model: type[T],
        subresource: str | None = None,
        priority: RequestPriority = RequestPriority.NORMAL,
        timeout_seconds: float = WRITE_TIMEOUT,
    ) -> T:
        """Replace a whole object that was read as an `UnstructuredObject` (PUT): for paths that accept nothing else."""
        write = _Write(
            method="PUT",
            path=resource.path(*key, subresource),
            body=content,
            subject=resource.describe(key),
            label=_label(resource, subresource),
        )
        return await self._write(write, codec_of(resource, model), priority=priority, timeout_seconds=timeout_seconds)

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
        timeout_seconds: float = WRITE_TIMEOUT,
        dry_run: bool = False,
    ) -> T:
        """Create an object, or with `name` and `subresource` post to a subresource (``binding``, ``eviction``)."""
        write = _Write(
            method="POST",
            path=resource.path(namespace, name, subresource),
            query={"dryRun": "All"} if dry_run else {},
            body={"apiVersion": resource.api_version, "kind": resource.kind, **body},
            subject=resource.describe((namespace or "", name or body.get("metadata", {}).get("name") or "(new)")),
            label=_label(resource, subresource),
        )
        return await self._write(write, codec_of(resource, model), priority=priority, timeout_seconds=timeout_seconds)

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
        timeout_seconds: float = WRITE_TIMEOUT,
        force: bool = True,
        dry_run: bool = False,
    ) -> T:
        """Set the fields of `body` regardless of their previous managers (server-side apply).

        Without `force` the call fails with `Conflict` if another manager owns one of the fields with a different value.

        Fields that an earlier apply of the same `manager` set and that `body` lacks are removed. With `uid` the call
        fails with `Conflict` if the object with that uid is gone.
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
            subject=resource.describe(key),
            label=_label(resource, subresource),
        )
        return await self._write(write, codec_of(resource, model), priority=priority, timeout_seconds=timeout_seconds)

    async def delete(  # noqa: PLR0913 - keyword-only, and each is one property of a deletion
        self,
        resource: Resource,
        key: Key,
        *,
        uid: Uid,
        resource_version: str | None = None,
        grace_seconds: int | None = None,
        propagation: str | None = None,
        priority: RequestPriority = RequestPriority.NORMAL,
        timeout_seconds: float = WRITE_TIMEOUT,
    ) -> None:
        """Request the deletion of the object with this uid; raise `Conflict` if another object has its name.

        With `resource_version` the request also fails with `Conflict` unless the object still has that version.
        """
        preconditions = {"uid": uid, **({"resourceVersion": resource_version} if resource_version is not None else {})}
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        if propagation is not None:
            options["propagationPolicy"] = propagation
        request = Request(
            method="DELETE",
            path=resource.path(*key),
            body=msgspec.json.encode(options),
            content_type=JSON,
            timeout=timeout_seconds,
        )
        await self._sender.send(request, subject=resource.describe(key), label=resource.label, priority=priority)

    async def _write(self, write: _Write, codec: Codec[T], *, priority: RequestPriority, timeout_seconds: float) -> T:
        request = Request(
            method=write.method,
            path=write.path,
            query=write.query,
            body=msgspec.json.encode(write.body),
            content_type=write.content_type,
            accept=codec.accept_one,
            timeout=timeout_seconds,
        )
        response = await self._sender.send(request, subject=write.subject, label=write.label, priority=priority)
        return decode_response(codec.one, response.body, write.subject)

    async def version(self) -> ServerVersion:
        """Return the version of the API server."""
        return await self.read("/version", ServerVersion)

    async def git_version(self) -> str:
        """Return the version of the API server, such as ``v1.38.0``; empty if it cannot be read.

        Decisions that differ by version must not fail for want of the version; `allocator_release` has a default.
        """
        try:
            return (await self.version()).git_version
        except ApiError:
            return ""


def _label(resource: Resource, subresource: str | None) -> str:
    """Return the label of the resource in metrics."""
    return f"{resource.label}/{subresource}" if subresource else resource.label
