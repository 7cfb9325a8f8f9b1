"""The journal of what was given back by hand: beside the checkpoint, a line of JSON each.

A device that was given back too early is given out twice; then somebody asks who did it, when, and why they thought
that they might.
"""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from dra.kube.clock import SYSTEM
from dra.model.meta import Uid
from kubeletplugin.contract import PreparedClaim

JOURNAL_FILE: Final = "releases.jsonl"
_MODE: Final = 0o600


def record_release(folder: Path, preparation: PreparedClaim, *, because: str) -> None:
    """Write down what is about to be done, and sync; raises OSError."""
    claim = preparation.claim
    entry: dict[str, Any] = {
        "time": SYSTEM.wall().isoformat(timespec="seconds"),
        "claim": "/".join(claim.key),
        "uid": claim.uid,
        "devices": [f"{each.pool}/{each.device}" for each in preparation.devices],
        "because": because,
    }
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
    descriptor = os.open(folder / JOURNAL_FILE, flags, _MODE)
    try:
        os.write(descriptor, json.dumps(entry).encode() + b"\n")
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_releases(folder: Path) -> Mapping[Uid, str]:
    """Return of each claim when and why it was given back last; what cannot be read is left out."""
    return dict(_entries(folder))


def _entries(folder: Path) -> Iterator[tuple[Uid, str]]:
    try:
        lines = (folder / JOURNAL_FILE).read_bytes().splitlines()
    except OSError:
        return
    for line in lines:
        try:
            entry = json.loads(line)
            yield Uid(entry["uid"]), f"{entry['time']}, {entry['because']}"
        except (ValueError, KeyError, TypeError):  # half a line: the disk was full
            continue
