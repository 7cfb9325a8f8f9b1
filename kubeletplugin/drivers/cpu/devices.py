"""Devices of the CPU driver: maps CPUs to devices to publish.

*Individual*: a device for each CPU. Every API server supports this mode. A claim may request several by count, and
selectors and ``matchAttribute`` constraints choose among them; a claim can have at most 32 devices. Devices are
published core by core, since the scheduler takes the first that fit: siblings stay together.

*Grouped*: a device for each NUMA node, from which claims take a number of CPUs (consumable capacity, enabled by default
since 1.36). The driver chooses the CPUs; a claim can have as many CPUs as a NUMA node has.

*Node*: one device for all CPUs of the node (`kubeletplugin.drivers.cpu.node_device`), and one for each NUMA node, for
claims that align CPUs with other devices (`kubeletplugin.drivers.cpu.numa_devices`).

A CPU that goes offline is withdrawn; while a claim holds it, its device stays, with a taint.

CPUs reserved for the system are in no device, and so always in the shared pool. Attributes under ``dra.cpu/`` have the
names of the Go driver dra-driver-cpu. The NUMA node has two more names, that of network drivers and Kubernetes'
standard one, so that a ``matchAttribute`` aligns CPUs with other devices.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Any, Final

from dra.engine.cpus.cpusets import NO_CPUS, CpuSet
from dra.engine.cpus.topology import Cpu, CpuTopology
from dra.model.slices import Device
from dra.model.taints import DeviceTaint

CPU_CAPACITY: Final = "dra.cpu/cpu"
NUMA_CAPACITY: Final = "numaCPUs"
"""Capacity of a NUMA node's device in mode *node*: CPUs for aligned claims."""

_NUMA_NODE_ATTRIBUTES: Final = ("dra.cpu/numaNodeID", "dra.net/numaNode", "resource.kubernetes.io/numaNode")

OFFLINE_TAINT: Final = "cpu.reserve.dra/offline"
"""Taint of the device of a CPU that a claim holds, and that is offline."""

NODE_DEVICE: Final = "cpus"
"""Name of the device of mode *node*."""

ISOLATED_CPUS: Final = "isolatedCPUs"
"""Attribute of a device with several CPUs: how many of the CPUs are isolated (``isolcpus``)."""

_CPU_PREFIX: Final = "cpu-"
_NUMA_PREFIX: Final = "numa-"


class CpuDeviceMode(StrEnum):
    """The mapping of CPUs to devices."""

    INDIVIDUAL = "individual"
    GROUPED = "grouped"
    NODE = "node"


def default_reserved_cpus(topology: CpuTopology) -> CpuSet:
    """Return the CPUs to reserve by default: the CPUs of the first core that are not isolated.

    The kernel does not balance load over isolated CPUs (``isolcpus``), so containers without CPUs of their own could
    use only one of them.
    """
    usable = topology.housekeeping
    return topology.cores[topology.by_id[min(usable)].core] & usable


def build_individual_devices(topology: CpuTopology, *, allocatable: CpuSet) -> tuple[Device, ...]:
    """Return a device for each allocatable CPU, core by core."""
    smt = topology.threads_per_core > 1
    ordered = sorted(topology.cpus, key=lambda c: (c.socket, c.numa_node, c.core, c.id))
    return tuple(
        Device(name=cpu_device_name(cpu.id), attributes=_cpu_attributes(cpu, topology, smt=smt))
        for cpu in ordered
        if cpu.id in allocatable
    )


def build_grouped_devices(topology: CpuTopology, *, allocatable: CpuSet) -> tuple[Device, ...]:
    """Return a device for each NUMA node with allocatable CPUs."""
    smt = topology.threads_per_core > 1
    groups = ((node, cpus & allocatable) for node, cpus in topology.numa_nodes.items())
    return tuple(_grouped_device(node, cpus, topology, smt=smt) for node, cpus in groups if cpus)


