"""The GPU driver of a node, put together from a word: ``nvml``, ``sysfs`` or ``simulated:FILE``.

Simulated GPUs get simulated edits and time slices; with the others it is NVIDIA's files and programs. Nothing falls
back to anything: a node that was told to use NVML and cannot says so, it does not quietly offer less.
"""

from functools import partial
from pathlib import Path

from kubeletplugin import checkpoint
from kubeletplugin.drivers.gpu.devices import Publication
from kubeletplugin.drivers.gpu.driver import GpuDriver
from kubeletplugin.drivers.gpu.driver_root import DriverRoot
from kubeletplugin.drivers.gpu.edits import SimulatedEdits
from kubeletplugin.drivers.gpu.nvidia_edits import NvidiaEdits
from kubeletplugin.drivers.gpu.time_slice_record import FILE, TimeSliceRecord
from kubeletplugin.drivers.gpu.time_slices import SimulatedTimeSlicing, SmiTimeSlicing
from kubeletplugin.inventory.gpus import GpuInventory
from kubeletplugin.inventory.nvml import NvmlGpus, library
from kubeletplugin.inventory.nvml_events import IGNORED_XIDS
from kubeletplugin.inventory.simulated import SimulatedGpus
from kubeletplugin.inventory.sysfs_gpus import SysfsGpus

SIMULATED = "simulated:"


class UnknownInventoryError(ValueError):
    """A word that names no inventory."""


def assemble(  # noqa: PLR0913 - keyword-only, and half of them have a default
    source: str,
    *,
    node: str,
    folder: Path,
    publication: Publication = Publication(),  # noqa: B008 - frozen
    root: DriverRoot | None = None,
    host: DriverRoot | None = None,
    ignored_xids: frozenset[int] = frozenset(),
) -> GpuDriver:
    """Return a driver; `folder` is its own, `root` is where NVIDIA's driver is installed, `host` where its toolkit is.

    After `ignored_xids` a GPU stays in use, as after those that are an application's error.

    Raises UnknownInventoryError, MalformedInventoryError, NvmlUnavailableError or OSError: texts for whoever starts it.
    """
    if source.startswith(SIMULATED):
        return GpuDriver(
            SimulatedGpus(Path(source.removeprefix(SIMULATED)), node=node),
            node=node,
            edits=SimulatedEdits(),
            time_slicing=SimulatedTimeSlicing(),
            publication=publication,
        )
    root = root or DriverRoot()
    return GpuDriver(
        _real(source, root, ignored_xids),
        node=node,
        edits=NvidiaEdits(root, host=host),
        time_slicing=SmiTimeSlicing(root, TimeSliceRecord(folder / FILE)),
        publication=publication,
        served_before=(folder / checkpoint.FILE).exists(),
    )


def _real(source: str, root: DriverRoot, ignored_xids: frozenset[int]) -> GpuInventory:
    if source == "nvml":
        elsewhere = root.here != Path("/")
        load = partial(library, root.management_library() if elsewhere else None)
        return NvmlGpus(load, ignored_xids=IGNORED_XIDS | ignored_xids)
    if source == "sysfs":
        return SysfsGpus()
    raise UnknownInventoryError(f"inventory {source!r} is not known; there are nvml, sysfs and simulated:FILE")
