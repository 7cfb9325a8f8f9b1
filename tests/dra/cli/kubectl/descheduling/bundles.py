"""Bundles of clusters for dry rounds: nodes of 4 CPUs, and pods of ReplicaSets."""

import msgspec

from dra.cli.kubectl.snapshots.bundle_file import write_bundle
from dra.engine.diagnosis.descheduling_snapshot import DeschedulingSnapshot

TAKEN = "2026-11-28T12:00:00Z"
CONTAINER = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "500m", "memory": "64Mi"}}}


def node(name, **spec):
    status = {
        "conditions": [{"type": "Ready", "status": "True"}],
        "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
        "capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"},
    }
    labels = {"kubernetes.io/hostname": name}
    return {"metadata": {"name": name, "uid": f"uid-{name}", "labels": labels}, "spec": spec, "status": status}


def pod(name, on, *, owner="web", namespace="shop", labels=None, restarts=0, priority=0, **spec):
    owners = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": f"uid-{owner}", "controller": True}]
    metadata = {
        "name": name,
        "namespace": namespace,
        "uid": f"uid-{namespace}-{name}",
        "creationTimestamp": "2026-11-28T08:00:00Z",
        "labels": labels or {"app": owner},
        "ownerReferences": owners if owner else [],
    }
    status = {
        "phase": "Running",
        "qosClass": "Burstable",
        "startTime": "2026-11-28T08:00:10Z",
        "conditions": [{"type": "Ready", "status": "True"}, {"type": "PodScheduled", "status": "True"}],
        "containerStatuses": [{"name": "c", "restartCount": restarts}],
    }
    content = {"nodeName": on, "priority": priority, "containers": [CONTAINER], **spec}
    return {"metadata": metadata, "spec": content, "status": status}


def snapshot(*, nodes, pods, replicas=None, **more):
    """Return a snapshot; ``replicas``: ReplicaSet → its replicas, by default those that have pods."""
    counts = {}
    for each in pods:
        for owner in each["metadata"]["ownerReferences"]:
            counts[owner["name"]] = counts.get(owner["name"], 0) + 1
    facts = {
        "namespaces": {"shop": {}},
        "replicas": [
            {
                "namespace": "shop",
                "group": "apps",
                "kind": "ReplicaSet",
                "name": name,
                "uid": f"uid-{name}",
                "replicas": count,
            }
            for name, count in {**counts, **(replicas or {})}.items()
        ],
    }
    content = {"taken": TAKEN, "nodes": nodes, "pods": pods, "reservations": [], "migrations": [], **more}
    return msgspec.convert({**content, "descheduling": facts}, DeschedulingSnapshot)


def hot_cluster(**more):
    """One node with eight pods of 500m (of four workloads), two nodes without any."""
    pods = [pod(f"{owner}-{number}", "n1", owner=owner) for owner in ("web", "api", "db", "job") for number in (1, 2)]
    return snapshot(nodes=[node("n1"), node("n2"), node("n3")], pods=pods, **more)


def bundle(folder, found):
    """Write a bundle and return its path as text."""
    path = folder / "cluster.tgz"
    write_bundle(found, path)
    return str(path)


def configuration(folder, text, name="d.yaml"):
    """Write a configuration and return its path as text."""
    (folder / name).write_text(text)
    return str(folder / name)


LOW_NODE_UTILIZATION = """
migration: {maxMigratingPerNode: 0}
maxNoOfPodsToEvictPerNode: 2
profiles:
- name: default
  plugins: {balance: {enabled: [{name: LowNodeUtilization}]}}
  pluginConfig:
  - {name: LowNodeUtilization, args: {thresholds: {cpu: 20}, targetThresholds: {cpu: 50}}}
"""