def build_offline_devices(cpus: Iterable[Cpu], topology: CpuTopology) -> tuple[Device, ...]:
    """Return the devices of CPUs that claims hold and that are offline, with the attributes of their former places.

    The taint keeps further claims off the device, which is not published any more once no claim holds it.
    """
    smt = topology.threads_per_core > 1
    return tuple(
        Device(
            name=cpu_device_name(cpu.id),
            attributes=_cpu_attributes(cpu, topology, smt=smt),
            taints=[DeviceTaint(key=OFFLINE_TAINT, effect="NoSchedule")],
        )
        for cpu in sorted(cpus, key=lambda one: one.id)
    )


def cpu_device_name(cpu: int) -> str:
    """Return the name of the device of a CPU."""
    return f"{_CPU_PREFIX}{cpu}"


def device_cpus(device: str, topology: CpuTopology) -> CpuSet:
    """Return the CPUs of a device, whether or not the device is published; empty if there is no such device."""
    if device == NODE_DEVICE:
        return topology.online
    number = device.removeprefix(_CPU_PREFIX).removeprefix(_NUMA_PREFIX)
    if not (number.isascii() and number.isdigit() and len(number) < 6):  # noqa: PLR2004 - far beyond any CPU
        return NO_CPUS
    if device.startswith(_CPU_PREFIX):
        return CpuSet([int(number)]) & topology.online
    return topology.numa_nodes.get(int(number), NO_CPUS)


def numa_device_name(node: int) -> str:
    """Return the name of the device of a NUMA node."""
    return f"{_NUMA_PREFIX}{node}"


def numa_node_of(device: str) -> int | None:
    """Return the NUMA node that a device stands for; None for any other device."""
    number = device.removeprefix(_NUMA_PREFIX)
    is_node = device.startswith(_NUMA_PREFIX) and number.isascii() and number.isdigit()
    return int(number) if is_node else None


def is_grouped_device(device: str) -> bool:
    """Report whether a device is a group from which the driver chooses CPUs."""
    return device == NODE_DEVICE or device.startswith(_NUMA_PREFIX)


def _cpu_attributes(cpu: Cpu, topology: CpuTopology, *, smt: bool) -> dict[str, Any]:
    attributes = numa_attributes(cpu.numa_node) | {
        "dra.cpu/cpuID": {"int": cpu.id},
        "dra.cpu/coreID": {"int": cpu.core_id},
        "dra.cpu/socketID": {"int": cpu.socket},
        "dra.cpu/coreType": {"string": cpu.core_type.value},
        "dra.cpu/smtEnabled": {"bool": smt},
        # For constraints: unique on the machine; the kernel's coreID is unique only within a socket.
        "core": {"int": cpu.core},
        "isolated": {"bool": cpu.id in topology.isolated},
    }
    if cpu.l3 is not None:
        attributes["dra.cpu/cacheL3ID"] = {"int": cpu.l3}
    return attributes


def _grouped_device(node: int, cpus: CpuSet, topology: CpuTopology, *, smt: bool) -> Device:
    sockets = {topology.by_id[cpu].socket for cpu in cpus}
    attributes = numa_attributes(node) | {
        "dra.cpu/smtEnabled": {"bool": smt},
        "dra.cpu/numCPUs": {"int": len(cpus)},
        ISOLATED_CPUS: {"int": len(cpus & topology.isolated)},
    }
    if len(sockets) == 1:
        attributes["dra.cpu/socketID"] = {"int": sockets.pop()}
    return Device(
        name=numa_device_name(node),
        attributes=attributes,
        capacity={CPU_CAPACITY: {"value": str(len(cpus)), "requestPolicy": _request_policy(len(cpus))}},
        allow_multiple_allocations=True,
    )


def _request_policy(count: int) -> dict[str, Any]:
    """Return the policy that rounds requests up to whole CPUs.

    The API server requires a range that has room for one step above its minimum; so a single CPU is a valid value.
    """
    if count == 1:
        return {"default": "1", "validValues": ["1"]}
    return {"default": "1", "validRange": {"min": "1", "max": str(count), "step": "1"}}


def numa_attributes(node: int) -> dict[str, Any]:
    """Return the attributes that name the NUMA node of a device."""
    return {name: {"int": node} for name in _NUMA_NODE_ATTRIBUTES}
