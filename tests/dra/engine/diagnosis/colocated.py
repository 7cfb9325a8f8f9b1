"""Snapshots of clusters with colocation: nodes that report what they use, batch pods, the ConfigMap."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from dra.engine.diagnosis.cluster_state import ClusterState
from dra.engine.diagnosis.snapshot import Snapshot

NOW = datetime(2026, 11, 28, 12, 0, tzinfo=UTC)

GIB = 2**30


def at(**ago: float) -> str:
    """Return a time before now in RFC 3339."""
    return (NOW - timedelta(**ago)).strftime("%Y-%m-%dT%H:%M:%SZ")


def node(name: str = "n1", *, batch: tuple[Any, Any] | None = (8000, 16 * GIB), **metadata: Any) -> Any:
    """Return a Node of 16 CPUs and 64 GiB that offers batch resources: milli-CPUs and bytes."""
    sizes = {"cpu": "16", "memory": "64Gi", "pods": "110"}
    offered = {} if batch is None else {"kubernetes.io/batch-cpu": batch[0], "kubernetes.io/batch-memory": batch[1]}
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "creationTimestamp": at(days=9)} | metadata,
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "capacity": sizes | offered,
            "allocatable": sizes | offered,
        },
    }


def metric(
    name: str = "n1", *pods: Any, updated: str = at(seconds=35), system: Any = ("500m", "1Gi"), **more: Any
) -> Any:
    """Return the NodeMetric of a node that uses 6 CPUs and 20 GiB."""
    info: dict[str, Any] = {"nodeUsage": used("6", "20Gi")}
    if system is not None:
        info["systemUsage"] = used(*system)
    status = {"updateTime": updated, "nodeMetric": info, "podsMetric": list(pods)} if updated else {}
    return {"metadata": {"name": name, "creationTimestamp": at(days=9)} | more, "status": status}


def used(cpu: str, memory: str) -> Any:
    return {"resources": {"cpu": cpu, "memory": memory}}


def pod_metric(name: str, cpu: str, memory: str, **more: str) -> Any:
    return {"namespace": "ml", "name": name, "podUsage": used(cpu, memory)} | more


def pod(name: str, *, on: str = "n1", started: bool = True, phase: str = "Running", **requests: Any) -> Any:
    """Return a pod of the class LS; ``batch_cpu`` and ``batch_memory`` make it a batch pod."""
    names = {"batch_cpu": "kubernetes.io/batch-cpu", "batch_memory": "kubernetes.io/batch-memory"}
    amounts = {names.get(key, key): str(amount) for key, amount in requests.items()}
    is_batch = bool(requests.keys() & names)
    status: dict[str, Any] = {"phase": phase, "qosClass": "BestEffort" if is_batch else "Burstable"}
    if started and on:
        status["startTime"] = at(hours=1)
    labels = {"koordinator.sh/qosClass": "BE" if is_batch else "LS"}
    return {
        "metadata": {"name": name, "namespace": "ml", "uid": f"uid-{name}", "labels": labels},
        "spec": {"nodeName": on, "containers": [{"name": "main", "resources": {"requests": amounts}}]},
        "status": status,
    }


def config(colocation: Any = None, **keys: Any) -> Any:
    """Return the ConfigMap; its first key enables colocation with a margin of 35 % unless it is given."""
    given = {"enable": True, "cpuReclaimThresholdPercent": 65} if colocation is None else colocation
    texts = {"colocation-config": given, **{key.replace("_", "-"): value for key, value in keys.items()}}
    data = {key: value if isinstance(value, str) else json.dumps(value) for key, value in texts.items()}
    return {
        "metadata": {"name": "slo-controller-config", "namespace": "koordinator-system", "uid": "uid-config"},
        "data": data,
    }


def snapshot(*, nodes: Any = (), pods: Any = (), metrics: Any = (), config_map: Any = None, gaps: Any = ()) -> Snapshot:
    """Return a snapshot; ``metrics`` None: the server does not serve NodeMetrics."""
    content = {
        "taken": NOW.isoformat(),
        "nodes": list(nodes),
        "pods": list(pods),
        "nodeMetrics": None if metrics is None else list(metrics),
        "colocationConfig": config_map,
        "gaps": [{"resource": each, "why": "no right to read it"} for each in gaps],
    }
    return msgspec.convert({key: value for key, value in content.items() if value is not None}, Snapshot)


def cluster(**parts: Any) -> ClusterState:
    """Return the cluster state of `snapshot`."""
    return ClusterState(snapshot(**parts))


def busy(**more: Any) -> dict[str, Any]:
    """Return the parts of a cluster with one node: two LS pods, one of them without a report, and two batch pods."""
    parts = {
        "nodes": [node()],
        "pods": [
            pod("web-0", cpu="6", memory="16Gi"),
            pod("web-1", cpu="1", memory="2Gi"),
            pod("train-0", batch_cpu=1000, batch_memory=GIB),
            pod("train-1", batch_cpu=2000, batch_memory=2 * GIB),
        ],
        "metrics": [metric("n1", pod_metric("web-0", "4", "12Gi"), pod_metric("train-0", "900m", "1Gi"))],
        "config_map": config(),
    }
    return parts | more
