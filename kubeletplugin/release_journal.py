"""The journal of manual releases: a file beside the checkpoint with one line of JSON for each release.

A device that is released too early may be allocated twice; then the journal shows when and why it was released.
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
    """Append an entry for a release that is about to happen, and sync the file; raises OSError."""
    claim = preparation.claim
    entry: dict[str, Any] = {
        "time": SYSTEM.wall().isoformat(timespec="seconds"),
        "claim": "/".join(claim.key),
        "uid": claim.uid,
        "devices": [f"{device.pool}/{device.device}" for device in preparation.devices],
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
    """Return the time and the reason of each claim's last manual release, by uid; unreadable entries are omitted."""
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
        except (ValueError, KeyError, TypeError):  # an incomplete line: the disk was full
            continue
