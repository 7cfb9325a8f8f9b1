"""The drivers of a node, put together from the words of the command line."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from dra.model.meta import Struct
from kubeletplugin.contract import Driver

CPU: Final = "cpu"
GPU: Final = "gpu"
KNOWN: Final = (CPU, GPU)

NOT_ENFORCED: Final = "none"
NOT_TAINTED: Final = "none"


class UnknownDriverError(ValueError):
    """A word that names no driver."""


class UnusableDriverError(ValueError):
    """A driver that this node has nothing for."""


class Choice(Struct, frozen=True, kw_only=True):
    """What is asked for."""

    drivers: tuple[str, ...]
    node: str
    inventory: str = "nvml"
    """Of GPUs: ``nvml``, ``sysfs`` or ``simulated:FILE``."""

    plugins: Path
    kubelet: Path = Path("/var/lib/kubelet")
    cdi: Path | None = None
    """Where CDI files are; None: nothing is run, only looked at."""

    cpu_devices: str = "individual"
    reserved_cpus: str = ""
    kubepods_cgroup: str = ""
    """The kubelet's cgroup of all pods; empty: it is found; `NOT_ENFORCED`: CPUs are only named."""

    gpu_shares: bool = False
    gpu_ignored_xids: frozenset[int] = frozenset()
    """Beside those that are always ignored."""

    gpu_taint_effect: str = "NoSchedule"
    """Of the taints of a GPU that fails; `NOT_TAINTED`: it gets none."""

    nvidia_root: Path = Path("/")
    """Where NVIDIA's driver is seen from here; its path on the host is `nvidia_root_on_host`."""

    nvidia_root_on_host: str = "/"


def words(text: str) -> tuple[str, ...]:
    """Return the drivers that a text such as ``cpu,gpu`` names; raises UnknownDriverError."""
    found = tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    unknown = [word for word in found if word not in KNOWN]
    if unknown or not found:
        raise UnknownDriverError(f"drivers {text!r}: there are {', '.join(KNOWN)}; name one, or several as cpu,gpu")
    return found


def xids(text: str) -> frozenset[int]:
    """Return the XIDs that a text such as ``48,63`` names; raises ValueError."""
    found = [word.strip() for word in text.split(",") if word.strip()]
    wrong = [word for word in found if not (word.isascii() and word.isdigit())]
    if wrong:
        raise ValueError(f"XIDs {text!r}: {wrong[0]!r} is no number; write them as 48,63")
    return frozenset(map(int, found))


def assemble(choice: Choice) -> list[Driver]:
    """Return the drivers, in order; raises ValueError or OSError with texts for whoever starts them."""
    makers: dict[str, Callable[[Choice], Driver]] = {CPU: _cpu, GPU: _gpu}
    return [makers[word](choice) for word in _known(choice.drivers)]


def _known(drivers: Iterable[str]) -> tuple[str, ...]:
    return words(",".join(drivers))


def _cpu(choice: Choice) -> Driver:
    from dra.engine.cpus import cpusets  # noqa: PLC0415 - each driver's libraries when it is asked for
    from kubeletplugin.cgroups import hierarchy  # noqa: PLC0415
    from kubeletplugin.drivers.cpu.devices import DeviceMode  # noqa: PLC0415
    from kubeletplugin.drivers.cpu.driver import NAME, CpuDriver  # noqa: PLC0415
    from kubeletplugin.drivers.cpu.source import SysfsCpus  # noqa: PLC0415
    from kubeletplugin.inventory.sysfs_cpus import UnreadableTopologyError  # noqa: PLC0415
    from kubeletplugin.sockets import private_folder  # noqa: PLC0415

    def find() -> hierarchy.Hierarchy:
        return hierarchy.find(pods=choice.kubepods_cgroup)

    try:
        return CpuDriver(
            SysfsCpus(),
            node=choice.node,
            folder=private_folder(choice.plugins / NAME),
            kubelet=choice.kubelet,
            volatile=choice.cdi,
            mode=DeviceMode(choice.cpu_devices),
            reserved=cpusets.parse(choice.reserved_cpus) if choice.reserved_cpus else None,
            find_cgroups=None if choice.kubepods_cgroup == NOT_ENFORCED else find,
        )
    except UnreadableTopologyError as error:
        raise UnusableDriverError(f"driver {NAME}: {error}") from error


def _gpu(choice: Choice) -> Driver:
    from kubeletplugin.drivers.gpu import assembly  # noqa: PLC0415
    from kubeletplugin.drivers.gpu.devices import DRIVER, Publication  # noqa: PLC0415
    from kubeletplugin.drivers.gpu.driver_root import DriverRoot  # noqa: PLC0415
    from kubeletplugin.inventory.nvml import NvmlUnavailableError  # noqa: PLC0415
    from kubeletplugin.sockets import private_folder  # noqa: PLC0415

    try:
        return assembly.assemble(
            choice.inventory,
            node=choice.node,
            folder=private_folder(choice.plugins / DRIVER),
            publication=Publication(
                taint_effect="" if choice.gpu_taint_effect == NOT_TAINTED else choice.gpu_taint_effect,
                shares=choice.gpu_shares,
            ),
            root=DriverRoot(here=choice.nvidia_root, host=choice.nvidia_root_on_host),
            ignored_xids=choice.gpu_ignored_xids,
        )
    except NvmlUnavailableError as error:
        raise UnusableDriverError(str(error)) from error
