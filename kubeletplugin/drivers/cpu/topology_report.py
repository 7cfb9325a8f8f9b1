"""The CPUs of a node as Koordinator's annotations of a NodeResourceTopology describe them. Pure.

==============================================  ======================================================================
``node.koordinator.sh/cpu-topology``            each CPU that is online, with its core, socket and NUMA node
``node.koordinator.sh/pod-cpu-allocs``          the pods with CPUs of their own
``node.koordinator.sh/cpu-shared-pools``        the CPUs of containers without own CPUs, by socket and NUMA node
``node.koordinator.sh/be-cpu-shared-pools``     the same for containers of the QoS class BestEffort
``kubelet.koordinator.sh/cpu-manager-policy``   the policy of the kubelet's CPU manager
==============================================  ======================================================================

The annotations decide nothing; tools for Koordinator show them. A driver is told claims: the pods are those for which
the claim was reserved when it was prepared. A claim that is reserved for a workload has an entry of its own.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from dra.engine.cpus.cpusets import NO_CPUS, CpuSet
from dra.engine.cpus.topology import CpuTopology
from dra.model.meta import Struct
from kubeletplugin.contract import PreparedClaim
from kubeletplugin.drivers.cpu import prepared_cpus
from kubeletplugin.drivers.cpu.cpu_manager import STATIC_POLICY, KubeletCpus
from kubeletplugin.drivers.cpu.cpuset_store import CpuPools

CPU_TOPOLOGY: Final = "node.koordinator.sh/cpu-topology"
POD_CPU_ALLOCATIONS: Final = "node.koordinator.sh/pod-cpu-allocs"
SHARED_POOLS: Final = "node.koordinator.sh/cpu-shared-pools"
BEST_EFFORT_POOLS: Final = "node.koordinator.sh/be-cpu-shared-pools"
CPU_MANAGER_POLICY: Final = "kubelet.koordinator.sh/cpu-manager-policy"


class CpuReport(Struct, frozen=True):
    """The pools, the prepared claims and the kubelet's allocations that the annotations describe."""

    pools: CpuPools
    prepared: tuple[PreparedClaim, ...] = ()
    kubelet: KubeletCpus | None = None
    """The kubelet's allocations, on a node where the kubelet allocates CPUs."""
    kubelet_reserved: CpuSet = CpuSet()
    """The CPUs that this kubelet does not allocate."""


def topology_annotations(topology: CpuTopology, report: CpuReport) -> dict[str, str]:
    """Return the annotations of the NodeResourceTopology."""
    policy: dict[str, Any] = {"policy": "none"}
    if report.kubelet is not None:
        policy = {"policy": STATIC_POLICY, "reservedCPUs": str(report.kubelet_reserved)}
    detail = [
        {"id": cpu.id, "core": cpu.core, "socket": cpu.socket, "node": cpu.numa_node}
        for cpu in sorted(topology.cpus, key=lambda cpu: cpu.id)
    ]
    contents = {
        CPU_TOPOLOGY: {"detail": detail},
        POD_CPU_ALLOCATIONS: list(_pod_allocations(report.prepared, report.kubelet, online=topology.online)),
        SHARED_POOLS: _by_domain(topology, report.pools.shared),
        BEST_EFFORT_POOLS: _by_domain(topology, report.pools.best_effort),
        CPU_MANAGER_POLICY: policy,
    }
    return {key: json.dumps(value, separators=(",", ":")) for key, value in contents.items()}


def device_data(
    preparation: PreparedClaim, kubelet: KubeletCpus | None, *, online: CpuSet | None = None
) -> dict[int, dict[str, Any]]:
    """Return the CPUs of each device of a prepared claim, by its index; nothing for CPUs that are not known.

    CPUs that are not among the `online` ones are listed a second time, apart.
    """
    held = [number for number, device in enumerate(preparation.devices) if not device.admin]
    if kubelet is None:
        cpus = prepared_cpus.device_cpusets(preparation)
        return {number: _cpuset_data(cpuset, online) for number, cpuset in zip(held, cpus, strict=False) if cpuset}
    pods = [kubelet.pods.get(uid, CpuSet()) for _, uid in prepared_cpus.claim_pods(preparation)]
    of_pods = CpuSet(cpu for cpuset in pods for cpu in cpuset)
    return {number: {"cpuset": str(of_pods), "managedByKubelet": True} for number in held[:1] if of_pods}


def _cpuset_data(cpus: CpuSet, online: CpuSet | None) -> dict[str, Any]:
    offline = cpus - online if online is not None else NO_CPUS
    return {"cpuset": str(cpus)} | ({"offline": str(offline)} if offline else {})


def _by_domain(topology: CpuTopology, pool: CpuSet) -> list[dict[str, Any]]:
    domains = sorted((socket, node, cpus) for (node, socket), cpus in topology.domains.items())
    return [{"socket": socket, "node": node, "cpuset": str(pool & cpus)} for socket, node, cpus in domains]


def _pod_allocations(
    prepared: Iterable[PreparedClaim], kubelet: KubeletCpus | None, *, online: CpuSet
) -> Iterable[Mapping[str, Any]]:
    reported = set()
    for preparation in sorted(prepared, key=lambda one: one.claim.key):
        namespace, name = preparation.claim.key
        cpus = prepared_cpus.claim_cpus(preparation) & online
        for pod, uid in prepared_cpus.claim_pods(preparation) or ((name, preparation.claim.uid),):
            own = cpus if kubelet is None else kubelet.pods.get(uid, cpus)
            reported.add(uid)
            if own:
                yield _pod_allocation(namespace, pod, uid, own, managed_by_kubelet=own != cpus)
    for uid, own in sorted(kubelet.pods.items()) if kubelet is not None else ():
        if uid not in reported and own:
            yield _pod_allocation("", "", uid, own, managed_by_kubelet=True)


def _pod_allocation(namespace: str, name: str, uid: str, cpus: CpuSet, *, managed_by_kubelet: bool) -> dict[str, Any]:
    entry: dict[str, Any] = {"namespace": namespace, "name": name, "uid": uid, "cpuset": str(cpus)}
    return entry | ({"managedByKubelet": True} if managed_by_kubelet else {})
