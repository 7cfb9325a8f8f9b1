"""A cluster in a file that may be sent to somebody else: what explanations need, and nothing else.

What is nobody's business is not in it (`redaction`).
"""

import gzip
import io
import tarfile
from pathlib import Path
from typing import Final

import msgspec

from dra.cli.kubectl.reading.redaction import redacted
from dra.engine.explain.snapshot import Snapshot
from dra.model.meta import Struct

VERSION: Final = 2
"""Of the format; a reader takes its own version only."""

MANIFEST: Final = "bundle.json"
SNAPSHOT: Final = "snapshot.json"
LARGEST: Final = 512 * 2**20
"""Bytes of a snapshot that are read: a file that somebody sent may claim to be anything."""


class MalformedBundleError(Exception):
    """A file that is no bundle, or one of another version."""


class Manifest(Struct, frozen=True):
    """What a bundle says of itself."""

    format: str = "reserve.dra/bundle"
    version: int = VERSION
    taken: str = ""
    server: str = ""


def write(snapshot: Snapshot, path: Path) -> None:
    """Write a bundle; the same snapshot gives the same bytes."""
    manifest = Manifest(taken=snapshot.taken, server=snapshot.server)
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=0, filename="") as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        for name, content in ((MANIFEST, manifest), (SNAPSHOT, redacted(snapshot))):
            body = msgspec.json.format(msgspec.json.encode(content), indent=1)
            info = tarfile.TarInfo(name)
            info.size = len(body)
            archive.addfile(info, io.BytesIO(body))
    path.write_bytes(packed.getvalue())


def read(path: Path) -> Snapshot:
    """Return what a bundle holds. Raises MalformedBundleError."""
    try:
        with tarfile.open(path, mode="r:gz") as archive:
            manifest = msgspec.json.decode(_member(archive, MANIFEST), type=Manifest)
            if manifest.version != VERSION:
                raise MalformedBundleError(
                    f"{path}: is a bundle of version {manifest.version}, this program reads version {VERSION}"
                )
            return msgspec.json.decode(_member(archive, SNAPSHOT), type=Snapshot)
    except (tarfile.TarError, OSError, EOFError, KeyError, msgspec.DecodeError) as error:
        raise MalformedBundleError(f"{path}: is no bundle of kubectl dra: {error}") from error


def _member(archive: tarfile.TarFile, name: str) -> bytes:
    """Return a file of an archive; nothing is ever unpacked to a path."""
    info = archive.getmember(name)
    opened = archive.extractfile(info)
    if opened is None or info.size > LARGEST:
        raise MalformedBundleError(f"{name} is no file of a bundle")
    return opened.read()
