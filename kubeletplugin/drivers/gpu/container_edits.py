"""What a container gets with a GPU: the part that all GPUs share, and simulated ones.

Of every GPU the environment tells the uuid, ``GPU_DEVICE_<minor>``: names differ, so that a pod with several claims
sees all of them. A simulated GPU is a device node that exists on every machine under a name of its own.
"""

from collections.abc import Mapping
from typing import Final, Protocol

from dra.api.parameters.gpu import TimeSliceInterval
from dra.model.meta import Struct
from kubeletplugin.contract import ContainerEdits, DeviceNode
from kubeletplugin.inventory.gpus import Gpu

DEVICE_VARIABLE: Final = "GPU_DEVICE"


class GrantedConfig(Struct, frozen=True):
    """What was asked of a GPU, and is granted."""

    time_slice: TimeSliceInterval = TimeSliceInterval.DEFAULT
    memory_limit: int = 0
    """Bytes; 0: none. Told to the containers, kept by nobody else."""


class GpuContainerEdits(Protocol):
    """How containers get one kind of GPU."""

    def common(self, driver_version: str) -> ContainerEdits:
        """Return what they need once, however many GPUs they get."""
        ...

    def device(self, gpu: Gpu, granted: GrantedConfig) -> ContainerEdits:
        """Return what they need for this GPU."""
        ...


class SimulatedContainerEdits:
    """An environment variable and a device node that can be seen in a container, and nothing behind them."""

    def common(self, driver_version: str) -> ContainerEdits:
        """Return what says that there is nothing behind it."""
        del driver_version
        return ContainerEdits(env=("GPU_SIMULATED=true",))

    def device(self, gpu: Gpu, granted: GrantedConfig) -> ContainerEdits:
        """Return ``/dev/simgpu<minor>``, which is the host's node of the inventory (``/dev/null``)."""
        slices = (f"{DEVICE_VARIABLE}_{gpu.minor}_TIME_SLICE={granted.time_slice}",)
        nodes = tuple(
            DeviceNode(path=f"/dev/simgpu{gpu.minor}", host_path=node, permissions="rw") for node in gpu.nodes[:1]
        )
        return ContainerEdits(env=(*device_environment(gpu, granted), *slices), device_nodes=nodes)


def device_environment(gpu: Gpu, granted: GrantedConfig) -> tuple[str, ...]:
    """Return what the environment tells of a GPU, real or not."""
    name = f"{DEVICE_VARIABLE}_{gpu.minor}"
    variables: Mapping[str, str | int] = {
        name: gpu.uuid or gpu.pci_bus_id or gpu.name,
        f"{name}_MEMORY_LIMIT": granted.memory_limit,
    }
    return tuple(f"{key}={value}" for key, value in variables.items() if value)
