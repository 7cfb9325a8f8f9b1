"""Creates the drivers of a node from the options of the command line."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from dra.model.meta import Struct
from kubeletplugin.contract import Driver

CPU: Final = "cpu"
GPU: Final = "gpu"
KNOWN_DRIVERS: Final = (CPU, GPU)

NO_CPUSET_ENFORCEMENT: Final = "none"
NO_TAINT: Final = "none"


class UnknownDriverError(ValueError):
    """A name on the command line belongs to no driver."""


class UnusableDriverError(ValueError):
    """A driver cannot run on this node, which lacks its hardware or its libraries."""


class DriverOptions(Struct, frozen=True, kw_only=True):
    """The options from which the drivers are created."""

    drivers: tuple[str, ...]
    node: str
    inventory: str = "nvml"
    """Inventory of GPUs: ``nvml``, ``sysfs`` or ``simulated:FILE``."""

    plugins: Path
    kubelet: Path = Path("/var/lib/kubelet")
    cdi: Path | None = None
    """Directory of CDI specs; None if the drivers are only inspected, not run."""

    cpu_devices: str = "individual"
    reserved_cpus: str = ""
    kubepods_cgroup: str = ""
    """The kubelet's cgroup of all pods; empty: found by search; `NO_CPUSET_ENFORCEMENT`: no cpusets are written."""

    gpu_shares: bool = False
    gpu_ignored_xids: frozenset[int] = frozenset()
    """XIDs to ignore in addition to those that are always ignored."""

    gpu_taint_effect: str = "NoSchedule"
    """Effect of the taints on a faulty GPU; `NO_TAINT`: no taints."""

    nvidia_root: Path = Path("/")
    """Root of NVIDIA's driver as this process sees it; `nvidia_root_on_host` is the path on the host."""

    nvidia_root_on_host: str = "/"


def parse_driver_names(text: str) -> tuple[str, ...]:
    """Return the drivers that a text such as ``cpu,gpu`` names; raises UnknownDriverError."""
    names = tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    unknown = [word for word in names if word not in KNOWN_DRIVERS]
    if unknown or not names:
        raise UnknownDriverError(
            f"drivers {text!r}: there are {', '.join(KNOWN_DRIVERS)}; name one, or several as cpu,gpu"
        )
    return names


def parse_xids(text: str) -> frozenset[int]:
    """Return the XIDs that a text such as ``48,63`` names; raises ValueError."""
    xids = [word.strip() for word in text.split(",") if word.strip()]
    wrong = [word for word in xids if not (word.isascii() and word.isdigit())]
    if wrong:
        raise ValueError(f"XIDs {text!r}: {wrong[0]!r} is not a number; write XIDs as 48,63")
    return frozenset(map(int, xids))


def create_drivers(choice: DriverOptions) -> list[Driver]:
    """Return the drivers, in order; raises ValueError or OSError with texts for the user who starts the plugin."""
    makers: dict[str, Callable[[DriverOptions], Driver]] = {CPU: _create_cpu_driver, GPU: _create_gpu_driver}
    return [makers[word](choice) for word in _check_driver_names(choice.drivers)]


def _check_driver_names(drivers: Iterable[str]) -> tuple[str, ...]:
    return parse_driver_names(",".join(drivers))


def _create_cpu_driver(choice: DriverOptions) -> Driver:
    from dra.engine.cpus import cpusets  # noqa: PLC0415 - each driver's libraries when it is asked for
    from kubeletplugin.cgroups import hierarchy  # noqa: PLC0415
    from kubeletplugin.drivers.cpu.devices import CpuDeviceMode  # noqa: PLC0415
    from kubeletplugin.drivers.cpu.driver import DRIVER_NAME, CpuDriver  # noqa: PLC0415
    from kubeletplugin.inventory.sysfs_cpus import SysfsTopologySource, UnreadableTopologyError  # noqa: PLC0415
    from kubeletplugin.sockets import ensure_private_directory  # noqa: PLC0415

    def find() -> hierarchy.CgroupHierarchy:
        return hierarchy.find_hierarchy(pods=choice.kubepods_cgroup)

    try:
        return CpuDriver(
            SysfsTopologySource(),
            node=choice.node,
            folder=ensure_private_directory(choice.plugins / DRIVER_NAME),
            kubelet=choice.kubelet,
            volatile=choice.cdi,
            mode=CpuDeviceMode(choice.cpu_devices),
            reserved=cpusets.parse(choice.reserved_cpus) if choice.reserved_cpus else None,
            find_cgroups=None if choice.kubepods_cgroup == NO_CPUSET_ENFORCEMENT else find,
        )
    except UnreadableTopologyError as error:
        raise UnusableDriverError(f"driver {DRIVER_NAME}: {error}") from error


def _create_gpu_driver(choice: DriverOptions) -> Driver:
    from kubeletplugin.drivers.gpu import gpu_driver_factory  # noqa: PLC0415
    from kubeletplugin.drivers.gpu.devices import DRIVER_NAME, GpuPublishOptions  # noqa: PLC0415
    from kubeletplugin.drivers.gpu.driver_root import DriverRoot  # noqa: PLC0415
    from kubeletplugin.inventory.gpus import GpusUnavailableError  # noqa: PLC0415
    from kubeletplugin.sockets import ensure_private_directory  # noqa: PLC0415

    try:
        return gpu_driver_factory.create_gpu_driver(
            choice.inventory,
            node=choice.node,
            folder=ensure_private_directory(choice.plugins / DRIVER_NAME),
            publication=GpuPublishOptions(
                taint_effect="" if choice.gpu_taint_effect == NO_TAINT else choice.gpu_taint_effect,
                shares=choice.gpu_shares,
            ),
            root=DriverRoot(here=choice.nvidia_root, host=choice.nvidia_root_on_host),
            ignored_xids=choice.gpu_ignored_xids,
        )
    except GpusUnavailableError as error:
        raise UnusableDriverError(str(error)) from error
