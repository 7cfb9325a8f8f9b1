"""Writes and reads a cluster as a file that may be shared: it has what explanations need, and nothing else.

Confidential data is left out (`redaction`).
"""

import gzip
import io
import tarfile
import zlib
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from dra.cli.kubectl.snapshots.redaction import redact_snapshot
from dra.engine.diagnosis.descheduling_snapshot import DeschedulingSnapshot
from dra.engine.diagnosis.snapshot import DiagnosedSnapshot, Snapshot
from dra.model.meta import Struct

BUNDLE_VERSION: Final = 2
"""Version of the format; a reader accepts only its own version."""

MANIFEST_NAME: Final = "bundle.json"
SNAPSHOT_NAME: Final = "snapshot.json"
FILE_COUNT: Final = 2

UNPACKED_BYTES_MAX: Final = 256 * 2**20
"""Maximum number of bytes that are unpacked from a bundle, because its content is untrusted."""

Found = TypeVar("Found", bound=Snapshot)


class MalformedBundleError(Exception):
    """A file is no bundle, or a bundle of another version."""


class BundleManifest(Struct, frozen=True):
    """The header of a bundle: its format, its version, and when and from which server it was taken."""

    format: str = "reserve.dra/bundle"
    version: int = BUNDLE_VERSION
    taken: str = ""
    server: str = ""


def write_bundle(snapshot: Snapshot, path: Path) -> None:
    """Write a bundle; the same snapshot gives the same bytes."""
    manifest = BundleManifest(taken=snapshot.taken, server=snapshot.server)
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=0, filename="") as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        for name, content in ((MANIFEST_NAME, manifest), (SNAPSHOT_NAME, redact_snapshot(snapshot))):
            body = msgspec.json.format(msgspec.json.encode(content), indent=1)
            info = tarfile.TarInfo(name)
            info.size = len(body)
            archive.addfile(info, io.BytesIO(body))
    path.write_bytes(packed.getvalue())


def read_bundle(path: Path) -> Snapshot:
    """Return the snapshot of a bundle; raise MalformedBundleError."""
    return _read(path, DiagnosedSnapshot)


def read_descheduling_bundle(path: Path) -> DeschedulingSnapshot:
    """Return the snapshot of a bundle with what descheduling reads; raise MalformedBundleError."""
    return _read(path, DeschedulingSnapshot)


def _read(path: Path, kind: type[Found]) -> Found:
    try:
        with gzip.open(path) as zipped, tarfile.open(fileobj=_LimitedReader(zipped), mode="r|") as archive:
            contents = _read_files(archive)
        manifest = msgspec.json.decode(contents[MANIFEST_NAME], type=BundleManifest)
        if manifest.version != BUNDLE_VERSION:
            raise MalformedBundleError(
                f"{path}: bundle version {manifest.version} is not supported; this program reads version "
                f"{BUNDLE_VERSION}"
            )
        return msgspec.json.decode(contents[SNAPSHOT_NAME], type=kind)
    except KeyError as error:
        raise MalformedBundleError(f"{path}: not a bundle of kubectl dra: file {error} is missing") from error
    except (tarfile.TarError, OSError, EOFError, ValueError, zlib.error, msgspec.MsgspecError) as error:
        raise MalformedBundleError(f"{path}: not a bundle of kubectl dra: {error}") from error
    except RecursionError as error:
        raise MalformedBundleError(f"{path}: not a bundle of kubectl dra: it is nested too deeply") from error


class _LimitedReader(io.RawIOBase):
    """The unpacked archive, which ends with an error after `UNPACKED_BYTES_MAX` bytes, whatever its headers say."""

    def __init__(self, stream: gzip.GzipFile) -> None:
        self._stream = stream
        self._left = UNPACKED_BYTES_MAX

    def read(self, size: int = -1, /) -> bytes:
        """Read as the stream does; raise ValueError after too many bytes."""
        content = self._stream.read(min(size, _CHUNK_BYTES) if size >= 0 else _CHUNK_BYTES)
        self._left -= len(content)
        if self._left < 0:
            raise ValueError(f"it unpacks to more than {UNPACKED_BYTES_MAX >> 20} MiB")
        return content


_CHUNK_BYTES: Final = 2**20


def _read_files(archive: tarfile.TarFile) -> dict[str, bytes]:
    """Return the two files of a bundle, in the order of the archive; nothing is unpacked to a path.

    Links are rejected: the size of a link says nothing about the linked file, and links may form a circle.
    """
    files: dict[str, bytes] = {}
    for info in archive:
        opened = archive.extractfile(info) if info.isreg() and info.name in {MANIFEST_NAME, SNAPSHOT_NAME} else None
        if opened is None or info.name in files:
            raise MalformedBundleError(f"{info.name!r:.60} is not a file of a bundle")
        files[info.name] = opened.read()
        if len(files) == FILE_COUNT:
            break
    return files
