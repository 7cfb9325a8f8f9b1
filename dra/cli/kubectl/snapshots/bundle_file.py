"""Writes and reads a cluster as a file that may be shared: it has what explanations need, and nothing else.

Confidential data is left out (`redaction`).
"""

import gzip
import io
import tarfile
import zlib
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeVar, get_args, get_type_hints

import msgspec

from dra.cli.kubectl.snapshots.redaction import SnapshotRedactor
from dra.cli.kubectl.snapshots.shared_values import SharedValues
from dra.engine.diagnosis.descheduling_snapshot import DeschedulingSnapshot
from dra.engine.diagnosis.snapshot import DiagnosedSnapshot, Snapshot
from dra.model.meta import Struct
from dra.model.scheduling import SchedulerPod

BUNDLE_VERSION: Final = 2
"""Version of the format; a reader accepts only its own version."""

MANIFEST_NAME: Final = "bundle.json"
SNAPSHOT_NAME: Final = "snapshot.json"
FILE_COUNT: Final = 2

UNPACKED_BYTES_MAX: Final = 256 * 2**20
"""Maximum number of bytes that are unpacked from a bundle, because its content is untrusted."""

_BATCH: Final = 200
"""Number of objects that are encoded at a time."""

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
    """Write a bundle; the same snapshot gives the same bytes.

    The snapshot is redacted, encoded and compressed piece by piece: in JSON, a large one takes more memory than itself.
    """
    manifest = BundleManifest(taken=snapshot.taken, server=snapshot.server)
    archive = _ArchiveWriter()
    archive.add(MANIFEST_NAME, (msgspec.json.format(msgspec.json.encode(manifest), indent=1),))
    archive.add(SNAPSHOT_NAME, _redacted_json(snapshot))
    path.write_bytes(archive.content())


def _redacted_json(snapshot: Snapshot) -> Iterator[bytes]:
    """Yield the JSON of a redacted snapshot in pieces: the fields with many objects come last."""
    redactor = SnapshotRedactor(snapshot)
    rest = msgspec.json.format(msgspec.json.encode(redactor.rest()), indent=1)
    fields = rest[1:-1].rstrip()
    yield b"{" + fields
    many: tuple[tuple[bytes, Iterator[Struct]], ...] = ((b"claims", redactor.claims()), (b"pods", redactor.pods()))
    between = b"," if fields else b""
    for name, objects in many:
        start = b'%b\n "%b": [\n' % (between, name)
        while batch := [*islice(objects, _BATCH)]:
            items = msgspec.json.format(msgspec.json.encode(batch), indent=1)[2:-2]
            yield start + b" " + items.replace(b"\n", b"\n ")  # no string of JSON has a newline
            start, between = b",\n", b","
        if start == b",\n":
            yield b"\n ]"
    yield b"\n}"


class _ArchiveWriter:
    """A compressed archive of files whose sizes are known only after their last pieces.

    The header of a file has its size and comes before it: header and content are compressed apart. A file of gzip may
    consist of several such parts (RFC 1952, 2.2).
    """

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def add(self, name: str, pieces: Iterable[bytes]) -> None:
        """Add a file that consists of pieces."""
        info = tarfile.TarInfo(name)
        packed = io.BytesIO()
        with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0, filename="") as zipped:
            for piece in pieces:
                info.size += zipped.write(piece)
            zipped.write(bytes(-info.size % tarfile.BLOCKSIZE))
        self._parts += (_packed(info.tobuf(tarfile.USTAR_FORMAT)), packed.getvalue())

    def content(self) -> bytes:
        """Return the archive with its end."""
        return b"".join((*self._parts, _packed(bytes(2 * tarfile.BLOCKSIZE))))


def _packed(content: bytes) -> bytes:
    return gzip.compress(content, mtime=0)


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
        return _decode_snapshot(contents.pop(SNAPSHOT_NAME), kind)
    except KeyError as error:
        raise MalformedBundleError(f"{path}: not a bundle of kubectl dra: file {error} is missing") from error
    except (tarfile.TarError, OSError, EOFError, ValueError, zlib.error, msgspec.MsgspecError) as error:
        raise MalformedBundleError(f"{path}: not a bundle of kubectl dra: {error}") from error
    except RecursionError as error:
        raise MalformedBundleError(f"{path}: not a bundle of kubectl dra: it is nested too deeply") from error


def _decode_snapshot(content: bytes, kind: type[Found]) -> Found:
    """Decode a snapshot, its pods one at a time: equal parts are kept once, as in a snapshot of a cluster."""
    undecoded = msgspec.defstruct(kind.__name__, [("pods", tuple[msgspec.Raw, ...], ())], bases=(kind,), frozen=True)
    split: Any = msgspec.json.decode(content, type=undecoded)
    pods: list[SchedulerPod] = []
    decoder, shared = msgspec.json.Decoder(get_args(get_type_hints(kind)["pods"])[0]), SharedValues()
    for raw in split.pods:
        pods.append(decoder.decode(raw))
        shared.share(pods[-1:])
    fields = {name: getattr(split, name) for name in kind.__struct_fields__}
    return kind(**fields | {"pods": tuple(pods)})


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
