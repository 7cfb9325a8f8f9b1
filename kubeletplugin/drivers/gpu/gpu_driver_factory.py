"""Creates the GPU driver of a node for an inventory: ``nvml``, ``sysfs``, ``simulated:FILE`` or another row's name.

There is no fallback: a node that is configured to use NVML and cannot load it reports an error; it does not silently
publish less.
"""

from pathlib import Path

from kubeletplugin import checkpoint
from kubeletplugin.drivers.gpu.device_names import DEVICE_NAMES_FILE, DeviceNames
from kubeletplugin.drivers.gpu.devices import GpuPublishOptions
from kubeletplugin.drivers.gpu.driver import GpuDriver
from kubeletplugin.drivers.gpu.driver_root import DriverRoot
from kubeletplugin.drivers.gpu.gpu_sources import GPU_SOURCES, GpuSourceOptions


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

    Raises UnknownInventoryError, MalformedInventoryError, GpusUnavailableError or OSError, with texts for the user who
    starts the plugin.
    """
    name, _, argument = source.partition(":")
    row = GPU_SOURCES.get(name)
    if row is None or bool(argument) != bool(row.argument):
        raise UnknownInventoryError(f"inventory {source!r}: unknown; use {_known_sources()}")
    options = GpuSourceOptions(
        node=node,
        folder=folder,
        argument=argument,
        nvidia_root=root or DriverRoot(),
        host=host,
        ignored_xids=ignored_xids,
    )
    return GpuDriver(
        row.inventory(options),
        node=node,
        edits=row.edits(options),
        time_slicing=row.time_slicing(options),
        publication=publication,
        names=DeviceNames(folder / DEVICE_NAMES_FILE),
        served_before=(folder / checkpoint.CHECKPOINT_FILE).exists(),
    )


def _known_sources() -> str:
    *names, last = (f"{name}:{row.argument}" if row.argument else name for name, row in GPU_SOURCES.items())
    return f"{', '.join(names)} or {last}"
