"""CDI specs: tell a container runtime which container edits the containers of a claim get.

There is one file for each prepared claim and driver, of kind ``DRIVER/claim``, with device names ``CLAIMUID-N``:
runtimes cache what they have read, so an id must never get another meaning. The directory usually lies in memory, so
the file is rewritten at each prepare and at start; the plugin takes nothing from its content, and compares it only.

Two rules of the runtimes' parser shape the document (a violation makes the parser reject the whole file): a device
must have edits, and the version must not be lower than the one that introduced a field. Of the versions up to 0.6.0,
the plugin needs two.
"""

import contextlib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from stat import S_ISREG
from typing import Any, Final, NamedTuple

import msgspec

from dra.model.meta import Uid
from kubeletplugin.atomic_files import REPLACEMENT, ReplacementStep, write_atomically
from kubeletplugin.contract import ContainerEdits, PreparedClaim, PreparedDevice

MODE: Final = 0o644
"""File mode of CDI specs: readable by all, since runtimes may run as another user and no content is secret."""

_VERSION_0_3: Final = "0.3.0"
_VERSION_0_5: Final = "0.5.0"

_DRIVER: Final = re.compile(r"[a-z](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_DRIVER_MAX: Final = 63
_UID: Final = re.compile(r"[0-9A-Za-z](?:[0-9A-Za-z._-]{0,126}[0-9A-Za-z])?")

_CLAIM_INFIX: Final = "-claim-"
"""Separator of driver and claim uid in file names.

Neither may contain this separator: one driver could take another driver's files for its own.
"""

ENCODER: Final = msgspec.json.Encoder()


class _Mark(NamedTuple):
    """The state of a file, by which a file that another process has written since is recognized."""

    inode: int
    modified_ns: int
    size: int
    mode: int


def validate_driver_name(name: str) -> str:
    """Return a driver's name if the name is valid in file names and CDI kinds; raises ValueError.

    The API requires a DNS subdomain; CDI requires a letter as its first character.
    """
    if len(name) > _DRIVER_MAX or not _DRIVER.fullmatch(name) or _CLAIM_INFIX in name:
        raise ValueError(f"driver {name[: 2 * _DRIVER_MAX]!r}: not a DNS subdomain that begins with a letter")
    return name


def is_safe_in_file_name(uid: Uid) -> bool:
    """Report whether a claim's uid is safe in a file name, and keeps the names of two drivers distinct.

    The uids that API servers create are safe.
    """
    return _UID.fullmatch(uid) is not None and _CLAIM_INFIX not in uid


def device_ids(preparation: PreparedClaim) -> tuple[tuple[str, ...], ...]:
    """Return the CDI device ids of each device, in order; a device without container edits has no id."""
    named = _device_names(preparation)
    return tuple((f"{preparation.driver}/claim={name}",) if name else () for name in named)


def build_spec(preparation: PreparedClaim) -> dict[str, Any] | None:
    """Return the CDI spec of a claim, or None if the claim has no container edits."""
    devices = [
        {"name": name, "containerEdits": _edits_to_json(device.edits) or _marker_edits(preparation, device)}
        for name, device in zip(_device_names(preparation), preparation.devices, strict=True)
        if name
    ]
    if not devices:
        return None
    common = _edits_to_json(preparation.common)
    content = {
        "kind": f"{validate_driver_name(preparation.driver)}/claim",
        "devices": devices,
        **({"containerEdits": common} if common else {}),
    }
    return {"cdiVersion": _lowest_version(devices, common), **content}


def _device_names(preparation: PreparedClaim) -> tuple[str, ...]:
    common = preparation.common != ContainerEdits()
    return tuple(
        f"{preparation.claim.uid}-{number}" if common or device.edits != ContainerEdits() else ""
        for number, device in enumerate(preparation.devices)
    )


def _marker_edits(preparation: PreparedClaim, device: PreparedDevice) -> dict[str, Any]:
    """Return an environment variable as the edits of a device without edits, which CDI would reject."""
    word = re.sub(r"[^A-Z0-9]", "_", device.device.upper())
    return {"env": [f"DRA_DEVICE_{word}={preparation.driver}/{device.pool}/{device.device}"]}


def _edits_to_json(edits: ContainerEdits) -> dict[str, Any]:
    """Return container edits as JSON; empty fields are omitted."""
    plain: dict[str, Any] = msgspec.to_builtins(edits)
    return plain


def _lowest_version(devices: Iterable[Mapping[str, Any]], common: Mapping[str, Any]) -> str:
    """Return the lowest CDI version that has all used fields; old runtimes reject higher versions."""
    edits = [common, *(device["containerEdits"] for device in devices)]
    digits = any(device["name"][0].isdecimal() for device in devices)
    host_paths = any("hostPath" in node for edit in edits for node in edit.get("deviceNodes", ()))
    return _VERSION_0_5 if digits or host_paths else _VERSION_0_3


def _encode(content: Mapping[str, Any]) -> bytes:
    return ENCODER.encode(content) + b"\n"


def _mark(state: os.stat_result) -> _Mark:
    return _Mark(state.st_ino, state.st_mtime_ns, state.st_size, state.st_mode)


class CdiSpecDirectory:
    """The CDI specs of one driver in the directory that container runtimes watch; one writer at a time."""

    def __init__(self, folder: Path, *, driver: str, steps: Sequence[ReplacementStep] = REPLACEMENT) -> None:
        self.folder = folder
        self._prefix = f"{validate_driver_name(driver)}{_CLAIM_INFIX}"
        self._steps = steps
        self._marks: dict[Uid, _Mark] = {}
        """The CDI specs as this process has written them."""

    @property
    def pattern(self) -> str:
        """The shell pattern that matches all CDI specs of the driver."""
        return f"{self.folder}/{self._prefix}*.json"

    def path(self, uid: Uid) -> Path:
        """Return the path of a claim's CDI spec; raises ValueError for a uid that is unsafe in a path."""
        return Path(self._file(uid))

    def _file(self, uid: Uid) -> str:
        if not is_safe_in_file_name(uid):
            raise ValueError(f"claim with uid {uid[:128]!r}: the uid cannot be part of a file name")
        return f"{self.folder}/{self._prefix}{uid}.json"

    def write(self, preparation: PreparedClaim) -> None:
        """Write the CDI spec of a claim, or remove the file if the claim has no container edits. Raises OSError."""
        content = build_spec(preparation)
        if content is None:
            self.remove(preparation.claim.uid)
            return
        path = self._file(preparation.claim.uid)
        body = _encode(content)
        self._marks.pop(preparation.claim.uid, None)  # until it is written: the old spec may have other edits
        try:
            written = write_atomically(path, body, mode=MODE, sync=False, steps=self._steps)
        except FileNotFoundError:
            self.folder.mkdir(mode=0o755, parents=True, exist_ok=True)
            written = write_atomically(path, body, mode=MODE, sync=False, steps=self._steps)
        self._marks[preparation.claim.uid] = _mark(written)

    def remove(self, uid: Uid) -> None:
        """Remove the CDI spec of a claim, if there is one. Raises OSError."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._file(uid))  # noqa: PTH108 - a string, as in `atomic_files`
        self._marks.pop(uid, None)

    def is_intact(self, preparation: PreparedClaim) -> bool:
        """Return whether a claim's CDI spec is as it was written, or another instance wrote the same. Raises OSError.

        A spec that does not exist is not intact, unless the claim has no container edits.
        """
        uid = preparation.claim.uid
        try:
            status = self.path(uid).lstat()
        except FileNotFoundError:
            self._marks.pop(uid, None)
            return build_spec(preparation) is None
        if self._marks.get(uid) == _mark(status):
            return True
        content = build_spec(preparation)
        if content is None:
            return True
        body = _encode(content)
        if not S_ISREG(status.st_mode) or status.st_size != len(body) or self.path(uid).read_bytes() != body:
            return False
        self._marks[uid] = _mark(status)
        return True

    def uids(self) -> frozenset[Uid]:
        """Return the uids of the claims that have a CDI spec."""
        try:
            names = [entry.name for entry in self.folder.iterdir()]
        except FileNotFoundError:
            return frozenset()
        ours = (n[len(self._prefix) :].removesuffix(".json") for n in names if self._ours(n, ".json"))
        return frozenset(Uid(uid) for uid in ours if is_safe_in_file_name(Uid(uid)))

    def remove_orphans(self, living: Iterable[Uid]) -> frozenset[Uid]:
        """Remove the CDI specs of all other claims, and temporary files of dead writers; return the claims' uids."""
        orphans = self.uids().difference(living)
        for uid in orphans:
            self.remove(uid)
        if self.folder.is_dir():
            for entry in tuple(self.folder.iterdir()):
                if self._ours(entry.name.removeprefix("."), ".json.tmp") and entry.name.startswith("."):
                    entry.unlink(missing_ok=True)
        return orphans

    def _ours(self, name: str, suffix: str) -> bool:
        return name.startswith(self._prefix) and name.endswith(suffix)
