"""The GPUs of a node as Koordinator's kind Device describes them, and the labels of their Node.

A GPU in MIG mode is left out, since no pod can get it as a whole. The socket of a GPU is not known; Koordinator's agent
reports -1, too.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from dra.api.koordinator import well_known
from dra.api.koordinator.device import (
    DeviceAllocation,
    DeviceAllocationItem,
    DeviceInfo,
    DeviceTopology,
    DeviceType,
)
from kubeletplugin.contract import DeviceReport, PreparedClaim
from kubeletplugin.drivers.gpu.devices import CORE_CAPACITY, DRIVER_NAME, format_quantity
from kubeletplugin.inventory.gpus import Gpu

VENDOR: Final = "nvidia"

_UNKNOWN_SOCKET: Final = -1
_WHOLE_RATIO: Final = "100"
_LABEL_VALUE_MAX: Final = 63
_DEVICE_NAME: Final = re.compile(r"gpu-(\d{1,9})")


def device_report(gpus: Iterable[Gpu], prepared: Iterable[PreparedClaim]) -> DeviceReport:
    """Return the report of a node with these GPUs and prepared claims."""
    whole = [gpu for gpu in gpus if not gpu.mig_enabled]
    return DeviceReport(
        devices=tuple(_device_info(gpu) for gpu in whole),
        allocations=_allocations(prepared),
        labels=_labels(whole[0]) if whole else {},
    )


def _device_info(gpu: Gpu) -> DeviceInfo:
    resources = {
        well_known.RESOURCE_GPU_CORE: str(CORE_CAPACITY),
        well_known.RESOURCE_GPU_MEMORY_RATIO: _WHOLE_RATIO,
    }
    if gpu.memory:
        resources[well_known.RESOURCE_GPU_MEMORY] = format_quantity(gpu.memory)
    return DeviceInfo(
        type=DeviceType.GPU.value,
        id=gpu.uuid,
        minor=gpu.minor,
        health=not gpu.faults,
        resources=resources,
        topology=_topology(gpu),
    )


def _topology(gpu: Gpu) -> DeviceTopology | None:
    """Return the location of a GPU; None unless all of it is known, as Koordinator's agent reports it."""
    if gpu.numa_node is None or not gpu.pcie_root or not gpu.pci_bus_id:
        return None
    return DeviceTopology(
        socket_id=_UNKNOWN_SOCKET, node_id=gpu.numa_node, pcie_id=gpu.pcie_root, bus_id=gpu.pci_bus_id
    )


def _allocations(prepared: Iterable[PreparedClaim]) -> tuple[DeviceAllocation, ...]:
    entries = []
    for each in sorted(prepared, key=lambda found: found.claim.key):
        names = (_DEVICE_NAME.fullmatch(item.device) for item in each.items if item.driver == DRIVER_NAME)
        minors = sorted({int(name.group(1)) for name in names if name is not None})
        if minors:
            namespace, name = each.claim.key
            entries.append(
                DeviceAllocationItem(namespace=namespace, name=name, uuid=each.claim.uid, minors=tuple(minors))
            )
    return (DeviceAllocation(type=DeviceType.GPU.value, entries=tuple(entries)),) if entries else ()


def _labels(first: Gpu) -> Mapping[str, str]:
    """Return the labels of a Node whose first GPU is given, as Koordinator's agent chooses it."""
    found = {
        well_known.LABEL_GPU_MODEL: _label_value(first.product),
        well_known.LABEL_GPU_DRIVER_VERSION: _label_value(first.driver_version),
        well_known.LABEL_GPU_VENDOR: VENDOR,
    }
    return {key: value for key, value in found.items() if value}


def _label_value(text: str) -> str:
    """Return a text as the value of a label: ``NVIDIA H100 80GB HBM3`` becomes ``NVIDIA-H100-80GB-HBM3``."""
    return re.sub(r"[^A-Za-z0-9_.-]", "-", text)[:_LABEL_VALUE_MAX].strip("-_.")
