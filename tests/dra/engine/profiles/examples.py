"""Profiles and pods for the tests of the access layer; the manual's manifests are as Koordinator prints them."""

from collections.abc import Mapping
from typing import Any, Final

import yaml

from dra.api.profiles.parameters import ResolvedProfile
from dra.engine.profiles.evaluation import Evaluation, evaluate

QOS: Final = "koordinator.sh/qosClass"
ENABLED: Final = {"koordinator.sh/enable-colocation": "true"}
BATCH_CPU: Final = "kubernetes.io/batch-cpu"
BATCH_MEMORY: Final = "kubernetes.io/batch-memory"
SKIP: Final = "config.koordinator.sh/skip-update-resources"
PRIORITIES: Final = {"koord-free": 3500, "koord-batch": 5500, "koord-mid": 7500, "koord-prod": 9500, "low": 10}

MANUAL: Final = """\
apiVersion: config.koordinator.sh/v1alpha1
kind: ClusterColocationProfile
metadata:
  name: colocation-profile-example
spec:
  namespaceSelector:
    matchLabels:
      koordinator.sh/enable-colocation: "true"
  selector:
    matchLabels:
      koordinator.sh/enable-colocation: "true"
  qosClass: BE
  priorityClassName: koord-batch
  koordinatorPriority: 1000
  schedulerName: koord-scheduler
  labels:
    koordinator.sh/mutated: "true"
  annotations:
    koordinator.sh/intercepted: "true"
  patch:
    spec:
      terminationGracePeriodSeconds: 30
"""
"""The profile of Koordinator's manual, "Colocation Profile"."""

SPARK: Final = """\
apiVersion: config.koordinator.sh/v1alpha1
kind: ClusterColocationProfile
metadata:
  name: spark-demo
spec:
  namespaceSelector:
    matchLabels:
      koordinator.sh/enable-colocation: "true"
  selector:
    matchLabels:
      sparkoperator.k8s.io/launched-by-spark-operator: "true"
  qosClass: BE
  priorityClassName: koord-batch
  koordinatorPriority: 1000
  schedulerName: koord-scheduler
"""
"""The profile of Koordinator's "Colocation of Spark Jobs"."""

QUICK_START: Final = """\
apiVersion: config.koordinator.sh/v1alpha1
kind: ClusterColocationProfile
metadata:
  name: batch-workload-profile
spec:
  namespaceSelector:
    matchLabels:
      koordinator.sh/enable-colocation: "true"
  selector:
    matchLabels:
      app-type: batch
  qosClass: BE
  priorityClassName: koord-batch
  schedulerName: koord-scheduler
  labels:
    koordinator.sh/mutated: "true"
"""
"""The profile of Koordinator's quick start."""

MANIFESTS: Final = (MANUAL, SPARK, QUICK_START)


def profile(name: str = "be", *, own_annotations: Mapping[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    """Return a ClusterColocationProfile as in the API; it selects all pods unless ``spec`` says otherwise."""
    return {
        "apiVersion": "config.koordinator.sh/v1alpha1",
        "kind": "ClusterColocationProfile",
        "metadata": {"name": name, "uid": f"uid-of-{name}", "annotations": dict(own_annotations or {})},
        "spec": spec,
    }


def manifest(text: str) -> dict[str, Any]:
    """Return a manifest as plain data."""
    found: dict[str, Any] = yaml.safe_load(text)
    return found


def evaluated(*profiles: Mapping[str, Any]) -> Evaluation:
    """Return the evaluation of profiles with the PriorityClasses of Koordinator."""
    return evaluate(profiles, priorities=PRIORITIES)


def resolved(*profiles: Mapping[str, Any]) -> tuple[ResolvedProfile, ...]:
    """Return profiles as the admission policy gets them; all of them must be supported."""
    found = evaluated(*profiles)
    assert [each.reason for each in found.outcomes if each.applied is None] == []
    return found.profiles


def pod(*containers: dict[str, Any], labels: Mapping[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    """Return a pod as the API server has it before the policies run: with its priority."""
    return {
        "metadata": {"name": "p", "labels": dict(labels or {})},
        "spec": {"priority": 0, "containers": list(containers) or [container()], **spec},
    }


def container(
    name: str = "main", *, requests: Mapping[str, Any] | None = None, limits: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return a container with requests and limits."""
    resources = {"requests": dict(requests or {}), "limits": dict(limits or {})}
    return {"name": name, "resources": {kind: amounts for kind, amounts in resources.items() if amounts}}
