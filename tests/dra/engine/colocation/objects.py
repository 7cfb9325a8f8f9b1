"""Nodes, NodeMetrics and pods as their manifests say."""

from datetime import UTC, datetime

import msgspec

from dra.api.colocation.strategies import ColocationStrategy
from dra.engine.colocation.batch_node import batch_sum
from dra.model.node_metrics import NodeMetric
from dra.model.node_pods import AgentNode, NodePod

NOW = datetime(2026, 11, 28, 8, 0, tzinfo=UTC).timestamp()
ENABLED = ColocationStrategy(enable=True, cpu_reclaim_threshold_percent=65)
PRIORITIES = {"koord-prod": 9500, "koord-mid": 7500, "koord-batch": 5500, "koord-free": 3500, "": 0}


def resources(cpu=None, memory=None):
    return {name: text for name, text in (("cpu", cpu), ("memory", memory)) if text is not None}


def node(cpu="100", memory="120G", *, allocatable=None, batch=None, labels=None, annotations=None, name="n1", uid="n"):
    capacity = resources(cpu, memory)
    allocatable = {**capacity, **(allocatable or {})}
    extra = {} if batch is None else {f"kubernetes.io/batch-{key}": str(value) for key, value in batch.items()}
    manifest = {
        "metadata": {"name": name, "uid": uid, "labels": labels or {}, "annotations": annotations or {}},
        "status": {"capacity": capacity | extra, "allocatable": allocatable | extra},
    }
    return msgspec.convert(manifest, AgentNode)


def reserved(text):
    return {"node.koordinator.sh/reservation": text}


def used(name, cpu="0", memory="0", *, priority="", uid="", namespace="default"):
    usage = {"resources": resources(cpu, memory)}
    return {"namespace": namespace, "name": name, "uid": uid, "priority": priority, "podUsage": usage}


def metric(*pods, system=("0", "0"), age=30, host=(), name="n1", update_time=None):
    at = datetime.fromtimestamp(NOW - age, UTC).isoformat() if update_time is None else update_time
    node_metric = {"nodeUsage": {"resources": {}}}
    if system is not None:
        node_metric["systemUsage"] = {"resources": resources(*system)}
    applications = [
        {"name": "app", "priority": priority, "usage": {"resources": resources(*amounts)}} for priority, amounts in host
    ]
    status = {"updateTime": at, "nodeMetric": node_metric, "podsMetric": pods, "hostApplicationMetric": applications}
    return msgspec.convert({"metadata": {"name": name}, "status": status}, NodeMetric)


def pod(name, requests=None, *, qos="LS", priority="koord-prod", started=True, phase="Running", uid="", **more):
    status = {"phase": phase, "qosClass": more.pop("kubernetes_qos", "Burstable")}
    if started:
        status["startTime"] = "2026-11-28T07:00:00Z"
    spec = {
        "nodeName": "n1",
        "priority": PRIORITIES[priority],
        "containers": [{"resources": {"requests": requests or {}}}],
    }
    labels = {"koordinator.sh/qosClass": qos} if qos else {}
    metadata = {"namespace": "default", "name": name, "uid": uid or f"uid-{name}", "labels": labels}
    return msgspec.convert({"metadata": metadata, "spec": spec | more, "status": status}, NodePod)


def batch(cpu=0, memory=0):
    return {"kubernetes.io/batch-cpu": str(cpu), "kubernetes.io/batch-memory": str(memory)}


def be(name, cpu=0, memory=0, **more):
    return pod(name, batch(cpu, memory), qos="BE", priority="koord-batch", kubernetes_qos="BestEffort", **more)


def total(node_, metric_=None, pods=(), strategy=ENABLED):
    """Return the sum of a node."""
    return batch_sum(node_, metric_, pods, strategy, now=NOW)
