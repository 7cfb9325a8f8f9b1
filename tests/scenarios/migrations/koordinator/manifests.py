"""The manifests of the comparison: workloads whose pods name koord-scheduler, Reservations and PodMigrationJobs."""

from __future__ import annotations

from typing import Any, Final

Json = dict[str, Any]

API_VERSION: Final = "scheduling.koordinator.sh/v1alpha1"
SCHEDULER: Final = "koord-scheduler"
"""Koordinator's examples name this scheduler; a profile of kube-scheduler has the name too."""

RESOURCES: Final = {"requests": {"cpu": "200m", "memory": "400Mi"}}


def pod_template(app: str, *, annotations: Json, labels: Json, spec: Json) -> Json:
    """Return the template of a workload's pods, which have the label ``app``."""
    container = {"name": "main", "image": "registry.k8s.io/pause:3.10", "resources": RESOURCES}
    return {
        "metadata": {"labels": {"app": app, **labels}, "annotations": annotations},
        "spec": {"schedulerName": SCHEDULER, "terminationGracePeriodSeconds": 1, "containers": [container], **spec},
    }


def workload(kind: str, app: str, *, replicas: int, template: Json) -> Json:
    """Return a Deployment, StatefulSet, DaemonSet or Job named ``web``."""
    selector = {"selector": {"matchLabels": {"app": app}}}
    if kind == "Job":
        once = template | {"spec": template["spec"] | {"restartPolicy": "Never"}}
        api_version, spec = "batch/v1", {"parallelism": replicas, "completions": replicas, "template": once}
    elif kind == "DaemonSet":
        api_version, spec = "apps/v1", {**selector, "template": template}
    else:
        api_version, spec = "apps/v1", {**selector, "replicas": replicas, "template": template}
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "web"}, "spec": spec}


def pod(app: str, *, template: Json) -> Json:
    """Return a pod without a controller, named ``web``."""
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "labels": {"app": app}}, **template} | {
        "metadata": {"name": "web", **template["metadata"]}
    }


def budget(app: str, *, min_available: int) -> Json:
    """Return a PodDisruptionBudget named ``web``."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web"},
        "spec": {"minAvailable": min_available, "selector": {"matchLabels": {"app": app}}},
    }


def reservation(name: str, *, app: str, node: str) -> Json:
    """Return a Reservation on the node for one pod with the label ``app``."""
    template = pod_template(app, annotations={}, labels={}, spec={"nodeSelector": {"kubernetes.io/hostname": node}})
    return {
        "apiVersion": API_VERSION,
        "kind": "Reservation",
        "metadata": {"name": name},
        "spec": {
            "template": template,
            "owners": [{"labelSelector": {"matchLabels": {"app": app}}}],
            "allocateOnce": True,
            "ttl": "1h",
        },
    }


def reference(name: str) -> Json:
    """Return a reference to a Reservation."""
    return {"apiVersion": API_VERSION, "kind": "Reservation", "name": name}


def migration(name: str, *, spec: Json, labels: Json) -> Json:
    """Return a PodMigrationJob."""
    return {
        "apiVersion": API_VERSION,
        "kind": "PodMigrationJob",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
    }
