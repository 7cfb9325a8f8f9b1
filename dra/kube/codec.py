"""Decoding of API server responses into structs.

There is one codec per kind and struct. A codec knows which form of the objects to request (the whole object, or
metadata only), and survives single objects that do not fit the struct or take too much memory: they are listed by name,
so that no caller takes them for deleted. Large objects are decoded one at a time.
"""

import functools
import sys
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Protocol, TypeVar, cast

import msgspec

from dra.kube.errors import UnreadableResponse
from dra.kube.object_sizes import (
    LARGE_OBJECT_BYTES,
    LARGE_PLAIN_OBJECT_BYTES,
    OBJECT_MEMORY_MAX,
    ObjectTooLargeError,
    memory_of,
    plain_data_bytes_max,
    plain_object_bytes,
    too_large_text,
)
from dra.kube.resources import POD_MIGRATION_JOBS, PODS, RESERVATIONS, Resource
from dra.kube.transport import JSON
from dra.model.meta import (
    BoundedObject,
    IncompleteContent,
    Key,
    ObjectMeta,
    PartialObjectMetadata,
    RawObject,
    Struct,
    Uid,
    UnstructuredObject,
)


class ApiObject(Protocol):
    """Any API object with ``metadata``."""

    @property
    def metadata(self) -> ObjectMeta: ...  # noqa: D102 - the class says it


T = TypeVar("T")

_METADATA_ONLY: Final = f"{JSON};as=PartialObjectMetadata;g=meta.k8s.io;v=v1,{JSON}"
METADATA_LIST_ONLY: Final = f"{JSON};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,{JSON}"
"""Accept header for metadata only. Aggregated API servers may not support this form; the whole object then decodes to
the same struct."""


class ObjectIdentity(Struct, frozen=True):
    """The part of the metadata that identifies an object.

    Nothing else is read of a bookmark: servers before 1.35 send bookmarks with ``"creationTimestamp": null``, which no
    object has and `ObjectMeta` does not accept.
    """

    name: str = ""
    namespace: str = ""
    uid: Uid = Uid("")
    resource_version: str = ""

    @property
    def key(self) -> Key:
        """Return the namespace and the name."""
        return (self.namespace, self.name)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class _Identified(Struct, frozen=True):
    metadata: ObjectIdentity


class _ListMeta(Struct, frozen=True):
    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class _List(Struct, Generic[T], frozen=True):
    """A list response; Go encodes an empty list as null unless a server prevents it."""

    metadata: _ListMeta
    items: list[T] | None = None


@dataclass(frozen=True, slots=True)
class ListPage(Generic[T]):
    """One page of a list."""

    items: list[T]
    resource_version: str
    token: str
    """Continue token; empty on the last page."""

    first: bool = True
    """Whether the list begins with this page. May be True again in the middle of a list: the server has dropped the
    continue token, and the list restarts."""

    unreadable: tuple[ObjectIdentity, ...] = ()
    """Objects that exist but do not fit the struct, or take too much memory."""

    too_large: Mapping[Key, str] = field(default_factory=dict)
    """Reasons of those that take too much memory."""

    sizes: Mapping[int, int] = field(default_factory=dict)
    """Memory of the large items, by their position."""


class SplitPage(_List[msgspec.Raw], frozen=True):
    """A page of a list whose objects are not decoded yet; what follows after the page is known."""

    @property
    def token(self) -> str:
        """The continue token; empty on the last page."""
        return self.metadata.continue_


def split_page(body: bytes, *, may_matter: Callable[[bytes], bool] | None = None) -> SplitPage:
    """Split a page into its objects; without the objects that do not matter, by their JSON.

    A page whose whole JSON does not matter has no object that does: ``may_matter`` looks for parts of the JSON.
    """
    listed = _SPLIT_PAGE.decode(body)
    if may_matter is None:
        return listed
    items = listed.items or () if may_matter(body) else ()
    return SplitPage(metadata=listed.metadata, items=[item for item in items if may_matter(bytes(item))])


_SPLIT_PAGE: Final = msgspec.json.Decoder(SplitPage)


