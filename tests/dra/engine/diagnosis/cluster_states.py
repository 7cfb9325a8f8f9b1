"""Snapshots as an API server would give them: a cluster of three nodes with two devices each."""

from typing import Any

import msgspec

from dra.engine.claims.view import WorkloadPhase
from dra.engine.diagnosis.cluster_state import ClusterState
from dra.engine.diagnosis.snapshot import (
    ControllerLease,
    ControllerPresence,
    DiagnosedSnapshot,
    ReferencedWorkload,
    Snapshot,
)

DRIVER = "gpu.example.com"
JOB = {"apiGroup": "batch", "resource": "jobs", "name": "train", "uid": "uid-job"}
NOBODY = ControllerLease(presence=ControllerPresence.ABSENT, name="dra-reserve/dra-reserve-controller")
SOMEBODY = ControllerLease(
    presence=ControllerPresence.RUNNING, name="dra-reserve/dra-reserve-controller", holder="c-1", seconds=2
)


def node(
    name: str,
    *,
    ready: bool = True,
    cordoned: bool = False,
    taints: tuple = (),
    cpu: str = "8",
    keeps: str = "",
    **labels: str,
) -> Any:
    annotations = {"annotations": {"node.koordinator.sh/reservation": keeps}} if keeps else {}
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": "1", "labels": labels, **annotations},
        "spec": {"unschedulable": cordoned, "taints": list(taints)},
        "status": {
            "conditions": [{"type": "Ready", "status": "True" if ready else "Unknown"}],
            "allocatable": {"cpu": cpu, "memory": "32Gi", "pods": "110"},
        },
    }


def offer(on: str, devices: int = 2, **pool: Any) -> Any:
    return {
        "metadata": {"name": f"{on}-gpus", "resourceVersion": "1"},
        "spec": {
            "driver": DRIVER,
            "nodeName": on,
            "pool": {"name": on, "generation": 1, "resourceSliceCount": 1} | pool,
            "devices": [{"name": f"gpu-{number}"} for number in range(devices)],
        },
    }


def offer_partitions(on: str) -> Any:
    """The slice of a card, ``gpu-0``, that can be divided into two parts, ``gpu-1`` and ``gpu-2``."""
    found = offer(on, 3)
    spec = found["spec"]
    spec["sharedCounters"] = [{"name": "card", "counters": {"slices": {"value": "2"}}}]
    for device, amount in zip(spec["devices"], ("2", "1", "1"), strict=True):
        device["consumesCounters"] = [{"counterSet": "card", "counters": {"slices": {"value": amount}}}]
    return found


def rule(name: str = "r", *, effect: str = "NoSchedule", **selector: str) -> Any:
    """A DeviceTaintRule; without criteria it selects every device."""
    taint = {"key": "service", "effect": effect, "timeAdded": "2026-11-20T11:00:00Z"}
    return {"metadata": {"name": name, "resourceVersion": "1"}, "spec": {"deviceSelector": selector, "taint": taint}}


def claim(name: str, *devices: str, listed: tuple = (), count: int = 1, **metadata: Any) -> Any:
    """A claim; devices as NODE/DEVICE, none if it is not allocated."""
    status: dict[str, Any] = {}
    if devices:
        pools = [each.split("/") for each in devices]
        results = [{"request": "gpu", "driver": DRIVER, "pool": pool, "device": device} for pool, device in pools]
        here = {"key": "metadata.name", "operator": "In", "values": [pool for pool, _ in pools]}
        status["allocation"] = {
            "devices": {"results": results},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [here]}]},
            "allocationTimestamp": "2026-11-20T11:59:00Z",
        }
    if listed:
        status["reservedFor"] = list(listed)
    exactly = {"deviceClassName": DRIVER, "count": count}
    return {
        "metadata": {"name": name, "namespace": "ml", "uid": f"uid-{name}", "resourceVersion": "1"} | metadata,
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
        "status": status,
    }


def pod(name: str, *claims: str, on: str = "", phase: str = "Pending", started: bool = False, **more: Any) -> Any:
    conditions = [{"type": "PodReadyToStartContainers", "status": "True"}] if started else []
    spec = {
        "nodeName": on,
        "containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}],
        "resourceClaims": [{"name": f"c{index}", "resourceClaimName": each} for index, each in enumerate(claims)],
    }
    return {
        "metadata": {"name": name, "namespace": "ml", "uid": f"uid-{name}", "resourceVersion": "1"}
        | more.pop("metadata", {}),
        "spec": spec | more,
        "status": {"phase": phase, "conditions": conditions},
    }


def entry(name: str) -> Any:
    return {"resource": "pods", "name": name, "uid": f"uid-{name}"}


def workload(phase: WorkloadPhase, *, uid: str = "uid-job") -> Any:
    return ReferencedWorkload(resource="jobs", group="batch", namespace="ml", name="train", phase=phase, uid=uid)  # type: ignore[arg-type]


def snapshot(
    *claims: Any, pods: tuple = (), workloads: tuple = (), leader: ControllerLease = NOBODY, **more: Any
) -> Snapshot:
    nodes = more.get("nodes") or [node("n1"), node("n2"), node("n3")]
    classes = [{"metadata": {"name": DRIVER}, "spec": {"selectors": [{"cel": {"expression": "true"}}]}}]
    content = {
        "taken": "2026-11-20T12:00:00Z",
        "claims": list(claims),
        "pods": list(pods),
        "nodes": nodes,
        "slices": more.get("slices") or [offer(each["metadata"]["name"]) for each in nodes],
        "classes": classes,
        "rules": more.get("rules", []),
        "templates": more.get("templates", []),
        "priorities": more.get("priorities", []),
        "budgets": more.get("budgets", []),
        "startFailures": more.get("start_failures", []),
    }
    found = msgspec.convert(content, DiagnosedSnapshot)
    return msgspec.structs.replace(found, workloads=tuple(workloads), leader=leader)


def cluster_state(*claims: Any, **more: Any) -> ClusterState:
    return ClusterState(snapshot(*claims, **more))
