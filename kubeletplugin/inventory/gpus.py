"""The interface between the GPU driver and its inventories: GPUs, their attributes and faults.

An inventory knows nothing about claims. It omits unknown attributes (empty, 0, None); the driver publishes the others.
A GPU's number is its minor, that of its device node. Index and minor identify no GPU: after a reboot or a reload
of the kernel driver another GPU may have them (`kubeletplugin.drivers.gpu.device_names`).
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable, Mapping
from typing import Final, Protocol, runtime_checkable

from dra.model.meta import Struct

GPU_LOST: Final = "gpu-lost"
DUPLICATE_UUID: Final = "duplicate-uuid"
UNKNOWN_UUID: Final = "unknown-uuid"
NO_DRIVER_FILES: Final = "no-driver-files"

UNUSABLE_REASONS: Final = frozenset({GPU_LOST, DUPLICATE_UUID, UNKNOWN_UUID, NO_DRIVER_FILES})
"""Faults with which no container can use the GPU, or might get another one: its claims are refused."""


class GpusUnavailableError(RuntimeError):
    """An inventory cannot tell which GPUs there are, and perhaps can later; the text gives the reason."""


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

    vendor: str = ""
    """Vendor as Koordinator's label of the Node has it, in lower case."""

    driver_version: str = ""
    versions: Mapping[str, str] = {}
    """Further versions, by the name of the attribute under which they are published."""

    pci_bus_id: str = ""
    """PCI address as in sysfs: ``0000:18:00.0``."""

    pcie_root: str = ""
    """PCIe root complex: ``pci0000:17``."""

    numa_node: int | None = None
    nodes: tuple[str, ...] = ()
    """The GPU's own device nodes on the host."""

    partitioning: str = ""
    """What partitions the GPU, so that it cannot be used as a whole, in the vendor's words (``MIG mode``)."""

    extra: Mapping[str, bool | int | str] = {}
    """Additional attributes of the inventory."""

    monitored: bool = True
    """Whether the inventory would detect a fault."""

    faults: tuple[GpuFault, ...] = ()

    list_command: str = ""
    """Command that lists the GPUs of this vendor on the node, for messages."""

    device_name: str = ""
    """Name that the driver has given to the GPU; an inventory gives none."""

    @property
    def name(self) -> str:
        """The device's name in slices and allocations."""
        return self.device_name or f"gpu-{self.minor}"

    @property
    def unusable(self) -> GpuFault | None:
        """The first fault with which no container can use the GPU; None if there is none."""
        return next((fault for fault in self.faults if fault.reason in UNUSABLE_REASONS), None)


class GpuInventory(Protocol):
    """An inventory of the GPUs of this node."""

    def read(self) -> tuple[Gpu, ...]:
        """Return the present GPUs, sorted by minor."""
        ...

    def changes(self, known: tuple[Gpu, ...]) -> AsyncIterator[None]:
        """Yield whenever the result of `read` differs from the known GPUs, and then from the last result."""
        ...


@runtime_checkable
class MarkedGpuInventory(Protocol):
    """An inventory that knows cheaply whether its GPUs may have changed."""

    def mark(self) -> Hashable:
        """Return a fingerprint, cheap to read, that changes when the result of `read` may have changed."""
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
