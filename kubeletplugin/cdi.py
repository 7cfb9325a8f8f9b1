"""CDI files: how a container runtime learns what the containers of a claim get.

One file for each prepared claim and driver, of kind ``DRIVER/claim``, with device names ``CLAIMUID-N``: runtimes keep
what they have read in caches, so an id never means something else later. The folder lies in memory as a rule, so the
file is written anew at each prepare and at start; nothing is read back from it.

Two rules of the runtimes' own parser shape the document (both make it reject the whole file): a device without edits
is an error, and so is a version lower than the one that brought a field. Of the versions up to 0.6.0 we need two.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from dra.model.meta import Uid
from kubeletplugin.contract import ContainerEdits, Preparation, PreparedDevice
from kubeletplugin.files import Act, put
from kubeletplugin.steps import Step, Trace, untraced

MODE: Final = 0o644
"""Runtimes may run as another user; nothing in the files is secret."""

_EARLIEST: Final = "0.3.0"
_DIGITS_AND_HOST_PATHS: Final = "0.5.0"

_DRIVER: Final = re.compile(r"[a-z](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_DRIVER_MAX: Final = 63
_UID: Final = re.compile(r"[0-9A-Za-z](?:[0-9A-Za-z._-]{0,126}[0-9A-Za-z])?")

_CLASS: Final = "-claim-"
"""Between driver and uid; in neither, or one driver would take another's files for its own."""

ENCODER: Final = msgspec.json.Encoder()


def checked_driver(name: str) -> str:
    """Return a driver's name if files and CDI kinds can be named after it; raises ValueError.

    A DNS subdomain as the API wants it, and with a letter at first as CDI does.
    """
    if len(name) > _DRIVER_MAX or not _DRIVER.fullmatch(name) or _CLASS in name:
        raise ValueError(f"driver {name[: 2 * _DRIVER_MAX]!r}: not a DNS subdomain that begins with a letter")
    return name


def names_a_file(uid: Uid) -> bool:
    """Whether files can be named after a claim's uid, and told from another driver's; those of API servers can."""
    return _UID.fullmatch(uid) is not None and _CLASS not in uid


def ids(preparation: Preparation) -> tuple[tuple[str, ...], ...]:
    """Return the CDI ids of each device, in order; a device that changes nothing in a container has none."""
    named = _names(preparation)
    return tuple((f"{preparation.driver}/claim={name}",) if name else () for name in named)


def document(preparation: Preparation) -> dict[str, Any] | None:
    """Return the CDI file of a claim, or None if its containers are changed in nothing."""
    devices = [
        {"name": name, "containerEdits": _edits(device.edits) or _mark(preparation, device)}
        for name, device in zip(_names(preparation), preparation.devices, strict=True)
        if name
    ]
    if not devices:
        return None
    common = _edits(preparation.common)
    content = {
        "kind": f"{checked_driver(preparation.driver)}/claim",
        "devices": devices,
        **({"containerEdits": common} if common else {}),
    }
    return {"cdiVersion": _version(devices, common), **content}


def _names(preparation: Preparation) -> tuple[str, ...]:
    common = preparation.common != ContainerEdits()
    return tuple(
        f"{preparation.claim.uid}-{number}" if common or device.edits != ContainerEdits() else ""
        for number, device in enumerate(preparation.devices)
    )


def _mark(preparation: Preparation, device: PreparedDevice) -> dict[str, Any]:
    """Return edits for a device that has none of its own: they change nothing, and make it valid."""
    word = re.sub(r"[^A-Z0-9]", "_", device.device.upper())
    return {"env": [f"DRA_DEVICE_{word}={preparation.driver}/{device.pool}/{device.device}"]}


def _edits(edits: ContainerEdits) -> dict[str, Any]:
    """Return edits as the document has them: what is empty is left out."""
    plain: dict[str, Any] = msgspec.to_builtins(edits)
    return plain


def _version(devices: Iterable[Mapping[str, Any]], common: Mapping[str, Any]) -> str:
    """Return the lowest version that knows all that is used; old runtimes refuse higher ones."""
    edits = [common, *(device["containerEdits"] for device in devices)]
    digits = any(device["name"][0].isdecimal() for device in devices)
    host_paths = any("hostPath" in node for each in edits for node in each.get("deviceNodes", ()))
    return _DIGITS_AND_HOST_PATHS if digits or host_paths else _EARLIEST


class CdiFolder:
    """One driver's files in the folder that container runtimes watch. One writer at a time."""

    def __init__(self, folder: Path, *, driver: str, trace: Trace = untraced) -> None:
        self.folder = folder
        self._prefix = f"{checked_driver(driver)}{_CLASS}"
        self._trace = trace

    @property
    def pattern(self) -> str:
        """What matches all of them, for a shell."""
        return f"{self.folder}/{self._prefix}*.json"

    def path(self, uid: Uid) -> Path:
        """Return the file of a claim. Raises ValueError for a uid that could lead elsewhere."""
        if not names_a_file(uid):
            raise ValueError(f"claim with uid {uid[:128]!r}: no file can be named after it")
        return self.folder / f"{self._prefix}{uid}.json"

    def write(self, preparation: Preparation) -> None:
        """Write a claim's file, or take it away if there is nothing to say. Raises OSError."""
        content = document(preparation)
        if content is None:
            self.remove(preparation.claim.uid)
            return
        path = self.path(preparation.claim.uid)
        self.folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        body = ENCODER.encode(content) + b"\n"
        put(path, body, mode=MODE, sync=False, done=self._done)

    def remove(self, uid: Uid) -> None:
        """Remove a claim's file, if it is there. Raises OSError."""
        self.path(uid).unlink(missing_ok=True)
        self._trace(Step.CDI_REMOVED)

    def uids(self) -> frozenset[Uid]:
        """Return whose files are there."""
        try:
            names = [entry.name for entry in self.folder.iterdir()]
        except FileNotFoundError:
            return frozenset()
        ours = (n[len(self._prefix) :].removesuffix(".json") for n in names if self._ours(n, ".json"))
        return frozenset(Uid(uid) for uid in ours if names_a_file(Uid(uid)))

    def remove_orphans(self, living: Iterable[Uid]) -> frozenset[Uid]:
        """Remove the files of all other claims, and drafts of a writer that died; return whose files they were."""
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

    def _done(self, act: Act) -> None:
        self._trace(Step(f"cdi {act}"))
