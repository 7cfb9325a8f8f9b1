"""The memory that an API object takes once it is decoded, and how much one object and one namespace may take.

An object has up to 1.5 MB in etcd, and whoever may create objects decides on their content: `[{},{},…]` takes 24 times
its bytes as plain data. So an object above `OBJECT_MEMORY_MAX` is not kept, and the large objects of one kind in a
namespace together take at most `NAMESPACE_MEMORY_MAX` in each informer; the objects of other namespaces are unaffected.

Small objects do not count: their number is what a ResourceQuota limits. Nor does an object that takes no more memory
than a small one may, however long it is in JSON: usual pods have 20 KiB, of which little is kept, and a namespace may
have thousands of them.
"""

import sys
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from dra.kube.resources import POD_MIGRATION_JOBS, RESERVATIONS, Resource
from dra.model.meta import ObjectMeta, RawObject, UnstructuredObject

LARGE_OBJECT_BYTES: Final = 16 << 10
"""Bytes of an object in JSON above which its memory is measured."""

LARGE_PLAIN_OBJECT_BYTES: Final = 4 << 10
"""The same for objects that are kept as plain data, which takes more memory for each byte."""

UNCOUNTED_MEMORY_MAX: Final = 128 << 10
"""Maximum number of bytes of memory of an object that does not count; `LARGE_PLAIN_OBJECT_BYTES` of JSON may take as
many, and `LARGE_OBJECT_BYTES` twice as many."""

OBJECT_MEMORY_MAX: Final = 512 << 10
"""Maximum number of bytes that one decoded object takes; 100 KiB of a usual pod template."""

NAMESPACE_MEMORY_MAX: Final = 8 << 20
"""Maximum number of bytes that the large objects of one kind in a namespace take together, in one informer."""

EVALUATED_MEMORY_MAX: Final = 16 << 20
"""Maximum number of bytes of plain data that the rule of a workload is evaluated on; one at a time is in memory."""

_CONTAINER_BYTES: Final = 64
_STRING_BYTES: Final = 56
_SLOT_BYTES: Final = 8


class ObjectTooLargeError(msgspec.ValidationError):
    """An object that would take too much memory."""


def too_large_text(size: int) -> str:
    """Return why an object of this many bytes in JSON is not kept, and the way out."""
    return (
        f"too large: its {size >> 10} KiB in JSON need more than the {OBJECT_MEMORY_MAX >> 10} KiB of memory that one "
        "object may take; reduce its size"
    )


def namespace_full_text(namespace: str) -> str:
    """Return why a large object is not kept if others of its namespace are, and the way out."""
    return (
        f"too large: together with other large objects of namespace {namespace or '(none)'} it needs more than "
        f"{NAMESPACE_MEMORY_MAX >> 20} MiB of memory; reduce their sizes, or delete some"
    )


def plain_data_bytes_max(raw: bytes) -> int:
    """Return an upper bound of the memory that JSON takes as plain data, without decoding it."""
    containers = raw.count(b"{") + raw.count(b"[")
    return (
        len(raw)
        + _CONTAINER_BYTES * containers
        + _STRING_BYTES * (raw.count(b'"') // 2)
        + 4 * _SLOT_BYTES * raw.count(b",")
    )


def plain_object_bytes(raw: bytes, *, metadata: bytes) -> int:
    """Return about how much memory an object takes as plain data.

    Its ``metadata`` count by their strings: annotations often contain JSON, which stays a string.
    """
    strings = (metadata.count(b'"') - metadata.count(b'\\"')) // 2
    rest = plain_data_bytes_max(raw) - plain_data_bytes_max(metadata)
    return rest + len(metadata) + _STRING_BYTES * strings


def memory_of(decoded: object, *, limit: int) -> int:
    """Return the bytes that a decoded object takes, without its annotations; counts no further than beyond `limit`.

    Annotations have a limit of their own (256 KiB, by the API server), and informers keep only those that rules read.
    """
    size, rest = 0, [decoded]
    while rest and size <= limit:
        part = rest.pop()
        size += sys.getsizeof(part)
        if isinstance(part, dict):
            rest.extend(part)
            rest.extend(part.values())
        elif isinstance(part, list | tuple):
            rest.extend(part)
        elif isinstance(part, RawObject):
            rest.append(part.metadata)  # informers release the bytes of a large object
        elif isinstance(part, msgspec.Struct):
            is_metadata = isinstance(part, ObjectMeta)
            rest.extend(
                value
                for name in part.__struct_fields__
                if not (is_metadata and name == "annotations") and (value := getattr(part, name)) is not None
            )
    return size


def namespace_of(resource: Resource, item: Any) -> str:  # noqa: ANN401 - any object with metadata
    """Return the namespace that an object is for: of a Reservation its pods', of a PodMigrationJob its pod's."""
    if item.metadata.namespace or not isinstance(item, UnstructuredObject):
        return str(item.metadata.namespace)
    path = {RESERVATIONS: ("spec", "template", "metadata"), POD_MIGRATION_JOBS: ("spec", "podRef")}.get(resource, ())
    part: object = item.content
    for name in path:
        part = part.get(name) if isinstance(part, Mapping) else None
    namespace = part.get("namespace") if isinstance(part, Mapping) else None
    return namespace if isinstance(namespace, str) else ""
