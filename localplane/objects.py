"""API objects as plain JSON values: what a server must keep whole, fields it does not know included.

An `Object` that came out of the store is shared and read-only; a write path decodes a copy of its own.
"""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import msgspec

Object: TypeAlias = dict[str, Any]

Mutation: TypeAlias = Callable[[Object], Object]
"""Makes the new object of a private copy of the old one: what a PUT or a patch comes down to."""

_encoder: Final = msgspec.json.Encoder()


def encode(value: object) -> bytes:
    """Return compact JSON, as Go writes it."""
    return _encoder.encode(value)


def decode(raw: bytes) -> Object:
    """Return a fresh copy that the caller may change; raises msgspec.DecodeError for what is no JSON object."""
    return msgspec.json.decode(raw, type=dict[str, Any])


def metadata(obj: Object) -> Object:
    """Return the metadata of an object, which every stored one has."""
    found: Object = obj["metadata"]
    return found
