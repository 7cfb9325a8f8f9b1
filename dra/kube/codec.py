"""Decoding of API server responses into structs.

There is one codec per kind and struct. A codec knows which form of the objects to request (the whole object, or
metadata only), and survives single objects that do not fit the struct: they are listed by name, so that no caller takes
them for deleted.
"""

import functools
import sys
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar, cast

import msgspec

from dra.kube.resources import Resource
from dra.kube.transport import JSON
from dra.model.meta import Key, ObjectMeta, PartialObjectMetadata, RawObject, Struct, Uid, UnstructuredObject


class ApiObject(Protocol):
    """Any API object with ``metadata``."""

    @property
    def metadata(self) -> ObjectMeta: ...  # noqa: D102 - the class says it


T = TypeVar("T")

_METADATA_ONLY: Final = f"{JSON};as=PartialObjectMetadata;g=meta.k8s.io;v=v1,{JSON}"
_METADATA_LIST_ONLY: Final = f"{JSON};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,{JSON}"
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
    """Objects that exist but do not fit the struct."""


@dataclass(frozen=True, slots=True)
class Codec(Generic[T]):
    """Accept headers and decoders for the objects of one kind."""

    one: Callable[[bytes | msgspec.Raw], T]
    """Decode one object; raises `msgspec.ValidationError` when the object does not fit."""

    whole: Callable[[bytes], _List[T]] | None
    """Decode a list in one go, if possible: a third faster than object by object."""

    accept_one: str = JSON
    accept_list: str = JSON

    def page(self, body: bytes, *, first: bool) -> ListPage[T]:
        """Decode a page of a list."""
        if self.whole is not None:
            try:
                listed = self.whole(body)
            except OBJECT_DECODE_ERRORS:
                pass  # at least one object does not fit; find it below
            else:
                return ListPage(listed.items or [], listed.metadata.resource_version, listed.metadata.continue_, first)
        raw = _RAW_LIST.decode(body)
        items: list[T] = []
        unreadable: list[ObjectIdentity] = []
        for item in raw.items or ():
            try:
                items.append(self.one(item))
            except OBJECT_DECODE_ERRORS:
                unreadable.append(identity_of(item))
        return ListPage(items, raw.metadata.resource_version, raw.metadata.continue_, first, tuple(unreadable))


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


_RAW_LIST: Final = msgspec.json.Decoder(_List[msgspec.Raw])
_IDENTIFIED: Final = msgspec.json.Decoder(_Identified)
_CONTENT: Final = msgspec.json.Decoder(dict[str, Any])


def identity_of(raw: bytes | msgspec.Raw) -> ObjectIdentity:
    """Return the identity of an object of any kind and in any form."""
    return _IDENTIFIED.decode(raw).metadata


@functools.lru_cache(maxsize=256)
def _codec(resource: Resource, model: Any) -> Codec[Any]:  # noqa: ANN401 - a type; caches want them hashable
    if model is UnstructuredObject:
        return Codec(functools.partial(_dynamic, resource), None)
    if model is RawObject:
        return Codec(_undecoded, None)
    one = msgspec.json.Decoder(model).decode
    whole = msgspec.json.Decoder(_List[model]).decode
    if model is PartialObjectMetadata:
        return Codec(one, whole, _METADATA_ONLY, _METADATA_LIST_ONLY)
    return Codec(one, whole)


def codec_of(resource: Resource, model: type[T]) -> Codec[T]:
    """Return the codec of `model`: a struct, `PartialObjectMetadata`, `UnstructuredObject` or `RawObject`."""
    return cast("Codec[T]", _codec(resource, cast("Hashable", model)))


_METADATA: Final = msgspec.json.Decoder(PartialObjectMetadata)


def _undecoded(raw: bytes | msgspec.Raw) -> RawObject:
    return RawObject(_METADATA.decode(raw).metadata, bytes(raw))


def decode_object(resource: Resource, found: RawObject) -> UnstructuredObject:
    """Decode the whole of an object, and release the bytes that the server sent.

    Raises one of `OBJECT_DECODE_ERRORS`.
    """
    raw, found.raw = found.raw, b""
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
