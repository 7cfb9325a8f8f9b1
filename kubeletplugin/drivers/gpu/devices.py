"""GPUs as devices of ResourceSlices: names, attributes, capacities and taints.

Names and types of the attributes are those of NVIDIA's DRA driver, so that selectors can be carried over by changing
the domain alone (``device.attributes["gpu.reserve.dra"].productName``); PCI address, root and NUMA node are Kubernetes'
standard attributes. ``index`` and ``minor`` are ours. What is not known is left out: CEL's ``has`` tells.
"""

import re
from collections.abc import Iterable
from typing import Any, Final

from dra.model.meta import Struct
from dra.model.slices import Device
from dra.model.taints import DeviceTaint
from kubeletplugin.inventory.gpus import Gpu

DRIVER: Final = "gpu.reserve.dra"

NO_SCHEDULE: Final = "NoSchedule"

STANDARD: Final = "resource.kubernetes.io/"

_VALUE_BYTES: Final = 64
_TAINTS: Final = 16
_MEBI: Final = 2**20
_SUFFIXES: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi")


class Publication(Struct, frozen=True):
    """How GPUs are offered."""

    taint_effect: str = NO_SCHEDULE
    """Of a faulty GPU's taints: ``NoSchedule``, ``NoExecute`` (ends pods that do not tolerate it); empty: no taints."""

    shares: bool = False
    """Whether several claims may be given parts of a GPU's memory (needs DRAConsumableCapacity). The scheduler adds up
    what they ask for; nobody keeps a process from using more."""


def devices(gpus: Iterable[Gpu], how: Publication) -> tuple[Device, ...]:
    """Return the devices to publish; a partitioned GPU is none, since it cannot be used as a whole."""
    return tuple(_device(each, how) for each in gpus if not each.mig_enabled)


def _device(gpu: Gpu, how: Publication) -> Device:
    shared = how.shares and gpu.memory >= 2 * _MEBI
    return Device(
        name=gpu.name,
        attributes=attributes(gpu),
        capacity=_capacity(gpu, shared=shared),
        taints=taints(gpu, how.taint_effect) or None,
        allow_multiple_allocations=shared,
    )


def attributes(gpu: Gpu) -> dict[str, Any]:
    """Return what is known of a GPU as attributes of a device."""
    texts = {
        "uuid": gpu.uuid,
        "productName": gpu.product,
        "brand": gpu.brand,
        "architecture": gpu.architecture,
        STANDARD + "pciBusID": gpu.pci_bus_id,
        STANDARD + "pcieRoot": gpu.pcie_root,
    }
    versions = {
        "cudaComputeCapability": gpu.cuda_compute_capability,
        "driverVersion": gpu.driver_version,
        "cudaDriverVersion": gpu.cuda_driver_version,
    }
    found: dict[str, Any] = {"type": {"string": "gpu"}, "index": {"int": gpu.index}, "minor": {"int": gpu.minor}}
    found |= {name: {"string": _cut(text)} for name, text in texts.items() if text}
    found |= {name: {"version": full} for name, text in versions.items() if (full := semver(text))}
    if gpu.numa_node is not None:
        found[STANDARD + "numaNode"] = {"int": gpu.numa_node}
    return found | {name: _typed(value) for name, value in gpu.extra.items()}


def taints(gpu: Gpu, effect: str) -> list[DeviceTaint]:
    """Return a taint for each kind of fault: ``gpu.reserve.dra/xid=79``."""
    if not effect:
        return []
    by_key = {f"{DRIVER}/{fault.reason}": fault.value for fault in gpu.faults}
    listed = [DeviceTaint(key=key, value=value, effect=effect) for key, value in sorted(by_key.items())]
    return listed[:_TAINTS]


def semver(text: str) -> str:
    """Return a version as the API wants it: three numbers without leading zeros; empty if there are no numbers.

    NVIDIA's are not: ``535.129.03`` and ``12.8`` become ``535.129.3`` and ``12.8.0``, as its own driver publishes them.
    """
    numbers = re.match(r"(\d+)(?:\.(\d+))?(?:\.(\d+))?", text)
    return ".".join(str(int(each or 0)) for each in numbers.groups()) if numbers else ""


def quantity(number: int) -> str:
    """Return a number of bytes with the greatest binary suffix that keeps it whole."""
    power = 0
    while number and number % 1024 == 0 and power < len(_SUFFIXES) - 1:
        number //= 1024
        power += 1
    return f"{number}{_SUFFIXES[power]}"


def _capacity(gpu: Gpu, *, shared: bool) -> dict[str, Any] | None:
    if not gpu.memory:
        return None
    memory: dict[str, Any] = {"value": quantity(gpu.memory)}
    if shared:
        # Who does not say how much wants all of it. Whole mebibytes, so that default and step agree.
        span = {"min": "1Mi", "step": "1Mi"}
        memory["requestPolicy"] = {"default": quantity(gpu.memory // _MEBI * _MEBI), "validRange": span}
    return {"memory": memory}


def _typed(value: bool | int | str) -> dict[str, Any]:  # noqa: FBT001 - an attribute's value
    if isinstance(value, bool):
        return {"bool": value}
    return {"int": value} if isinstance(value, int) else {"string": _cut(value)}


def _cut(text: str) -> str:
    return text.encode()[:_VALUE_BYTES].decode(errors="ignore")
