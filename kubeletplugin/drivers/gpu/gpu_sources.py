"""The sources of GPUs that ``--inventory`` names: a row has an inventory, and the edits that go with its GPUs.

Another vendor is a module with an inventory (`kubeletplugin.inventory`), one with container edits (beside this one) and
a row here; the driver itself knows no vendor. Rows import their modules when they are used: a node loads no library of
another vendor.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from dra.model.meta import Struct
from kubeletplugin.drivers.gpu.container_edits import GpuContainerEdits, SimulatedContainerEdits
from kubeletplugin.drivers.gpu.driver_root import DriverRoot
from kubeletplugin.drivers.gpu.time_slices import (
    SimulatedTimeSlicingManager,
    TimeSlicingManager,
    UnsupportedTimeSlicing,
)
from kubeletplugin.inventory.gpus import GpuInventory


class GpuSourceOptions(Struct, frozen=True, kw_only=True):
    """The options from which a row creates its parts."""

    node: str
    folder: Path
    """The driver's directory."""

    argument: str = ""
    """Text behind the colon of ``simulated:FILE``."""

    nvidia_root: DriverRoot = DriverRoot()
    """Root of NVIDIA's driver."""

    host: DriverRoot | None = None
    """Root in which NVIDIA's container toolkit is installed."""

    ignored_xids: frozenset[int] = frozenset()
    """XIDs after which a GPU stays in use, beside those that are an application's error."""


def _without_time_slices(options: GpuSourceOptions) -> TimeSlicingManager:
    del options
    return UnsupportedTimeSlicing()


class GpuSource(NamedTuple):
    """A source of GPUs."""

    inventory: Callable[[GpuSourceOptions], GpuInventory]
    edits: Callable[[GpuSourceOptions], GpuContainerEdits]
    time_slicing: Callable[[GpuSourceOptions], TimeSlicingManager] = _without_time_slices
    argument: str = ""
    """What must stand behind a colon, in capitals; empty: nothing may."""


def _nvml(options: GpuSourceOptions) -> GpuInventory:
    from kubeletplugin.inventory.nvml import NvmlGpuInventory, load_nvml  # noqa: PLC0415 - of this vendor
    from kubeletplugin.inventory.nvml_events import IGNORED_XIDS  # noqa: PLC0415

    root = options.nvidia_root

    def load() -> Any:  # noqa: ANN401 - a module
        """Load NVML from where it is now: the driver may be installed after the plugin has started."""
        return load_nvml(root.management_library() if root.here != Path("/") else None)

    return NvmlGpuInventory(load, ignored_xids=IGNORED_XIDS | options.ignored_xids)


def _sysfs(options: GpuSourceOptions) -> GpuInventory:
    from kubeletplugin.inventory.sysfs_gpus import SysfsGpuInventory  # noqa: PLC0415

    del options
    return SysfsGpuInventory()


def _nvidia_edits(options: GpuSourceOptions) -> GpuContainerEdits:
    from kubeletplugin.drivers.gpu.nvidia_container_edits import NvidiaContainerEdits  # noqa: PLC0415

    return NvidiaContainerEdits(options.nvidia_root, host=options.host)


def _nvidia_time_slicing(options: GpuSourceOptions) -> TimeSlicingManager:
    from kubeletplugin.drivers.gpu.nvidia_time_slices import NvidiaSmiTimeSlicingManager  # noqa: PLC0415
    from kubeletplugin.drivers.gpu.time_slice_record import TIME_SLICES_FILE, TimeSliceRecord  # noqa: PLC0415

    return NvidiaSmiTimeSlicingManager(options.nvidia_root, TimeSliceRecord(options.folder / TIME_SLICES_FILE))


def _simulated(options: GpuSourceOptions) -> GpuInventory:
    from kubeletplugin.inventory.simulated import SimulatedGpuInventory  # noqa: PLC0415

    return SimulatedGpuInventory(Path(options.argument), node=options.node)


GPU_SOURCES: Final[Mapping[str, GpuSource]] = {
    "nvml": GpuSource(_nvml, _nvidia_edits, _nvidia_time_slicing),
    "sysfs": GpuSource(_sysfs, _nvidia_edits, _nvidia_time_slicing),
    "simulated": GpuSource(
        _simulated, lambda _: SimulatedContainerEdits(), lambda _: SimulatedTimeSlicingManager(), argument="FILE"
    ),
}
"""The sources by the name that ``--inventory`` has."""
