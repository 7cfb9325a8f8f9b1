"""The checkpoint of a driver: a file with the state that must survive the process, and the file of the state before.

The document is ``{"version": 1, "checksum": "sha256:…", "content": [ … ]}``, with the checksum over the bytes of
``content`` as they are in the file. The checksum detects half-written blocks and manual edits; it does not protect
against attackers, who have no access to the directory. SHA-256 rather than a CRC: it costs a thousandth of the fsync,
misses no damage, and every shell has it.

A temporary file is written and synced, then renamed, then the directory is synced: a complete state exists at all
times. A checkpoint that cannot be read, or was written by a newer version of the plugin, is an error that an
administrator has to resolve: treating it as empty would forget which claim holds which device, and a device would be
allocated twice.
"""

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Generic, TypeAlias, TypeVar

import msgspec

from dra.model.meta import Struct
from kubeletplugin.atomic_files import REPLACEMENT, ReplacementStep, read_durably, write_atomically

T = TypeVar("T")

CHECKPOINT_FILE: Final = "checkpoint.json"
"""Name of the checkpoint in the directory of each driver."""

CHECKPOINT_VERSION: Final = 1
"""Version of the document; a change that code of version 1 must not read needs the next number."""

MODE: Final = 0o600

BLOCKED_NOTICE: Final = "No claim is prepared or unprepared until you resolve this."

_Signature: TypeAlias = tuple[int, int, int]


class CheckpointError(Exception):
    """A checkpoint cannot be read or written; the text names the file and the remedy."""


class _Envelope(Struct, frozen=True):
    version: int


class _Document(Struct, frozen=True):
    version: int
    checksum: str
    content: msgspec.Raw


class _CorruptCheckpointError(Exception):
    """A document is corrupt; the text completes "checkpoint FILE …"."""


class Checkpoint(Generic[T]):
    """A tuple of structs in a file; one writer at a time.

    The methods block: call them from worker threads.
    """

    def __init__(
        self,
        path: Path,
        model: type[T],
        *,
        related_files: str = "",
        sync: bool = True,
        steps: Sequence[ReplacementStep] = REPLACEMENT,
    ) -> None:
        """Create a checkpoint; nothing is read yet.

        ``related_files`` is a pattern of files that repeat the content, and must be removed with the checkpoint when an
        administrator starts afresh.
        """
        self.path = path
        self.previous = path.with_name(f"{path.name}.previous")
        self._related_files = related_files
        self._sync = sync
        self._steps = steps
        self._content = msgspec.json.Decoder(tuple[model, ...])  # type: ignore[valid-type]
        self._encoder = msgspec.json.Encoder()
        self._signature: _Signature | None = None
        self._known = False

    @property
    def changed(self) -> bool:
        """Whether another process has written the file since this object read or wrote it last."""
        return not self._known or self._read_signature() != self._signature

    @property
    def missing(self) -> bool:
        """Whether the file does not exist: nothing was ever written, or the file was removed."""
        return self._read_signature() is None

    def read(self) -> tuple[T, ...]:
        """Return the content that was written last, once it is durable; empty if nothing was ever written.

        Raises CheckpointError.
        """
        self._known = False
        signature = self._read_signature()
        try:
            content = self._parsed(read_durably(self.path) if self._sync else self.path.read_bytes())
        except FileNotFoundError:
            if self.previous.exists():
                raise CheckpointError(self._with_advice("is missing, but its previous version exists")) from None
            content = ()
        except OSError as error:
            raise CheckpointError(f"checkpoint {self.path}: cannot be read: {error.strerror}") from error
        except _CorruptCheckpointError as error:
            raise CheckpointError(self._with_advice(str(error))) from error
        self._signature, self._known = signature, True
        return content

    def lost(self, flaw: str) -> CheckpointError:
        """Return the error to raise when other files show that a checkpoint must have been written."""
        return CheckpointError(f"checkpoint {self.path} {flaw}. {BLOCKED_NOTICE} {self._start_afresh_command}")

    def write(self, content: tuple[T, ...]) -> None:
        """Replace the file; raises CheckpointError, and then the old state is valid.

        If only the last step fails, the sync of the directory, `changed` is true: the next caller reads the file again.
        """
        self._known = False
        try:
            state = write_atomically(
                self.path,
                self._rendered(content),
                mode=MODE,
                sync=self._sync,
                previous=self.previous,
                steps=self._steps,
            )
        except (TypeError, ValueError, msgspec.MsgspecError) as error:
            raise CheckpointError(f"checkpoint {self.path}: its content cannot be encoded: {error}") from error
        except OSError as error:
            raise CheckpointError(
                f"checkpoint {self.path}: cannot be written: {error.strerror}; its content is unchanged. "
                "Free space on the file system, or mount it for writing; the next call retries"
            ) from error
        self._signature, self._known = (state.st_ino, state.st_mtime_ns, state.st_size), True

    def _read_signature(self) -> _Signature | None:
        try:
            state = self.path.stat()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise CheckpointError(f"checkpoint {self.path}: cannot be read: {error.strerror}") from error
        return (state.st_ino, state.st_mtime_ns, state.st_size)

    def _rendered(self, content: tuple[T, ...]) -> bytes:
        body = self._encoder.encode(content)
        return b'{"version":%d,"checksum":"%s","content":%s}\n' % (CHECKPOINT_VERSION, _checksum(body).encode(), body)

    def _parsed(self, body: bytes) -> tuple[T, ...]:
        try:
            version = msgspec.json.decode(body, type=_Envelope).version
            if version > CHECKPOINT_VERSION:
                raise _CorruptCheckpointError(
                    f"was written by a newer version of this plugin (document version {version}, "
                    f"supported: {CHECKPOINT_VERSION}); install that version again"
                )
            if version < CHECKPOINT_VERSION:
                raise _CorruptCheckpointError(f"is damaged (document version {version} does not exist)")
            document = msgspec.json.decode(body, type=_Document)
            content = bytes(document.content)
            if (checksum := _checksum(content)) != document.checksum:
                raise _CorruptCheckpointError(
                    f"has been changed or damaged (checksum {checksum}, expected {document.checksum})"
                )
            return self._content.decode(content)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise _CorruptCheckpointError(f"is damaged ({len(body)} bytes: {error})") from error

    def _with_advice(self, flaw: str) -> str:
        return f"checkpoint {self.path} {flaw}. {BLOCKED_NOTICE} {self._advice()}"

    @property
    def _start_afresh_command(self) -> str:
        files = " ".join(filter(None, (str(self.path), str(self.previous), self._related_files)))
        return (
            "To start with an empty checkpoint, once no pod on this node uses the driver: "
            f"stop the plugin, rm -f {files}"
        )

    def _advice(self) -> str:
        current, before, anew = self.path, self.previous, self._start_afresh_command
        try:
            entries = len(self._parsed(before.read_bytes()))
            written = datetime.fromtimestamp(before.stat().st_mtime, tz=UTC)
        except (OSError, _CorruptCheckpointError):
            return f"Its previous version cannot be read. {anew}"
        return (
            f"Its previous version ({entries} claims, written {written:%Y-%m-%d %H:%M:%S} UTC) is intact, but lacks "
            f"the last change: stop the plugin, mv {before} {current}, and delete the pods on this node that use the "
            f"driver and started or ended after that time. {anew}"
        )


def _checksum(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
