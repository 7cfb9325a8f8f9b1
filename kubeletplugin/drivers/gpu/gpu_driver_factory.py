"""Creates the GPU driver of a node for an inventory: ``nvml``, ``sysfs`` or ``simulated:FILE``.

Simulated GPUs get simulated edits and time slices; the other inventories use NVIDIA's files and programs. There is no
fallback: a node that is configured to use NVML and cannot load it reports an error; it does not silently publish less.
"""

from pathlib import Path
from typing import Any

from kubeletplugin import checkpoint
from kubeletplugin.drivers.gpu.container_edits import SimulatedContainerEdits
from kubeletplugin.drivers.gpu.device_names import DEVICE_NAMES_FILE, DeviceNames
from kubeletplugin.drivers.gpu.devices import GpuPublishOptions
from kubeletplugin.drivers.gpu.driver import GpuDriver
from kubeletplugin.drivers.gpu.driver_root import DriverRoot
from kubeletplugin.drivers.gpu.nvidia_container_edits import NvidiaContainerEdits
from kubeletplugin.drivers.gpu.time_slice_record import TIME_SLICES_FILE, TimeSliceRecord
from kubeletplugin.drivers.gpu.time_slices import NvidiaSmiTimeSlicingManager, SimulatedTimeSlicingManager
from kubeletplugin.inventory.gpus import GpuInventory
from kubeletplugin.inventory.nvml import NvmlGpuInventory, load_nvml
from kubeletplugin.inventory.nvml_events import IGNORED_XIDS
from kubeletplugin.inventory.simulated import SimulatedGpuInventory
from kubeletplugin.inventory.sysfs_gpus import SysfsGpuInventory

SIMULATED_PREFIX = "simulated:"


class UnknownInventoryError(ValueError):
    """A name on the command line belongs to no inventory."""


def create_gpu_driver(  # noqa: PLR0913 - keyword-only, and half of them have a default
    source: str,
    *,
    node: str,
    folder: Path,
    publication: GpuPublishOptions = GpuPublishOptions(),  # noqa: B008 - frozen
    root: DriverRoot | None = None,
    host: DriverRoot | None = None,
    ignored_xids: frozenset[int] = frozenset(),
) -> GpuDriver:
    """Return a GPU driver with the directory `folder`.

    `root` is the root of NVIDIA's driver, `host` the root in which NVIDIA's container toolkit is installed. A GPU stays
    in use after `ignored_xids`, as after the XIDs that are an application's error.

    Raises UnknownInventoryError, MalformedInventoryError, NvmlUnavailableError or OSError, with texts for the user who
    starts the plugin.
    """
    if source.startswith(SIMULATED_PREFIX):
        return GpuDriver(
            SimulatedGpuInventory(Path(source.removeprefix(SIMULATED_PREFIX)), node=node),
            node=node,
            edits=SimulatedContainerEdits(),
            time_slicing=SimulatedTimeSlicingManager(),
            publication=publication,
            names=DeviceNames(folder / DEVICE_NAMES_FILE),
        )
    root = root or DriverRoot()
    return GpuDriver(
        _nvidia_inventory(source, root, ignored_xids),
        node=node,
        edits=NvidiaContainerEdits(root, host=host),
        time_slicing=NvidiaSmiTimeSlicingManager(root, TimeSliceRecord(folder / TIME_SLICES_FILE)),
        publication=publication,
        names=DeviceNames(folder / DEVICE_NAMES_FILE),
        served_before=(folder / checkpoint.CHECKPOINT_FILE).exists(),
    )


def _nvidia_inventory(source: str, root: DriverRoot, ignored_xids: frozenset[int]) -> GpuInventory:
    if source == "nvml":

        def load() -> Any:  # noqa: ANN401 - a module
            """Load NVML from where it is now: the driver may be installed after the plugin has started."""
            return load_nvml(root.management_library() if root.here != Path("/") else None)

        return NvmlGpuInventory(load, ignored_xids=IGNORED_XIDS | ignored_xids)
    if source == "sysfs":
        return SysfsGpuInventory()
    raise UnknownInventoryError(f"inventory {source!r}: unknown; use nvml, sysfs or simulated:FILE")
