"""What must outlive the process: one file, and the state before it.

``{"version": 1, "checksum": "sha256:…", "content": [ … ]}``, the checksum over the bytes of ``content`` as they are in
the file. It is there for half-written blocks and for well-meant changes by hand, not for attackers, who do not get into
the folder. SHA-256 rather than a CRC: it costs a thousandth of the fsync, misses nothing, and every shell has it.

Written beside, synced, renamed, folder synced: there is a whole state at all times. What cannot be read, or was written
by a newer version of us, is an error that a person has to settle: taking it for empty would forget who holds what, and
a device would be given away twice.
"""

import hashlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Generic, TypeAlias, TypeVar

import msgspec

from dra.model.meta import Struct
from kubeletplugin.atomic_files import WriteStep, write_atomically
from kubeletplugin.prepare_steps import PrepareStep, StepObserver, ignore_step

T = TypeVar("T")

CHECKPOINT_FILE: Final = "checkpoint.json"
"""Its name, in the folder of each driver."""

CHECKPOINT_VERSION: Final = 1
"""Of the document. A change that version 1 must not read as its own needs the next number."""

MODE: Final = 0o600

BLOCKED_NOTICE: Final = "Nothing is prepared or unprepared until that is settled."

_Signature: TypeAlias = tuple[int, int, int]


class CheckpointError(Exception):
    """The file cannot be read, or not be written; the text names it and the way out."""


class _Envelope(Struct, frozen=True):
    version: int


class _Document(Struct, frozen=True):
    version: int
    checksum: str
    content: msgspec.Raw


class _CorruptCheckpointError(Exception):
    """What is wrong with a document; completes "checkpoint FILE …"."""


class Checkpoint(Generic[T]):
    """A tuple of structs in a file. One writer at a time; blocks, so it is called from worker threads."""

    def __init__(
        self, path: Path, model: type[T], *, beside: str = "", sync: bool = True, trace: StepObserver = ignore_step
    ) -> None:
        """``beside``: a pattern of files that tell of the same, and must go with it when somebody starts afresh."""
        self.path = path
        self.previous = path.with_name(f"{path.name}.previous")
        self._beside = beside
        self._sync = sync
        self._trace = trace
        self._content = msgspec.json.Decoder(tuple[model, ...])  # type: ignore[valid-type]
        self._encoder = msgspec.json.Encoder()
        self._signature: _Signature | None = None
        self._known = False

    @property
    def changed(self) -> bool:
        """Whether somebody else has written it since we did or read it."""
        return not self._known or self._read_signature() != self._signature

    @property
    def missing(self) -> bool:
        """Whether there is no file: nothing was ever written, or somebody removed it."""
        return self._read_signature() is None

    def read(self) -> tuple[T, ...]:
        """Return what was written last; nothing, if nothing ever was. Raises CheckpointError."""
        self._known = False
        signature = self._read_signature()
        try:
            content = self._parsed(self.path.read_bytes())
        except FileNotFoundError:
            if self.previous.exists():
                raise CheckpointError(self._with_advice("is missing, but the state before it is there")) from None
            content = ()
        except OSError as error:
            raise CheckpointError(f"checkpoint {self.path}: cannot be read: {error.strerror}") from error
        except _CorruptCheckpointError as error:
            raise CheckpointError(self._with_advice(str(error))) from error
        self._signature, self._known = signature, True
        return content

    def lost(self, flaw: str) -> CheckpointError:
        """Return what is to be said when others know that something must have been written."""
        return CheckpointError(f"checkpoint {self.path} {flaw}. {BLOCKED_NOTICE} {self._start_afresh_command}")

    def write(self, content: tuple[T, ...]) -> None:
        """Replace the file; raises CheckpointError, and then the old state holds.

        If only the sync of the folder fails, which is the last thing, `changed` is true: the next reader sees what is.
        """
        self._known = False
        try:
            state = write_atomically(
                self.path,
                self._rendered(content),
                mode=MODE,
                sync=self._sync,
                previous=self.previous,
                done=self._done,
            )
        except (TypeError, ValueError, msgspec.MsgspecError) as error:
            raise CheckpointError(f"checkpoint {self.path}: this cannot be written to it: {error}") from error
        except OSError as error:
            raise CheckpointError(
                f"checkpoint {self.path}: cannot be written: {error.strerror}; what it says stays as it is. "
                "Make room on that file system, or give it write access; it is tried again with the next call"
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
                    f"ours is {CHECKPOINT_VERSION}); install that version again"
                )
            if version < CHECKPOINT_VERSION:
                raise _CorruptCheckpointError(f"is damaged (there was no document version {version})")
            document = msgspec.json.decode(body, type=_Document)
            content = bytes(document.content)
            if (checksum := _checksum(content)) != document.checksum:
                raise _CorruptCheckpointError(
                    f"has been changed or damaged (checksum {checksum}, noted {document.checksum})"
                )
            return self._content.decode(content)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise _CorruptCheckpointError(f"is damaged ({len(body)} bytes: {error})") from error

    def _with_advice(self, flaw: str) -> str:
        return f"checkpoint {self.path} {flaw}. {BLOCKED_NOTICE} {self._advice()}"

    @property
    def _start_afresh_command(self) -> str:
        files = " ".join(filter(None, (str(self.path), str(self.previous), self._beside)))
        return f"Once no pod of this node uses the driver, start afresh: stop the plugin, rm -f {files}"

    def _advice(self) -> str:
        current, before, anew = self.path, self.previous, self._start_afresh_command
        try:
            entries = len(self._parsed(before.read_bytes()))
            written = datetime.fromtimestamp(before.stat().st_mtime, tz=UTC)
        except (OSError, _CorruptCheckpointError):
            return f"There is no state before it that can be read. {anew}"
        return (
            f"The state before it ({entries} claims, written {written:%Y-%m-%d %H:%M:%S} UTC) is whole, but lacks the "
            f"last change: stop the plugin, mv {before} {current}, and delete the pods of this node that use the "
            f"driver and were started or ended after that time. {anew}"
        )

    def _done(self, act: WriteStep) -> None:
        self._trace(PrepareStep(f"checkpoint {act}"))


def _checksum(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
