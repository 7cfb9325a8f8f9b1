"""The objects of a set: nodes and devices in Koordinator's kinds, and pods."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from dra.api.koordinator import well_known
from dra.engine.cpus.node_policies import LABEL_CPU_BIND_POLICY, LABEL_NUMA_ALLOCATE_STRATEGY
from dra.model.koordinator_classes import LABEL_PRIORITY_CLASS, LABEL_QOS_CLASS
from tests.dra.engine.cpus.uniform import uniform_topology
from tests.scenarios.koordinator.placement import sets
from tests.scenarios.objects import IMAGE

if TYPE_CHECKING:
    from dra.engine.cpus.topology import CpuTopology
    from tests.scenarios.koordinator.placement.sets import Machine, PlacementSet, Pod

Json = dict[str, Any]

MEBI: Final = 2**20
SET: Final = "scenario.dra/set"
"""The label of a set's nodes."""

READY: Final = {"type": "Ready", "status": "True", "reason": "KubeletReady"}


def topology(machine: Machine) -> CpuTopology:
    """Return the CPUs of a machine."""
    found: CpuTopology = uniform_topology(
        sockets=machine.sockets, nodes=machine.numa_nodes, cores=machine.cores, threads=machine.threads
    )
    return found


def numa_node(machine: Machine, minor: int) -> int:
    """Return the NUMA node of a card: the first half of the cards is on the first one, if there are several."""
    return int(machine.sockets * machine.numa_nodes > 1 and minor >= len(machine.cards) / 2)


def pcie_root(minor: int) -> str:
    """Return the PCIe root of a card."""
    return f"pci0000:{minor // 2:02x}"


def node(made: PlacementSet, number: int, *, extended: Json | None = None) -> Json:
    """Return a Node without a kubelet; `extended`: what device plugins or koord-manager add to its resources."""
    machine, name = made.machines[number], made.node(number)
    cpus = len(topology(machine).cpus)
    labels = {"kubernetes.io/hostname": name, SET: str(made.number)}
    if machine.bind_policy:
        labels[LABEL_CPU_BIND_POLICY] = machine.bind_policy
    if machine.strategy:
        labels[LABEL_NUMA_ALLOCATE_STRATEGY] = machine.strategy
    amounts = {"memory": "256Gi", "pods": "200"} | (extended or {})
    allocatable = amounts | {"cpu": str(cpus - machine.threads)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": amounts | {"cpu": str(cpus)}, "allocatable": allocatable, "conditions": [READY]},
    }


def card_resources(machine: Machine) -> Json:
    """Return the resources of a Node that device plugins and koord-manager report for its cards."""
    if not machine.cards:
        return {}
    percent = str(100 * len(machine.cards))
    percents = dict.fromkeys((sets.GPU, sets.CORE, sets.RATIO, sets.SHARED), percent)
    return percents | {sets.MEMORY: f"{sum(machine.cards)}Mi", sets.VENDOR: str(len(machine.cards))}


def device(made: PlacementSet, number: int) -> Json:
    """Return Koordinator's Device of a machine."""
    machine = made.machines[number]
    cards = [
        {
            "type": "gpu",
            "id": f"GPU-{made.node(number)}-{minor}",
            "minor": minor,
            "health": True,
            "resources": {sets.CORE: "100", sets.RATIO: "100", sets.MEMORY: f"{size}Mi"},
            "topology": {
                "socketID": numa_node(machine, minor) // machine.numa_nodes,
                "nodeID": numa_node(machine, minor),
                "pcieID": pcie_root(minor),
            },
        }
        for minor, size in enumerate(machine.cards)
    ]
    return {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Device",
        "metadata": {"name": made.node(number)},
        "spec": {"devices": cards},
    }


def node_resource_topology(made: PlacementSet, number: int) -> Json:
    """Return the NodeResourceTopology of a machine, as koordlet reports it."""
    machine = made.machines[number]
    detail = [
        {"id": cpu.id, "core": cpu.core, "socket": cpu.socket, "node": cpu.numa_node} for cpu in topology(machine).cpus
    ]
    kubelet = {"policy": "none", "reservedCPUs": f"0-{machine.threads - 1}"}
    annotations: Json = {
        "node.koordinator.sh/cpu-topology": {"detail": detail},
        "kubelet.koordinator.sh/cpu-manager-policy": kubelet,
    }
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha1",
        "kind": "NodeResourceTopology",
        "metadata": {
            "name": made.node(number),
            "annotations": {name: json.dumps(value) for name, value in annotations.items()},
        },
        "topologyPolicies": ["None"],
        "zones": [],
    }


def pod(made: PlacementSet, step: int, *, scheduler: str) -> Json:
    """Return the pod of a step, as its user writes it; all machines of the set are open to it."""
    wanted = made.steps[step]
    assert not isinstance(wanted, int)
    annotations = {well_known.ANNOTATION_RESOURCE_SPEC: json.dumps(wanted.words)} if wanted.words else {}
    labels = {LABEL_QOS_CLASS: wanted.qos, LABEL_PRIORITY_CLASS: wanted.priority_class} if wanted.qos else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": made.pod(step), "labels": labels, "annotations": annotations},
        "spec": {
            "schedulerName": scheduler,
            "nodeSelector": {SET: str(made.number)},
            "tolerations": [{"operator": "Exists"}],
            "terminationGracePeriodSeconds": 0,
            "containers": [_container(wanted, index) for index in range(len(wanted.cpus))],
        },
    }


def _container(wanted: Pod, index: int) -> Json:
    limits = dict(wanted.gpus[index]) if index < len(wanted.gpus) else {}
    requests: Json = {}
    if wanted.cpus[index]:
        limits["cpu"] = requests["cpu"] = wanted.cpus[index]
    resources = ({"limits": limits} if limits else {}) | ({"requests": requests} if requests else {})
    return {"name": f"c{index}", "image": IMAGE, "resources": resources}
