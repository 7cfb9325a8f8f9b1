"""Represents API objects as plain JSON values, which keep all fields, unknown ones included.

The stored bytes are shared and read-only; each write path decodes a private copy.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol, TypeAlias

import msgspec

Object: TypeAlias = dict[str, Any]

Mutation: TypeAlias = Callable[[Object], Object]
"""Function of a PUT or a patch: takes a private copy of the old object and returns the new object."""


class ObjectLister(Protocol):
    """Read-only access of admission to the current state of other objects."""

    def get_object(self, collection: str, name: str, *, namespace: str = "") -> Object | None:
        """Return one object, None if there is none."""
        ...

    def list_objects(self, collection: str) -> Iterable[Object]:
        """Return all objects of a kind, in all namespaces."""
        ...


_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(dict[str, Any])


def encode(value: object) -> bytes:
    """Return a value as compact JSON, as Go writes JSON."""
    return _encoder.encode(value)


def decode(raw: bytes) -> Object:
    """Return a new copy that the caller may change; raises msgspec.DecodeError if the bytes are not a JSON object."""
    return _decoder.decode(raw)


def metadata(obj: Object) -> Object:
    """Return the metadata of an object; every stored object has metadata."""
    meta: Object = obj["metadata"]
    return meta
