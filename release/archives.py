"""Archives with nothing in them but names, modes and contents: the same files make the same bytes."""

import gzip
import io
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MODE_FILE: Final = 0o644
MODE_PROGRAM: Final = 0o755


@dataclass(frozen=True, slots=True)
class Entry:
    """A file of an archive."""

    content: bytes
    mode: int = MODE_FILE


def write_archive(path: Path, entries: Mapping[str, Entry]) -> None:
    """Write a ``.tar.gz`` of files, in the order of their names, all from 1970 and of no user."""
    with (
        path.open("wb") as raw,
        gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name, entry in sorted(entries.items()):
            header = tarfile.TarInfo(name)
            header.size, header.mode = len(entry.content), entry.mode
            archive.addfile(header, io.BytesIO(entry.content))
