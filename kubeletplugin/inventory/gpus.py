"""The interface between the GPU driver and its inventories: GPUs, their attributes and faults.

An inventory knows nothing about claims. It omits unknown attributes (empty, 0, None); the driver publishes the others.
A GPU's number is its minor, that of ``/dev/nvidia<minor>``: unlike the index, the minor stays when another GPU is gone.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Protocol

from dra.model.meta import Struct


class GpuFault(Struct, frozen=True):
    """A fault that makes a GPU unfit for use."""

    reason: str
    """Kind of fault, as the name of a taint: ``xid``, ``ecc``, ``gpu-lost``."""

    value: str = ""
    """Detail of the fault, as the value of a taint: the number of the XID."""

    message: str = ""
    """Human-readable description."""


class Gpu(Struct, frozen=True):
    """A GPU of this node, with its attributes and faults."""

    minor: int
    index: int
    """Position in the inventory's own order."""

    uuid: str = ""
    product: str = ""
    brand: str = ""
    architecture: str = ""
    memory: int = 0
    """Memory in bytes; 0 if unknown."""

    driver_version: str = ""
    cuda_driver_version: str = ""
    """Newest CUDA version that the driver supports."""

    cuda_compute_capability: str = ""
    pci_bus_id: str = ""
    """PCI address as in sysfs: ``0000:18:00.0``."""

    pcie_root: str = ""
    """PCIe root complex: ``pci0000:17``."""

    numa_node: int | None = None
    nodes: tuple[str, ...] = ()
    """The GPU's own device nodes on the host."""

    mig_enabled: bool = False
    """Whether the GPU is partitioned (MIG): then it cannot be used as a whole."""

    extra: Mapping[str, bool | int | str] = {}
    """Additional attributes of the inventory."""

    monitored: bool = True
    """Whether the inventory would detect a fault."""

    faults: tuple[GpuFault, ...] = ()

    @property
    def name(self) -> str:
        """The device's name in slices and allocations."""
        return f"gpu-{self.minor}"


class GpuInventory(Protocol):
    """An inventory of the GPUs of this node."""

    def read(self) -> tuple[Gpu, ...]:
        """Return the present GPUs, sorted by minor."""
        ...

    def changes(self, known: tuple[Gpu, ...]) -> AsyncIterator[None]:
        """Yield whenever the result of `read` differs from the known GPUs, and then from the last result."""
        ...


async def poll_changes(
    read: Callable[[], tuple[Gpu, ...]], known: tuple[Gpu, ...], *, every: float
) -> AsyncIterator[None]:
    """Yield whenever a reading differs from the one before, with `every` seconds between readings.

    The reading runs in a thread: a file of the driver under ``/proc`` can take seconds if its reading wakes a GPU.
    """
    while True:
        await asyncio.sleep(every)
        now = await asyncio.to_thread(read)
        if now != known:
            known = now
            yield