@dataclass(frozen=True, slots=True)
class Codec(Generic[T]):
    """Accept headers and decoders for the objects of one kind."""

    one: Callable[[bytes | msgspec.Raw], T]
    """Decode one object; raises `msgspec.ValidationError` when the object does not fit."""

    accept_one: str = JSON
    accept_list: str = JSON
    large_bytes: int = sys.maxsize
    """Bytes in JSON above which the memory of an object is counted."""

    memory: Callable[[T, bytes | msgspec.Raw], int] = lambda _obj, _raw: 0
    """Return the memory that a large object takes."""

    reduce: Callable[[T, str], T] = lambda obj, _fault: obj
    """Return a large object without parts that can be left out; raises `ObjectTooLargeError` if every part is needed.

    The second argument is why the object is not kept.
    """

    def page(self, body: bytes, *, first: bool, may_matter: Callable[[bytes], bool] | None = None) -> ListPage[T]:
        """Decode a page of a list, see `split_page`."""
        return self.decode_page(split_page(body, may_matter=may_matter), first=first)

    def decode_page(self, listed: SplitPage, *, first: bool) -> ListPage[T]:
        """Decode the objects of a page."""
        meta = listed.metadata
        items: list[T] = []
        unreadable: list[ObjectIdentity] = []
        too_large: dict[Key, str] = {}
        sizes: dict[int, int] = {}
        for item in listed.items or ():
            try:
                obj = self.one(item)
            except OBJECT_DECODE_ERRORS as error:
                identity = identity_of(item)
                unreadable.append(identity)
                if isinstance(error, ObjectTooLargeError):
                    too_large[identity.key] = str(error)
            else:
                if len(item) > self.large_bytes:
                    sizes[len(items)] = self.memory(obj, item)
                items.append(obj)
        return ListPage(items, meta.resource_version, meta.continue_, first, tuple(unreadable), too_large, sizes)


NESTING_MAX: Final = 10_000
"""Maximum depth of nested objects: Go's JSON decoder accepts 10,000 levels, so no API server stores deeper objects.
Three kilobytes of a user's ``opaque.parameters`` are enough to exceed Python's default."""

OBJECT_DECODE_ERRORS: Final = (msgspec.ValidationError, RecursionError)
"""Exceptions raised for an object that does not fit its struct."""

RESPONSE_DECODE_ERRORS: Final = (msgspec.DecodeError, RecursionError)
"""Exceptions raised for a response that does not decode at all."""


def raise_recursion_limit() -> None:
    """Raise the recursion limit to decode whatever an API server stores; call once, when the process starts.

    The limit counts the frames of this program as well. From Python 3.12 on, compiled code has a limit of its own that
    suffices.
    """
    sys.setrecursionlimit(max(sys.getrecursionlimit(), 2 * NESTING_MAX))


_IDENTIFIED: Final = msgspec.json.Decoder(_Identified)
_CONTENT: Final = msgspec.json.Decoder(dict[str, Any])


def identity_of(raw: bytes | msgspec.Raw) -> ObjectIdentity:
    """Return the identity of an object of any kind and in any form."""
    return _IDENTIFIED.decode(raw).metadata


_IDENTITIES: Final = msgspec.json.Decoder(_List[_Identified])


def identify_page(body: bytes, *, first: bool, size: int) -> ListPage[Any]:
    """Return a page whose objects all have more than ``size`` bytes: their identities."""
    listed = _IDENTITIES.decode(body)
    identities = tuple(item.metadata for item in listed.items or ())
    meta = listed.metadata
    reasons = {identity.key: too_large_text(size) for identity in identities}
    return ListPage([], meta.resource_version, meta.continue_, first, identities, reasons)


def decode_response(decode: Callable[[bytes], T], body: bytes, subject: str) -> T:
    """Return the decoded body; raise `UnreadableResponse` if it does not decode."""
    try:
        return decode(body)
    except RESPONSE_DECODE_ERRORS as error:
        raise UnreadableResponse(subject, error) from error


@functools.lru_cache(maxsize=256)
def _codec(resource: Resource, model: Any) -> Codec[Any]:  # noqa: ANN401 - a type; caches want them hashable
    if model is UnstructuredObject:
        if resource in _BOUNDED_KINDS:
            return Codec(
                functools.partial(_bounded_dynamic, resource),
                large_bytes=LARGE_PLAIN_OBJECT_BYTES,
                memory=lambda _obj, raw: _plain_memory(raw, _WITH_STATUS.decode(raw)),
                reduce=_incomplete,
            )
        return Codec(functools.partial(_dynamic, resource))
    if model is RawObject:
        return Codec(_undecoded, large_bytes=LARGE_OBJECT_BYTES, memory=_memory, reduce=_reduced)
    one = msgspec.json.Decoder(model).decode
    accepts = (_METADATA_ONLY, METADATA_LIST_ONLY) if model is PartialObjectMetadata else (JSON, JSON)
    if issubclass(model, BoundedObject):
        return Codec(
            functools.partial(_bounded, one),
            *accepts,
            large_bytes=LARGE_OBJECT_BYTES,
            memory=_memory,
            reduce=_reduced,
        )
    return Codec(one, *accepts)


