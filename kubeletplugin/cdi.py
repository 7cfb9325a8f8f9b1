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
from kubeletplugin.atomic_files import WriteStep, write_atomically
from kubeletplugin.contract import ContainerEdits, PreparedClaim, PreparedDevice
from kubeletplugin.prepare_steps import PrepareStep, StepObserver, ignore_step

MODE: Final = 0o644
"""Runtimes may run as another user; nothing in the files is secret."""

_VERSION_0_3: Final = "0.3.0"
_VERSION_0_5: Final = "0.5.0"

_DRIVER: Final = re.compile(r"[a-z](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_DRIVER_MAX: Final = 63
_UID: Final = re.compile(r"[0-9A-Za-z](?:[0-9A-Za-z._-]{0,126}[0-9A-Za-z])?")

_CLAIM_INFIX: Final = "-claim-"
"""Between driver and uid; in neither, or one driver would take another's files for its own."""

ENCODER: Final = msgspec.json.Encoder()


def validate_driver_name(name: str) -> str:
    """Return a driver's name if files and CDI kinds can be named after it; raises ValueError.

    A DNS subdomain as the API wants it, and with a letter at first as CDI does.
    """
    if len(name) > _DRIVER_MAX or not _DRIVER.fullmatch(name) or _CLAIM_INFIX in name:
        raise ValueError(f"driver {name[: 2 * _DRIVER_MAX]!r}: not a DNS subdomain that begins with a letter")
    return name


def is_safe_in_file_name(uid: Uid) -> bool:
    """Whether files can be named after a claim's uid, and told from another driver's; those of API servers can."""
    return _UID.fullmatch(uid) is not None and _CLAIM_INFIX not in uid


def device_ids(preparation: PreparedClaim) -> tuple[tuple[str, ...], ...]:
    """Return the CDI ids of each device, in order; a device that changes nothing in a container has none."""
    named = _device_names(preparation)
    return tuple((f"{preparation.driver}/claim={name}",) if name else () for name in named)


def build_spec(preparation: PreparedClaim) -> dict[str, Any] | None:
    """Return the CDI file of a claim, or None if its containers are changed in nothing."""
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
    """Return edits for a device that has none of its own: they change nothing, and make it valid."""
    word = re.sub(r"[^A-Z0-9]", "_", device.device.upper())
    return {"env": [f"DRA_DEVICE_{word}={preparation.driver}/{device.pool}/{device.device}"]}


def _edits_to_json(edits: ContainerEdits) -> dict[str, Any]:
    """Return edits as the document has them: what is empty is left out."""
    plain: dict[str, Any] = msgspec.to_builtins(edits)
    return plain


def _lowest_version(devices: Iterable[Mapping[str, Any]], common: Mapping[str, Any]) -> str:
    """Return the lowest version that knows all that is used; old runtimes refuse higher ones."""
    edits = [common, *(device["containerEdits"] for device in devices)]
    digits = any(device["name"][0].isdecimal() for device in devices)
    host_paths = any("hostPath" in node for each in edits for node in each.get("deviceNodes", ()))
    return _VERSION_0_5 if digits or host_paths else _VERSION_0_3


class CdiSpecDirectory:
    """One driver's files in the folder that container runtimes watch. One writer at a time."""

    def __init__(self, folder: Path, *, driver: str, trace: StepObserver = ignore_step) -> None:
        self.folder = folder
        self._prefix = f"{validate_driver_name(driver)}{_CLAIM_INFIX}"
        self._trace = trace

    @property
    def pattern(self) -> str:
        """What matches all of them, for a shell."""
        return f"{self.folder}/{self._prefix}*.json"

    def path(self, uid: Uid) -> Path:
        """Return the file of a claim. Raises ValueError for a uid that could lead elsewhere."""
        if not is_safe_in_file_name(uid):
            raise ValueError(f"claim with uid {uid[:128]!r}: no file can be named after it")
        return self.folder / f"{self._prefix}{uid}.json"

    def write(self, preparation: PreparedClaim) -> None:
        """Write a claim's file, or take it away if there is nothing to say. Raises OSError."""
        content = build_spec(preparation)
        if content is None:
            self.remove(preparation.claim.uid)
            return
        path = self.path(preparation.claim.uid)
        self.folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        body = ENCODER.encode(content) + b"\n"
        write_atomically(path, body, mode=MODE, sync=False, done=self._done)

    def remove(self, uid: Uid) -> None:
        """Remove a claim's file, if it is there. Raises OSError."""
        self.path(uid).unlink(missing_ok=True)
        self._trace(PrepareStep.CDI_REMOVED)

    def uids(self) -> frozenset[Uid]:
        """Return whose files are there."""
        try:
            names = [entry.name for entry in self.folder.iterdir()]
        except FileNotFoundError:
            return frozenset()
        ours = (n[len(self._prefix) :].removesuffix(".json") for n in names if self._ours(n, ".json"))
        return frozenset(Uid(uid) for uid in ours if is_safe_in_file_name(Uid(uid)))

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

    def _done(self, act: WriteStep) -> None:
        self._trace(PrepareStep(f"cdi {act}"))
