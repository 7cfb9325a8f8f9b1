"""The kinds of workloads that claims can be reserved for, their definitions, and objects that make no pods."""

from typing import Final

from tests.scenarios import objects
from tests.scenarios.api import Json
from tests.scenarios.objects import PodShape
from tests.scenarios.resources import CRDS, Resource

CUSTOM_KINDS: Final = {
    "jobsets": Resource("jobset.x-k8s.io/v1alpha2", "JobSet", "jobsets"),
    "rayjobs": Resource("ray.io/v1", "RayJob", "rayjobs"),
    "rayclusters": Resource("ray.io/v1", "RayCluster", "rayclusters"),
    "trainjobs": Resource("trainer.kubeflow.org/v1alpha1", "TrainJob", "trainjobs"),
    "pytorchjobs": Resource("kubeflow.org/v1", "PyTorchJob", "pytorchjobs"),
    "tfjobs": Resource("kubeflow.org/v1", "TFJob", "tfjobs"),
    "mpijobs": Resource("kubeflow.org/v1", "MPIJob", "mpijobs"),
    "xgboostjobs": Resource("kubeflow.org/v1", "XGBoostJob", "xgboostjobs"),
    "paddlejobs": Resource("kubeflow.org/v1", "PaddleJob", "paddlejobs"),
    "jaxjobs": Resource("kubeflow.org/v1", "JAXJob", "jaxjobs"),
    "leaderworkersets": Resource("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "leaderworkersets"),
    "volcanojobs": Resource("batch.volcano.sh/v1alpha1", "Job", "jobs"),
    "workloads": Resource("kueue.x-k8s.io/v1beta2", "Workload", "workloads"),
}
"""Kinds of workloads that are no part of Kubernetes, by a name that no other kind has."""

KINDS: Final = {
    "jobs": Resource("batch/v1", "Job", "jobs"),
    "deployments": Resource("apps/v1", "Deployment", "deployments"),
    "statefulsets": Resource("apps/v1", "StatefulSet", "statefulsets"),
    "replicasets": Resource("apps/v1", "ReplicaSet", "replicasets"),
    **CUSTOM_KINDS,
}


def suspended_spec(name: str) -> Json:
    """Return the spec of a Job that makes no pods."""
    return {**objects.job(name, PodShape())["spec"], "suspend": True}


def crd_of_jobsets() -> Json:
    """Return a definition of JobSets, which are no part of Kubernetes."""
    return _crd(KINDS["jobsets"])


def crds_of_workloads() -> list[Json]:
    """Return definitions of all kinds of workloads that are no part of Kubernetes."""
    return [_crd(kind) for kind in CUSTOM_KINDS.values()]


def _crd(kind: Resource) -> Json:
    group, _, version = kind.api_version.partition("/")
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": kind.plural, "singular": kind.kind.lower(), "kind": kind.kind}
    return {
        "apiVersion": CRDS.api_version,
        "kind": CRDS.kind,
        "metadata": {"name": f"{kind.plural}.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [served]},
    }


def workload(kind: Resource, name: str) -> Json:
    """Return an object of the kind that makes no pods."""
    if kind in CUSTOM_KINDS.values():
        return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, "spec": {}}
    deployment = objects.deployment(name, PodShape(), replicas=0)
    contents: dict[str, Json] = {
        "jobs": suspended_spec(name),
        "deployments": deployment["spec"],
        "statefulsets": deployment["spec"] | {"serviceName": name},
        "replicasets": deployment["spec"],
    }
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": name},
        "spec": contents[kind.plural],
    }