_BOUNDED_KINDS: Final = frozenset({RESERVATIONS, POD_MIGRATION_JOBS, PODS})
"""Kinds of plain data that are kept: a pod as long as it migrates."""


def _memory(obj: object, _raw: bytes | msgspec.Raw) -> int:
    return memory_of(obj, limit=OBJECT_MEMORY_MAX)


def _bounded(decode: Callable[[bytes | msgspec.Raw], T], raw: bytes | msgspec.Raw) -> T:
    """Decode an object to a struct; leave out parts, or raise `ObjectTooLargeError`, if it takes too much memory."""
    obj = decode(raw)
    if len(raw) <= LARGE_OBJECT_BYTES or memory_of(obj, limit=OBJECT_MEMORY_MAX) <= OBJECT_MEMORY_MAX:
        return obj
    return _reduced(obj, too_large_text(len(raw)))


def _reduced(obj: T, fault: str) -> T:
    rest = obj.reduced() if isinstance(obj, BoundedObject) else None
    if rest is None or memory_of(rest, limit=OBJECT_MEMORY_MAX) > OBJECT_MEMORY_MAX:
        raise ObjectTooLargeError(fault)
    return rest


class _WithStatus(Struct, frozen=True):
    metadata: msgspec.Raw
    status: msgspec.Raw = msgspec.Raw(b"null")


_WITH_STATUS: Final = msgspec.json.Decoder(_WithStatus)


class _LargeObjectMeta(ObjectIdentity, frozen=True):
    """The metadata of an object that is too large."""

    generation: int = 0
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None


_LARGE_METADATA: Final = msgspec.json.Decoder(_LargeObjectMeta)


def _plain_memory(raw: bytes | msgspec.Raw, parts: _WithStatus) -> int:
    return plain_object_bytes(bytes(raw), metadata=bytes(parts.metadata))


def _bounded_dynamic(resource: Resource, raw: bytes | msgspec.Raw) -> UnstructuredObject:
    """Decode an object to plain data; only its identity and its status if the whole would take too much memory."""
    if len(raw) <= LARGE_PLAIN_OBJECT_BYTES:
        return _dynamic(resource, raw)
    parts = _WITH_STATUS.decode(raw)
    if _plain_memory(raw, parts) <= OBJECT_MEMORY_MAX:
        return _dynamic(resource, raw)
    metadata = msgspec.to_builtins(_LARGE_METADATA.decode(parts.metadata))
    content = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
    if plain_data_bytes_max(bytes(parts.status)) <= OBJECT_MEMORY_MAX // 2:
        content["status"] = _VALUE.decode(parts.status)
    whole = UnstructuredObject(metadata=msgspec.convert(metadata, ObjectMeta), content=content)
    return _incomplete(whole, too_large_text(len(raw)))


_VALUE: Final = msgspec.json.Decoder()


def _incomplete(whole: UnstructuredObject, fault: str) -> UnstructuredObject:
    rest = {name: part for name, part in whole.content.items() if name != "spec"}
    return UnstructuredObject(metadata=whole.metadata, content=IncompleteContent(rest, fault=fault))


def codec_of(resource: Resource, model: type[T]) -> Codec[T]:
    """Return the codec of `model`: a struct, `PartialObjectMetadata`, `UnstructuredObject` or `RawObject`."""
    return cast("Codec[T]", _codec(resource, cast("Hashable", model)))


_METADATA: Final = msgspec.json.Decoder(PartialObjectMetadata)


def _undecoded(raw: bytes | msgspec.Raw) -> RawObject:
    return RawObject(_METADATA.decode(raw).metadata, bytes(raw))


def decode_object(resource: Resource, compact: RawObject) -> UnstructuredObject:
    """Decode the whole of an object, and release the bytes that the server sent.

    Raises one of `OBJECT_DECODE_ERRORS`.
    """
    raw, compact.raw = compact.raw, b""
    return _dynamic(resource, raw)


def _dynamic(resource: Resource, raw: bytes | msgspec.Raw) -> UnstructuredObject:
    """Decode an object of any kind to plain data.

    Items in lists of built-in kinds have neither ``kind`` nor ``apiVersion``; rules may read these fields, and must see
    the same object after a relist as after a watch event. ``managedFields`` are large and no rule needs them.
    """
    content = _CONTENT.decode(raw)
    content.setdefault("apiVersion", resource.api_version)
    content.setdefault("kind", resource.kind)
    metadata = content.get("metadata")
    if isinstance(metadata, dict):
        metadata.pop("managedFields", None)
    return UnstructuredObject(metadata=msgspec.convert(metadata, ObjectMeta), content=content)
