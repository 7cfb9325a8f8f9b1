"""The objects of a case: a Node, its NodeMetric, and its pods; and those of the cluster."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from tests.scenarios.koordinator.batch_resources.cases import CONFIGURATION, OVERHEAD, PRIORITIES
from tests.scenarios.objects import IMAGE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from tests.scenarios.koordinator.batch_resources.cases import Case, Pod, Usage

Json = dict[str, Any]

NAMESPACE: Final = "batch-resources"
RUNTIME_CLASS: Final = "batch-resources-overhead"
READY: Final = {"type": "Ready", "status": "True", "reason": "KubeletReady"}


def configuration() -> Json:
    """Return the ConfigMap that koord-manager reads."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "slo-controller-config", "namespace": "koordinator-system"},
        "data": {"colocation-config": json.dumps(CONFIGURATION)},
    }


def priority_classes() -> list[Json]:
    """Return Koordinator's PriorityClasses."""
    return [
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
        for name, value in PRIORITIES.items()
    ]


def runtime_class() -> Json:
    """Return the RuntimeClass of pods with overhead."""
    return {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": RUNTIME_CLASS},
        "handler": "runc",
        "overhead": {"podFixed": dict(OVERHEAD)},
    }


def node(case: Case) -> Json:
    """Return the Node."""
    labels = {"kubernetes.io/hostname": case.name, **case.labels}
    more = {"pods": "200"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": case.name, "labels": labels, "annotations": dict(case.annotations)},
        "status": {
            "capacity": _resources(case.capacity) | more,
            "allocatable": _resources(case.allocatable) | more,
            "conditions": [READY],
        },
    }


def node_metric(case: Case, *, now: datetime) -> Json:
    """Return the NodeMetric, measured so many seconds before `now` as the case says."""
    policy = {"aggregateDurationSeconds": 300, "reportIntervalSeconds": 60}
    made: Json = {
        "apiVersion": "slo.koordinator.sh/v1alpha1",
        "kind": "NodeMetric",
        "metadata": {"name": case.name},
        "spec": {"metricCollectPolicy": policy},
    }
    if not case.measured:
        return made
    at = now - timedelta(seconds=case.age)
    measured: Json = {"nodeUsage": {"resources": _resources(case.capacity)}}
    if case.system is not None:
        measured["systemUsage"] = {"resources": _resources(case.system)}
    made["status"] = {
        "updateTime": at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "nodeMetric": measured,
        "podsMetric": [_pod_metric(case, number) for number, pod in enumerate(case.pods) if pod.usage is not None],
    }
    if case.host:
        made["status"]["hostApplicationMetric"] = [
            {"name": f"host-{number}", "priority": priority, "qos": qos, "usage": {"resources": _resources(usage)}}
            for number, (priority, qos, usage) in enumerate(case.host)
        ]
    return made


def _pod_metric(case: Case, number: int) -> Json:
    pod = case.pods[number]
    assert pod.usage is not None
    return {
        "namespace": NAMESPACE,
        "name": _pod_name(case, number),
        "priority": pod.priority_class,
        "qos": pod.qos,
        "podUsage": {"resources": _resources(pod.usage)},
    }


def pods(case: Case) -> Iterator[tuple[Pod, Json]]:
    """Yield the pods that exist, as the API server stores them but for their phase and deletion."""
    for number, pod in enumerate(case.pods):
        if pod.exists:
            yield pod, _pod(case, number)


def _pod(case: Case, number: int) -> Json:
    pod = case.pods[number]
    labels = {"koordinator.sh/qosClass": pod.qos} if pod.qos else {}
    if pod.class_label:
        labels["koordinator.sh/priority-class"] = pod.class_label
    spec: Json = {
        "nodeName": case.name,
        "automountServiceAccountToken": False,
        "tolerations": [{"operator": "Exists"}],
        "containers": [_container(f"c{nth}", each) for nth, each in enumerate(pod.containers)],
    }
    if pod.init:
        spec["initContainers"] = [_container(f"i{nth}", each) for nth, each in enumerate(pod.init)]
    if pod.priority_class:
        spec |= {"priorityClassName": pod.priority_class, "priority": PRIORITIES[pod.priority_class]}
    if pod.overhead:
        spec |= {"runtimeClassName": RUNTIME_CLASS, "overhead": dict(OVERHEAD)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": _pod_name(case, number), "namespace": NAMESPACE, "labels": labels},
        "spec": spec,
    }


def _container(name: str, resources: Json) -> Json:
    own = {"name": name, "image": IMAGE}
    if "restartPolicy" in resources:
        own["restartPolicy"] = resources["restartPolicy"]
    limits = resources.get("limits", {})
    requests = {**limits, **resources.get("requests", {})}
    given = {key: value for key, value in (("limits", limits), ("requests", requests)) if value}
    return own | {"resources": given}


def _pod_name(case: Case, number: int) -> str:
    return f"{case.name}-{number}"


def _resources(usage: Usage) -> Json:
    """Return a list of resources; an empty amount is one that is not named."""
    named = {"cpu": usage.cpu, "memory": usage.memory}
    return {name: amount for name, amount in named.items() if amount}
