"""Saves and restores the state of a plane as a file of JSON lines: a header, then one line for each object.

A snapshot holds objects with their uids and versions, and the revision counter; not the history.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from localplane.store import ObjectKey, Store, StoredObject

FORMAT: Final = "reserve.dra/snapshot"
VERSION: Final = 1


class SnapshotHeader(msgspec.Struct, frozen=True, kw_only=True):
    """The first line of a snapshot file."""

    format: str
    version: int
    revision: int
    objects: int
    """Number of object lines that follow."""
    api: str = ""
    """API dialect of the saved plane."""


class _SnapshotLine(msgspec.Struct, frozen=True, kw_only=True):
    collection: str
    namespace: str
    name: str
    revision: int
    object: msgspec.Raw


class MalformedSnapshotError(ValueError):
    """The error of a file that is no snapshot or an incomplete one."""


_header_decoder: Final = msgspec.json.Decoder(SnapshotHeader)
_line_decoder: Final = msgspec.json.Decoder(_SnapshotLine)


def dump(store: Store, *, api: str = "") -> bytes:
    """Return the state of a store as a snapshot."""
    lines = [
        _SnapshotLine(
            collection=name,
            namespace=stored.key.namespace,
            name=stored.key.name,
            revision=stored.revision,
            object=msgspec.Raw(stored.raw),
        )
        for name in sorted(store.collections())
        for stored in store.snapshot(name)
    ]
    header = SnapshotHeader(format=FORMAT, version=VERSION, revision=store.revision, objects=len(lines), api=api)
    return b"".join(msgspec.json.encode(line) + b"\n" for line in (header, *lines))


def load(raw: bytes, store: Store) -> SnapshotHeader:
    """Replace the state of a store by a snapshot; raises MalformedSnapshotError before any change."""
    header = read_header(raw)
    try:
        objects = list(_read_objects(raw))
    except msgspec.DecodeError as error:
        raise MalformedSnapshotError(f"a line is malformed: {error}") from error
    if len(objects) != header.objects:
        raise MalformedSnapshotError(
            f"the end is missing: the file contains {len(objects)} of {header.objects} objects"
        )
    store.restore(objects, revision=header.revision)
    return header


def read_header(raw: bytes) -> SnapshotHeader:
    """Return the header of a snapshot; raises MalformedSnapshotError."""
    try:
        header = _header_decoder.decode(raw[: raw.find(b"\n") + 1])
    except msgspec.DecodeError as error:
        raise MalformedSnapshotError(f"the first line is not the header of a snapshot: {error}") from error
    if (header.format, header.version) != (FORMAT, VERSION):
        raise MalformedSnapshotError(
            f"the format is {header.format} version {header.version}; {FORMAT} version {VERSION} is required"
        )
    return header


def _read_objects(raw: bytes) -> Iterator[StoredObject]:
    for line in filter(None, raw.split(b"\n")[1:]):
        record = _line_decoder.decode(line)
        yield StoredObject(
            ObjectKey(record.collection, record.namespace, record.name), record.revision, bytes(record.object)
        )
