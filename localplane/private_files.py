"""Writes files that only their owner may read."""

import os
from pathlib import Path


def write_private_file(path: Path, raw: bytes) -> None:
    """Write a file with mode 0600 atomically: a reader finds the old content or the new one."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:  # noqa: PTH123 - a mode
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
