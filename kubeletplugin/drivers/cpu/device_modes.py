"""The modes of the CPU driver: each maps CPUs to devices in its own way, and has all that follows from the way. Pure.

`kubeletplugin.drivers.cpu.devices` describes the modes. The driver is the same for all: a fourth mode is a class here.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from dra.engine.cpus.cpusets import NO_CPUS, CpuSet
from dra.engine.cpus.node_policies import NO_NODE_POLICIES, NodeCpuPolicies, parse_node_labels
from dra.engine.cpus.topology import Cpu, CpuTopology
from dra.model.meta import Struct
from dra.model.slices import Device
from kubeletplugin.contract import PreparedClaim
from kubeletplugin.drivers.cpu.cpu_manager import KubeletCpus
from kubeletplugin.drivers.cpu.devices import (
    CpuDeviceMode,
    build_grouped_devices,
    build_individual_devices,
    build_offline_devices,
    cpu_device_name,
)
from kubeletplugin.drivers.cpu.node_device import HeldCpus, build_node_device
from kubeletplugin.drivers.cpu.numa_devices import build_numa_devices
from kubeletplugin.drivers.cpu.topology_report import CpuReport, device_data, topology_annotations

UNTHROTTLED: Final = "unthrottled"
"""Argument with which the hook lifts the CPU quota of a container."""


class PublishedCpus(Struct, frozen=True, kw_only=True):
    """The CPUs of a node that are to be published as devices."""

    topology: CpuTopology
    allocatable: CpuSet
    policies: NodeCpuPolicies = NO_NODE_POLICIES
    held: HeldCpus = HeldCpus()
    offline: tuple[Cpu, ...] = ()
    """CPUs that claims hold and that are offline."""
    kubelet: KubeletCpus | None = None
    """The kubelet's division of the CPUs, if the driver only counts CPUs beside the kubelet."""


class GroupedDevices:
    """The mode *grouped*: a device for each NUMA node. The other modes say in what they differ."""

    counts_beside_static = False
    """Whether claims can be counted beside a kubelet whose CPU manager allocates CPUs."""
    taintable = False
    hook_arguments: tuple[str, ...] = ()
    """Further arguments of the hook for containers with CPUs of their own."""

    def build(self, cpus: PublishedCpus) -> tuple[Device, ...]:
        """Return the devices to publish."""
        return build_grouped_devices(cpus.topology, allocatable=cpus.allocatable)

    def depends_on(self, now: HeldCpus, *, before: HeldCpus, online: CpuSet) -> bool:
        """Report whether other held CPUs than before may change the devices."""
        return now.cpus - online != before.cpus - online

    def flaws(
        self, published: Iterable[Device], cpus: CpuSet, *, online: CpuSet, moved: Mapping[int, str]
    ) -> Iterator[tuple[str, str]]:
        """Yield the name of each device with its flaw, an empty text without one.

        `cpus` are those that were allocatable or are held; `moved` says which CPUs have another number by now.
        """
        del cpus, online, moved
        yield from ((device.name, "") for device in published)

    def policies(self, labels: Mapping[str, str]) -> tuple[NodeCpuPolicies, tuple[str, ...]]:
        """Return the policies that labels of the Node set, and a text about each unknown value."""
        del labels
        return NO_NODE_POLICIES, ()

    def device_data(
        self, preparation: PreparedClaim, kubelet: KubeletCpus | None, *, online: CpuSet
    ) -> Mapping[int, dict[str, Any]]:
        """Return the CPUs of each device of a claim, where no device name tells them."""
        del preparation, kubelet, online
        return {}

    def topology_annotations(self, topology: CpuTopology, report: Callable[[], CpuReport]) -> Mapping[str, str]:
        """Return the description of the node's CPUs in Koordinator's annotations."""
        del topology, report
        return {}


class IndividualDevices(GroupedDevices):
    """The mode *individual*: a device for each CPU, which stays with a taint while a claim holds an offline CPU."""

    taintable = True

    def build(self, cpus: PublishedCpus) -> tuple[Device, ...]:
        """Return the devices to publish."""
        present = build_individual_devices(cpus.topology, allocatable=cpus.allocatable)
        return present + build_offline_devices(cpus.offline, cpus.topology)

    def flaws(
        self, published: Iterable[Device], cpus: CpuSet, *, online: CpuSet, moved: Mapping[int, str]
    ) -> Iterator[tuple[str, str]]:
        """Yield the device of each CPU with its flaw: the CPU is offline, or its number stands for another CPU now."""
        del published
        for cpu in cpus:
            yield cpu_device_name(cpu), moved.get(cpu, "") if cpu in online else f"CPU {cpu} is offline"


class NodeDevices(GroupedDevices):
    """The mode *node*: a device for all CPUs, and one for each NUMA node for aligned claims; counts and reports."""

    counts_beside_static = True
    hook_arguments = (UNTHROTTLED,)  # as Koordinator does for pods with CPUs of their own

    def build(self, cpus: PublishedCpus) -> tuple[Device, ...]:
        """Return the devices to publish."""
        topology, policies, held = cpus.topology, cpus.policies, cpus.held
        allocatable = aligned = cpus.allocatable
        if cpus.kubelet is not None:
            allocatable &= cpus.kubelet.shared
            aligned = NO_CPUS  # the kubelet chooses the CPUs: nothing is known of their NUMA nodes
        node = build_node_device(topology, allocatable=allocatable, policies=policies, held=held)
        return node and node + build_numa_devices(topology, allocatable=aligned, policies=policies, held=held)

    def depends_on(self, now: HeldCpus, *, before: HeldCpus, online: CpuSet) -> bool:
        """Report whether other held CPUs than before may change the devices: all do, which have what is left."""
        del online
        return now != before

    def policies(self, labels: Mapping[str, str]) -> tuple[NodeCpuPolicies, tuple[str, ...]]:
        """Return the policies that labels of the Node set, and a text about each unknown value."""
        return parse_node_labels(labels)

    def device_data(
        self, preparation: PreparedClaim, kubelet: KubeletCpus | None, *, online: CpuSet
    ) -> Mapping[int, dict[str, Any]]:
        """Return the CPUs of each device of a claim, which the device's name does not tell."""
        return device_data(preparation, kubelet, online=online)

    def topology_annotations(self, topology: CpuTopology, report: Callable[[], CpuReport]) -> Mapping[str, str]:
        """Return the description of the node's CPUs in Koordinator's annotations."""
        return topology_annotations(topology, report())


DEVICE_MODES: Final[Mapping[CpuDeviceMode, GroupedDevices]] = {
    CpuDeviceMode.INDIVIDUAL: IndividualDevices(),
    CpuDeviceMode.GROUPED: GroupedDevices(),
    CpuDeviceMode.NODE: NodeDevices(),
}
"""The class of each mode."""
