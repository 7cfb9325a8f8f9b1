"""The state of a plane in a file, and back: one JSON line that tells what follows, then one line for each object.

A snapshot holds objects, their uids and versions, and how far the revision counter had come; not the history. It is
written beside its place and then moved there, so a file of that name is always whole.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from localplane.store import ObjectKey, Store, StoredObject

FORMAT: Final = "reserve.dra/snapshot"
VERSION: Final = 1


class SnapshotHeader(msgspec.Struct, frozen=True, kw_only=True):
    """The first line."""

    format: str
    version: int
    revision: int
    objects: int
    """How many lines follow."""
    api: str = ""
    """Which API the plane had."""


class _SnapshotLine(msgspec.Struct, frozen=True, kw_only=True):
    collection: str
    namespace: str
    name: str
    revision: int
    object: msgspec.Raw


class MalformedSnapshotError(ValueError):
    """A file that is no snapshot, or not a whole one."""


_header_decoder: Final = msgspec.json.Decoder(SnapshotHeader)
_line_decoder: Final = msgspec.json.Decoder(_SnapshotLine)


def dump(store: Store, *, api: str = "") -> bytes:
    """Return the state of a store."""
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
    """Put the state of a snapshot into a store; raises MalformedSnapshotError, and has changed nothing then."""
    header = read_header(raw)
    try:
        objects = list(_read_objects(raw))
    except msgspec.DecodeError as error:
        raise MalformedSnapshotError(f"a line of it cannot be read: {error}") from error
    if len(objects) != header.objects:
        raise MalformedSnapshotError(f"it has {len(objects)} objects of {header.objects}: its end is missing")
    store.restore(objects, revision=header.revision)
    return header


def read_header(raw: bytes) -> SnapshotHeader:
    """Return what a snapshot says of itself; raises MalformedSnapshotError."""
    try:
        header = _header_decoder.decode(raw[: raw.find(b"\n") + 1])
    except msgspec.DecodeError as error:
        raise MalformedSnapshotError(f"it does not begin as a snapshot does: {error}") from error
    if (header.format, header.version) != (FORMAT, VERSION):
        raise MalformedSnapshotError(f"it is {header.format} version {header.version}, not {FORMAT} version {VERSION}")
    return header


def write_snapshot(path: Path, raw: bytes) -> None:
    """Write a file so that whoever reads it finds the old content or the new one; only its owner may."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:  # noqa: PTH123 - a mode
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _read_objects(raw: bytes) -> Iterator[StoredObject]:
    for line in filter(None, raw.split(b"\n")[1:]):
        each = _line_decoder.decode(line)
        yield StoredObject(ObjectKey(each.collection, each.namespace, each.name), each.revision, bytes(each.object))
