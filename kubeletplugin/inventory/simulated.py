"""Inventory of simulated GPUs from a YAML file that describes the node (`kubeletplugin.inventory.node_file`).

The file is re-read whenever it changes: GPUs become unhealthy and recover, vanish and come back. At the start, an
invalid file is refused with the path of the field; later, the last valid state stays, and the log reports the error.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Hashable, Iterator, Sequence
from pathlib import Path
from typing import Final, TypeVar
from uuid import NAMESPACE_DNS, uuid5

import msgspec

from kubeletplugin.inventory.gpu_use import GpuUse
from kubeletplugin.inventory.gpus import Gpu, GpuFault
from kubeletplugin.inventory.node_file import GpuGroup, NodeInventory, parse_node_inventory
from kubeletplugin.inventory.nvidia import NVIDIA
from kubeletplugin.ticks import until_tick

log = logging.getLogger(__name__)

POLL_INTERVAL: Final = 1.0

_BUSES: Final = 256
_SLOTS: Final = 32

T = TypeVar("T")


class MalformedInventoryError(ValueError):
    """The file does not describe a node; the text begins with the file's name."""


class SimulatedGpuInventory:
    """The inventory of the GPUs in a file."""

    def __init__(self, path: Path, *, node: str, every: float = POLL_INTERVAL) -> None:
        """Read the inventory file; raises MalformedInventoryError, or OSError if it cannot be read."""
        self._path = path
        self._node = node
        self._every = every
        self._seen = self._signature()
        self._use: tuple[GpuUse, ...] = ()
        self._gpus = self._load()

    def read_use(self) -> tuple[GpuUse, ...]:
        """Return the use that the file gives to GPUs."""
        self.read()
        return self._use

    def read(self) -> tuple[Gpu, ...]:
        """Return the GPUs of the file, or those of its last valid state."""
        now = self._signature()
        if now == self._seen:
            return self._gpus
        self._seen = now
        try:
            self._gpus = self._load()
        except (OSError, MalformedInventoryError) as error:
            log.warning("%s; the GPUs stay unchanged", error)
        return self._gpus

    async def changes(self, known: tuple[Gpu, ...]) -> AsyncIterator[None]:
        """Yield whenever the GPUs in the file change; only a changed file is worth a thread."""
        while True:
            await asyncio.sleep(until_tick(self._every))
            now = self._gpus if self._signature() == self._seen else await asyncio.to_thread(self.read)
            if now != known:
                known = now
                yield

    def mark(self) -> Hashable:
        """Return a fingerprint of the file."""
        return self._signature()

    def _load(self) -> tuple[Gpu, ...]:
        try:
            inventory = parse_node_inventory(self._path.read_text(encoding="utf-8"))
            gpus = simulated_gpus(inventory, node=self._node)
        except ValueError as error:
            raise MalformedInventoryError(f"inventory {self._path}: {error}") from error
        self._use = _simulated_use(inventory, gpus)
        return gpus

    def _signature(self) -> tuple[int, int, int] | None:
        # The inode, too: editors and ConfigMap volumes replace the file.
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_ino, status.st_size


def simulated_gpus(inventory: NodeInventory, *, node: str) -> tuple[Gpu, ...]:
    """Return the GPUs of a simulated node; the node's name makes uuids differ between nodes with the same file."""
    faults: dict[int, tuple[GpuFault, ...]] = {}
    for unhealthy in inventory.unhealthy:
        fault = GpuFault(reason=unhealthy.reason, value=unhealthy.value, message=unhealthy.message)
        faults[unhealthy.minor] = (*faults.get(unhealthy.minor, ()), fault)
    taken = {address for group in inventory.gpus for address in group.pci_bus_ids}
    members = [(group, place) for group in inventory.gpus for place in range(group.count)]
    # Missing GPUs get addresses, too: a GPU that comes back has its old address.
    made = [_gpu(inventory, group, place, minor) for minor, (group, place) in enumerate(members)]
    free = {root: _free_pci_addresses(root, taken) for root in {gpu.pcie_root for gpu in made}}
    placed = [_with_identity(gpu, node, free[gpu.pcie_root], faults.get(gpu.minor, ())) for gpu in made]
    return tuple(gpu for gpu in placed if gpu.minor not in inventory.missing)


def _simulated_use(inventory: NodeInventory, gpus: Sequence[Gpu]) -> tuple[GpuUse, ...]:
    by_minor = {use.minor: use for use in inventory.usage}
    return tuple(
        GpuUse(
            uuid=gpu.uuid,
            minor=gpu.minor,
            utilization_percent=float(use.utilization_percent),
            memory_used_bytes=min(use.memory, gpu.memory),
            memory_total_bytes=gpu.memory,
        )
        for gpu in gpus
        if (use := by_minor.get(gpu.minor)) is not None
    )


def _gpu(inventory: NodeInventory, group: GpuGroup, place: int, minor: int) -> Gpu:
    product = inventory.products[group.product]
    cuda = {
        "cudaComputeCapability": product.cuda_compute_capability,
        "cudaDriverVersion": inventory.cuda_driver_version,
    }
    return Gpu(
        minor=minor,
        index=minor,
        uuid=group.uuids[place] if group.uuids else "",
        product=product.product_name,
        brand=product.brand,
        architecture=product.architecture,
        memory=product.memory,
        driver_version=inventory.driver_version,
        vendor=NVIDIA,
        versions={name: version for name, version in cuda.items() if version},
        pci_bus_id=group.pci_bus_ids[place] if group.pci_bus_ids else "",
        pcie_root=_deal(group.pcie_roots, place, group.count) or "",
        numa_node=_deal(group.numa_nodes, place, group.count),
        nodes=("/dev/null",),
        extra={**product.attributes, **group.attributes},
    )


def _with_identity(gpu: Gpu, node: str, free: Iterator[str], faults: tuple[GpuFault, ...]) -> Gpu:
    """Return the GPU with a generated address and uuid, if the file does not set them."""
    address = gpu.pci_bus_id or next(free)
    uuid = gpu.uuid or f"GPU-{uuid5(NAMESPACE_DNS, f'gpu-{gpu.minor}.{node}')}"
    return msgspec.structs.replace(gpu, pci_bus_id=address, uuid=uuid, faults=faults)


def _free_pci_addresses(root: str, taken: set[str]) -> Iterator[str]:
    """Yield free addresses below a root complex, with different buses first, as real GPUs have a bus of their own."""
    domain, first = (int(part, 16) for part in root.removeprefix("pci").split(":")) if root else (0, 0)
    for slot in range(_SLOTS):
        for bus in (*range(first + 1, _BUSES), *range(first + 1)):
            address = f"{domain:04x}:{bus:02x}:{slot:02x}.0"
            if address not in taken:
                taken.add(address)
                yield address


def _deal(values: Sequence[T], place: int, count: int) -> T | None:
    return values[place * len(values) // count] if values else None
