"""Container edits of GPUs: the environment that all GPUs share, and the edits of simulated GPUs.

The variable ``GPU_DEVICE_<minor>`` contains the uuid of a GPU: the names differ, so that a pod with several claims sees
all its GPUs. A simulated GPU is a device node that exists on every machine, under a name of its own.
"""

import re
from collections.abc import Mapping
from typing import Final, Protocol

from dra.api.parameters.time_slices import TimeSliceInterval
from dra.model.meta import Struct
from kubeletplugin.contract import ContainerEdits, DeviceNode
from kubeletplugin.inventory.gpus import Gpu

DEVICE_VARIABLE: Final = "GPU_DEVICE"

_VARIABLE: Final = re.compile(rf"{DEVICE_VARIABLE}_\d+(_TIME_SLICE|_MEMORY_LIMIT|_CORE|)=(.*)", re.DOTALL)


class GrantedConfig(Struct, frozen=True):
    """The granted configuration of a GPU for one result."""

    time_slice: TimeSliceInterval = TimeSliceInterval.DEFAULT
    memory_limit: int = 0
    """Memory limit in bytes; 0: no limit. Containers see the limit in their environment; no component enforces it."""

    core: int = 0
    """Percent of the GPU's compute; 0: none was requested. Containers see the share; no component enforces it."""


class GpuContainerEdits(Protocol):
    """The container edits of one kind of GPU."""

    def common(self, driver_version: str) -> ContainerEdits:
        """Return the edits that containers need once, however many GPUs they get; looks at the node."""
        ...

    def device(self, gpu: Gpu, granted: GrantedConfig) -> ContainerEdits:
        """Return the edits that containers need for this GPU."""
        ...

    def flaw(self, gpu: Gpu) -> str:
        """Return what containers would lack to use this GPU, and the remedy; empty if they would lack nothing."""
        ...


class SimulatedContainerEdits:
    """The edits of simulated GPUs: environment variables and a device node, without a GPU behind them."""

    def common(self, driver_version: str) -> ContainerEdits:
        """Return the variable that marks the GPUs as simulated."""
        del driver_version
        return ContainerEdits(env=("GPU_SIMULATED=true",))

    def device(self, gpu: Gpu, granted: GrantedConfig) -> ContainerEdits:
        """Return the device node ``/dev/simgpu<minor>`` (on the host: the inventory's, ``/dev/null``) and variables."""
        slices = (f"{DEVICE_VARIABLE}_{gpu.minor}_TIME_SLICE={granted.time_slice}",)
        nodes = tuple(
            DeviceNode(path=f"/dev/simgpu{gpu.minor}", host_path=node, permissions="rw") for node in gpu.nodes[:1]
        )
        return ContainerEdits(env=(*device_environment(gpu, granted), *slices), device_nodes=nodes)

    def flaw(self, gpu: Gpu) -> str:
        """Return an empty string: a simulated GPU needs no files."""
        del gpu
        return ""


def device_environment(gpu: Gpu, granted: GrantedConfig) -> tuple[str, ...]:
    """Return the environment variables of a GPU, real or simulated."""
    name = f"{DEVICE_VARIABLE}_{gpu.minor}"
    variables: Mapping[str, str | int] = {
        name: gpu.uuid or gpu.pci_bus_id or gpu.name,
        f"{name}_MEMORY_LIMIT": granted.memory_limit,
        f"{name}_CORE": granted.core,
    }
    return tuple(f"{key}={value}" for key, value in variables.items() if value)


def granted_by(edits: ContainerEdits, *, time_slice: str) -> GrantedConfig:
    """Return the configuration that the edits of a GPU contain."""
    told = _variables(edits)
    return GrantedConfig(
        time_slice=TimeSliceInterval(told.get("_TIME_SLICE") or time_slice),
        memory_limit=int(told.get("_MEMORY_LIMIT", 0)),
        core=int(told.get("_CORE", 0)),
    )


def identity_in(edits: ContainerEdits) -> str:
    """Return the uuid or PCI address of the GPU that edits name; empty if they name none."""
    return _variables(edits).get("", "")


def _variables(edits: ContainerEdits) -> dict[str, str]:
    """Return the values of `device_environment`, by the end of the variable's name."""
    matches = (_VARIABLE.fullmatch(variable) for variable in edits.env)
    return {match[1]: match[2] for match in matches if match is not None}
