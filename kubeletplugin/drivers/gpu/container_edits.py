"""Container edits of GPUs: the environment that all GPUs share, and the edits of simulated GPUs.

The variable ``GPU_DEVICE_<minor>`` contains the uuid of a GPU: the names differ, so that a pod with several claims sees
all its GPUs. A simulated GPU is a device node that exists on every machine, under a name of its own.
"""

from collections.abc import Mapping
from typing import Final, Protocol

from dra.api.parameters.gpu import TimeSliceInterval
from dra.model.meta import Struct
from kubeletplugin.contract import ContainerEdits, DeviceNode
from kubeletplugin.inventory.gpus import Gpu

DEVICE_VARIABLE: Final = "GPU_DEVICE"


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
        """Return the edits that containers need once, however many GPUs they get."""
        ...

    def device(self, gpu: Gpu, granted: GrantedConfig) -> ContainerEdits:
        """Return the edits that containers need for this GPU."""
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


def device_environment(gpu: Gpu, granted: GrantedConfig) -> tuple[str, ...]:
    """Return the environment variables of a GPU, real or simulated."""
    name = f"{DEVICE_VARIABLE}_{gpu.minor}"
    variables: Mapping[str, str | int] = {
        name: gpu.uuid or gpu.pci_bus_id or gpu.name,
        f"{name}_MEMORY_LIMIT": granted.memory_limit,
        f"{name}_CORE": granted.core,
    }
    return tuple(f"{key}={value}" for key, value in variables.items() if value)
