"""NVIDIA's kernel driver as both inventories of its GPUs see it: names, and a mark that changes with the driver."""

from collections.abc import Hashable
from pathlib import Path
from typing import Final

NVIDIA: Final = "nvidia"
"""The vendor as Koordinator's label of the Node has it."""

LIST_COMMAND: Final = "nvidia-smi -L"
"""Command that lists the GPUs of a node."""


def nvidia_driver_mark(*, sysfs: Path, proc: Path) -> Hashable:
    """Return a fingerprint of NVIDIA's kernel driver that changes when the driver is loaded again or gets other GPUs.

    Nothing is read from a GPU, which could have to wake up: sysfs makes a new inode for each load of the module.
    """
    gpus = proc / "driver" / "nvidia" / "gpus"
    try:
        addresses = sorted(entry.name for entry in gpus.iterdir())
    except OSError:
        addresses = []
    files = [sysfs / "module" / "nvidia", sysfs / "module" / "nvidia" / "version"]
    for at in addresses:
        files += [gpus / at / "information", sysfs / "bus" / "pci" / "devices" / at]
    return tuple(addresses), tuple(_signature(file) for file in files)


def _signature(path: Path) -> tuple[int, int, int] | None:
    try:
        state = path.stat()
    except OSError:
        return None
    return state.st_dev, state.st_ino, state.st_mtime_ns
