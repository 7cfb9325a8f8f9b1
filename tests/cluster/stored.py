"""In which version of its API each object is stored in etcd: what an older API server can read is decided there.

An API server stores an object in the version that it prefers, whatever version the client wrote. Built-in kinds are
stored as protobuf: ``k8s\\0`` and a `runtime.Unknown`, whose first field is the TypeMeta with `apiVersion` as its first
field (k8s.io/apimachinery, pkg/runtime/generated.proto). Custom resources are stored as JSON.
"""

from __future__ import annotations

import base64
import json
from http.client import HTTPConnection
from typing import Final

from tests.cluster.ports import LOOPBACK

PREFIX: Final = b"/registry/"
AFTER: Final = b"/registry0"
"""The first key after all those that begin with PREFIX."""

_MAGIC: Final = b"k8s\0"
_FIRST_FIELD: Final = b"\x0a"
"""The tag of a field 1 of bytes, a message or a string; a length follows, of one byte in what is read here."""


def versions(port: int) -> dict[str, str]:
    """Return the `apiVersion` of each stored object by its key, without ``/registry/``; `port` is that of etcd.

    Keys that hold something else, such as the ranges of addresses, have an empty one.
    """
    wanted = {"key": _encoded(PREFIX), "range_end": _encoded(AFTER)}
    connection = HTTPConnection(LOOPBACK, port, timeout=30)
    try:
        connection.request("POST", "/v3/kv/range", json.dumps(wanted))
        found = json.loads(connection.getresponse().read())
    finally:
        connection.close()
    pairs = ((base64.b64decode(each["key"]), base64.b64decode(each["value"])) for each in found["kvs"])
    return {key.removeprefix(PREFIX).decode(): api_version(value) for key, value in pairs}


def api_version(value: bytes) -> str:
    """Return the `apiVersion` of a stored object, empty if there is none."""
    if value.startswith(_MAGIC):
        return _first(_first(value.removeprefix(_MAGIC))).decode()
    try:
        found = json.loads(value)
    except ValueError:
        return ""
    return str(found.get("apiVersion", "")) if isinstance(found, dict) else ""


def _first(message: bytes) -> bytes:
    """Return the content of field 1 of a message that begins with it."""
    if not message.startswith(_FIRST_FIELD):
        return b""
    length = message[1]
    return message[2 : 2 + length]


def _encoded(key: bytes) -> str:
    return base64.b64encode(key).decode()
