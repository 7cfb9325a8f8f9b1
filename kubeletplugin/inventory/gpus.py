"""What is known of a GPU, whoever tells: the seam between the GPU driver and its inventories.

An inventory knows nothing of claims. What it cannot tell it leaves out (empty, 0, None); the driver publishes what is
there. A GPU's number is its minor, that of ``/dev/nvidia<minor>``: unlike the index it stays when another GPU is gone.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Protocol

from dra.model.meta import Struct


class GpuFault(Struct, frozen=True):
    """Something that makes a GPU unfit for use."""

    reason: str
    """What kind of thing, as the name of a taint: ``xid``, ``ecc``, ``gpu-lost``."""

    value: str = ""
    """Which of its kind, as the value of a taint: the number of the XID."""

    message: str = ""
    """For people."""


class Gpu(Struct, frozen=True):
    """One GPU of this node."""

    minor: int
    index: int
    """Its place in the inventory's own order."""

    uuid: str = ""
    product: str = ""
    brand: str = ""
    architecture: str = ""
    memory: int = 0
    """Bytes."""

    driver_version: str = ""
    cuda_driver_version: str = ""
    """The newest CUDA that the driver can do."""

    cuda_compute_capability: str = ""
    pci_bus_id: str = ""
    """As in sysfs: ``0000:18:00.0``."""

    pcie_root: str = ""
    """The root complex: ``pci0000:17``."""

    numa_node: int | None = None
    nodes: tuple[str, ...] = ()
    """Its own device nodes on the host."""

    mig_enabled: bool = False
    """Whether it is partitioned: then it cannot be used as a whole."""

    extra: Mapping[str, bool | int | str] = {}
    """More attributes, as the inventory has them."""

    monitored: bool = True
    """Whether somebody would notice if it failed."""

    faults: tuple[GpuFault, ...] = ()

    @property
    def name(self) -> str:
        """The device's name in slices and allocations."""
        return f"gpu-{self.minor}"


class GpuInventory(Protocol):
    """The GPUs of this node."""

    def read(self) -> tuple[Gpu, ...]:
        """Return what is there now, by minor."""
        ...

    def changes(self, known: tuple[Gpu, ...]) -> AsyncIterator[None]:
        """Yield whenever `read` has something else to say than what is known, and what it said last."""
        ...


async def poll_changes(
    read: Callable[[], tuple[Gpu, ...]], known: tuple[Gpu, ...], *, every: float
) -> AsyncIterator[None]:
    """Yield whenever a reading differs from the one before; seconds between readings.

    In a thread: what a driver tells under ``/proc`` can take seconds when it wakes a GPU for that.
    """
    while True:
        await asyncio.sleep(every)
        now = await asyncio.to_thread(read)
        if now != known:
            known = now
            yield
