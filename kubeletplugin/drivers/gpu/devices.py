"""GPUs as devices of ResourceSlices: names, attributes, capacities and taints.

Names and types of the attributes are those of NVIDIA's DRA driver, so that selectors can be reused by changing only the
domain (``device.attributes["gpu.reserve.dra"].productName``); PCI address, root and NUMA node are Kubernetes' standard
attributes. Only this driver has ``index`` and ``minor``. Unknown attributes are omitted: test with CEL's ``has``.
"""

import re
from collections.abc import Iterable
from typing import Any, Final

from dra.model.meta import Struct
from dra.model.slices import Device
from dra.model.taints import DeviceTaint
from kubeletplugin.inventory.gpus import Gpu

DRIVER_NAME: Final = "gpu.reserve.dra"

NO_SCHEDULE: Final = "NoSchedule"

STANDARD_DOMAIN: Final = "resource.kubernetes.io/"

CORE_CAPACITY: Final = 100
"""Capacity ``core`` of a shared GPU: its compute in percent, as Koordinator counts it."""

_MAX_VALUE_BYTES: Final = 64
_MAX_TAINTS: Final = 16
_MEBI: Final = 2**20
_SUFFIXES: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi")


class GpuPublishOptions(Struct, frozen=True):
    """The options for publishing GPUs as devices."""

    taint_effect: str = NO_SCHEDULE
    """Effect of a faulty GPU's taints: ``NoSchedule``, ``NoExecute`` (evicts non-tolerating pods); empty: no taints."""

    shares: bool = False
    """Whether several claims may share a GPU by memory and ``core``, percent of its compute (DRAConsumableCapacity).

    The scheduler adds up the claims' requests; no component keeps a process from using more.
    """


def build_gpu_devices(gpus: Iterable[Gpu], how: GpuPublishOptions) -> tuple[Device, ...]:
    """Return the devices to publish; a partitioned GPU is no device, since it cannot be used as a whole."""
    return tuple(_build_device(gpu, how) for gpu in gpus if not gpu.partitioning)


def _build_device(gpu: Gpu, how: GpuPublishOptions) -> Device:
    shared = how.shares and gpu.memory >= 2 * _MEBI
    return Device(
        name=gpu.name,
        attributes=gpu_attributes(gpu),
        capacity=_capacity(gpu, shared=shared),
        taints=gpu_taints(gpu, how.taint_effect) or None,
        allow_multiple_allocations=shared,
    )


def gpu_attributes(gpu: Gpu) -> dict[str, Any]:
    """Return the known attributes of a GPU, as attributes of a device."""
    texts = {
        "uuid": gpu.uuid,
        "productName": gpu.product,
        "brand": gpu.brand,
        "architecture": gpu.architecture,
        STANDARD_DOMAIN + "pciBusID": gpu.pci_bus_id,
        STANDARD_DOMAIN + "pcieRoot": gpu.pcie_root,
    }
    versions = {"driverVersion": gpu.driver_version, **gpu.versions}
    attributes: dict[str, Any] = {"type": {"string": "gpu"}, "index": {"int": gpu.index}, "minor": {"int": gpu.minor}}
    attributes |= {name: {"string": _truncate(text)} for name, text in texts.items() if text}
    attributes |= {name: {"version": full} for name, text in versions.items() if (full := to_semver(text))}
    if gpu.numa_node is not None:
        attributes[STANDARD_DOMAIN + "numaNode"] = {"int": gpu.numa_node}
    return attributes | {name: _attribute_value(value) for name, value in gpu.extra.items()}


def gpu_taints(gpu: Gpu, effect: str) -> list[DeviceTaint]:
    """Return a taint for each kind of fault: ``gpu.reserve.dra/xid=79``."""
    if not effect:
        return []
    by_key = {f"{DRIVER_NAME}/{fault.reason}": fault.value for fault in gpu.faults}
    listed = [DeviceTaint(key=key, value=value, effect=effect) for key, value in sorted(by_key.items())]
    return listed[:_MAX_TAINTS]


def to_semver(text: str) -> str:
    """Return a version as the API requires: three numbers without leading zeros; empty if there are no numbers.

    NVIDIA's versions differ: ``535.129.03`` and ``12.8`` become ``535.129.3`` and ``12.8.0``, as NVIDIA's own DRA
    driver publishes them.
    """
    numbers = re.match(r"(\d+)(?:\.(\d+))?(?:\.(\d+))?", text)
    return ".".join(str(int(part or 0)) for part in numbers.groups()) if numbers else ""


def format_quantity(number: int) -> str:
    """Return a number of bytes with the greatest binary suffix that keeps the number whole."""
    power = 0
    while number and number % 1024 == 0 and power < len(_SUFFIXES) - 1:
        number //= 1024
        power += 1
    return f"{number}{_SUFFIXES[power]}"


def _capacity(gpu: Gpu, *, shared: bool) -> dict[str, Any] | None:
    if not gpu.memory:
        return None
    memory: dict[str, Any] = {"value": format_quantity(gpu.memory)}
    if not shared:
        return {"memory": memory}
    # A request without an amount gets all of the memory. Whole mebibytes, so that default and step agree.
    span = {"min": "1Mi", "step": "1Mi"}
    memory["requestPolicy"] = {"default": format_quantity(gpu.memory // _MEBI * _MEBI), "validRange": span}
    # A request without an amount gets none: whoever shares by memory alone leaves the compute to others.
    core = {
        "value": str(CORE_CAPACITY),
        "requestPolicy": {"default": "0", "validRange": {"min": "0", "step": "1"}},
    }
    return {"memory": memory, "core": core}


def _attribute_value(value: bool | int | str) -> dict[str, Any]:  # noqa: FBT001 - an attribute's value
    if isinstance(value, bool):
        return {"bool": value}
    return {"int": value} if isinstance(value, int) else {"string": _truncate(value)}


def _truncate(text: str) -> str:
    return text.encode()[:_MAX_VALUE_BYTES].decode(errors="ignore")
