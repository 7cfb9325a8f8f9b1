"""The API objects of a node: Node, Lease and ResourceSlices."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from dra.kube.clock import rfc3339, rfc3339_micro

DRIVER: Final = "gpu.example.com"
"""Name of the driver of simulated devices."""

RESOURCE_SLICE_MAX_DEVICES: Final = 128
"""Maximum number of devices in one ResourceSlice."""

LEASE_DURATION_SECONDS: Final = 40
"""``leaseDurationSeconds`` of a kubelet's lease, which is renewed every quarter of this time."""

_CAPACITY: Final = {"cpu": "64", "memory": "256Gi", "pods": "1000"}


@dataclass(frozen=True, kw_only=True)
class EmulatedNode:
    """The description of one emulated node."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    capacity: Mapping[str, str] = field(default_factory=_CAPACITY.copy)
    devices: int = 0
    """Number of simulated devices on the node."""
    driver: str = DRIVER
    model: str = "sim-1"
    memory: str = "80Gi"
    start_seconds: float = 0.0
    """Maximum seconds until a pod's sandbox is created and its containers start; the delay of each pod is random."""


def node_body(spec: EmulatedNode) -> dict[str, Any]:
    """Return the Node that a kubelet registers."""
    labels = {
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": spec.name,
        "kubernetes.io/os": "linux",
    }
    return {"metadata": {"name": spec.name, "labels": labels | dict(spec.labels)}, "spec": {}}


def node_status(spec: EmulatedNode, *, boot_id: str, wall: datetime, version: str) -> dict[str, Any]:
    """Return the status of a ready node; ``version`` is the version of its kubelet."""
    return {
        "capacity": dict(spec.capacity),
        "allocatable": dict(spec.capacity),
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}, {"type": "Hostname", "address": spec.name}],
        "conditions": node_conditions(wall, ready=True),
        "nodeInfo": {
            "architecture": "amd64",
            "bootID": boot_id,
            "containerRuntimeVersion": "emulated://1",
            "kernelVersion": "emulated",
            "kubeProxyVersion": "",
            "kubeletVersion": version,
            "machineID": spec.name,
            "operatingSystem": "linux",
            "osImage": "dra-reserve local node",
            "systemUUID": spec.name,
        },
    }


def node_conditions(wall: datetime, *, ready: bool) -> list[dict[str, str]]:
    """Return the conditions of a node."""
    at = rfc3339(wall)
    times = {"lastHeartbeatTime": at, "lastTransitionTime": at}
    pressures = [
        ("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ]
    conditions = [{"type": t, "status": "False", **times, "reason": r, "message": m} for t, r, m in pressures]
    why = ("KubeletReady", "kubelet is posting ready status") if ready else ("KubeletNotReady", "node is rebooting")
    state = {"type": "Ready", "status": "True" if ready else "False", **times, "reason": why[0], "message": why[1]}
    return [*conditions, state]


def lease_body(name: str, uid: str, wall: datetime) -> dict[str, Any]:
    """Return the lease by which a kubelet shows that its node is alive."""
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}
    spec = {"holderIdentity": name, "leaseDurationSeconds": LEASE_DURATION_SECONDS, "renewTime": rfc3339_micro(wall)}
    return {"metadata": {"name": name, "ownerReferences": [owner]}, "spec": spec}


def resource_slices(spec: EmulatedNode, uid: str) -> Iterator[dict[str, Any]]:
    """Yield the ResourceSlices that the simulated driver publishes for its node, all of one generation."""
    owner = {"apiVersion": "v1", "kind": "Node", "name": spec.name, "uid": uid, "controller": True}
    count = -(-spec.devices // RESOURCE_SLICE_MAX_DEVICES)
    for number, first in enumerate(range(0, spec.devices, RESOURCE_SLICE_MAX_DEVICES)):
        suffix = f"-{number}" if number else ""
        yield {
            "metadata": {"name": f"{spec.name}-{spec.driver}{suffix}", "ownerReferences": [owner]},
            "spec": {
                "driver": spec.driver,
                "nodeName": spec.name,
                "pool": {"name": spec.name, "generation": 1, "resourceSliceCount": count},
                "devices": [
                    _device(spec, i) for i in range(first, min(first + RESOURCE_SLICE_MAX_DEVICES, spec.devices))
                ],
            },
        }


def _device(spec: EmulatedNode, index: int) -> dict[str, Any]:
    return {
        "name": f"gpu-{index}",
        "attributes": {
            "model": {"string": spec.model},
            "index": {"int": index},
            "driverVersion": {"version": "1.0.0"},
        },
        "capacity": {"memory": {"value": spec.memory}},
    }
