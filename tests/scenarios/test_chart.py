"""The Helm chart on a real API server: it is accepted as a whole, works with its own rights, and goes without trace."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import pytest
import yaml

from tests.cluster import charts
from tests.cluster.kubectl import kubectl
from tests.cluster.waiting import until
from tests.deploy import combinations
from tests.scenarios import installation
from tests.scenarios.features import Feature, kubernetes_version
from tests.scenarios.target import Capability, Mode, Target

pytestmark = [pytest.mark.modes(Mode.REPLACE), pytest.mark.needs(Capability.RIGHTS)]

POD_MONITORS: Final = "podmonitors.monitoring.coreos.com"

BY_THEMSELVES: Final = {"events", "events.events.k8s.io", "leases.coordination.k8s.io", "componentstatuses"}
"""What comes and goes by itself."""

OF_THE_GATE: Final = {"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"}
WITH_GATE: Final = Feature.GATE_POLICY.among(kubernetes_version())

Identity = tuple[str, str, str]
Objects = dict[Identity, dict[str, Any]]


@pytest.fixture
def pod_monitors(target: Target) -> Iterator[None]:
    """The kind that the Prometheus operator brings, as far as we write it: a field that it does not know is refused."""
    endpoint = {"port": {"type": "string"}, "path": {"type": "string"}, "interval": {"type": "string"}}
    labels = {"type": "object", "additionalProperties": {"type": "string"}}
    spec = {
        "selector": {"type": "object", "properties": {"matchLabels": labels}},
        "podMetricsEndpoints": {"type": "array", "items": {"type": "object", "properties": endpoint}},
    }
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}}
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": POD_MONITORS},
        "spec": {
            "group": "monitoring.coreos.com",
            "scope": "Namespaced",
            "names": {"plural": "podmonitors", "singular": "podmonitor", "kind": "PodMonitor"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }
    kubectl("apply", "--filename=-", kubeconfig=target.admin, stdin=json.dumps(crd))
    kubectl("wait", "--for=condition=Established", f"crd/{POD_MONITORS}", kubeconfig=target.admin)
    yield
    kubectl("delete", "crd", POD_MONITORS, kubeconfig=target.admin)


def test_whatever_the_chart_makes_is_accepted(target: Target, pod_monitors: None) -> None:
    """Any two choices of its values meet (tests/deploy/combinations.py); each different object is sent once."""
    del pod_monitors
    objects: dict[str, Any] = {}
    for values in combinations.rows():
        for obj in charts.rendered(values, namespace="default"):
            if obj["kind"] in OF_THE_GATE and not WITH_GATE:
                continue
            if obj["kind"] != "Namespace" and obj["metadata"].get("namespace"):
                obj["metadata"]["namespace"] = "default"  # on a dry run that of the chart is not made
            objects[json.dumps(obj, sort_keys=True)] = obj
    assert len(objects) > 100
    kinds = {obj["kind"] for obj in objects.values()}
    assert kinds >= {"DaemonSet", "NetworkPolicy", "PodMonitor", "ValidatingAdmissionPolicy"}
    strictly = ("--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict", "--output=name")
    sent = yaml.safe_dump_all(objects.values())
    accepted = kubectl("apply", "--filename=-", *strictly, kubeconfig=target.admin, stdin=sent)
    assert len(accepted.splitlines()) == len(objects)


def test_uninstalling_leaves_the_cluster_as_it_was(target: Target, pod_monitors: None) -> None:
    """But for the release's namespace, which Helm leaves to who made it, with the lease that the controller wrote."""
    del pod_monitors
    everything = {
        "kubeletPlugin": {"enabled": True},
        "policies": {"gate": WITH_GATE},
        "podMonitor": {"enabled": True},
        "workloads": [{"group": "ray.io", "resource": "rayjobs"}],
    }
    installation.remove(target.admin)
    try:
        before = _settled(target)
        installation.upgrade(target.admin, mode=Mode.REPLACE, values=everything)
        installed = _settled(target)
        assert len(installed.keys() - before.keys()) > 35
        assert _changed(before, installed) <= {("ClusterRole", "", name) for name in ("view", "edit", "admin")}
        installation.remove(target.admin)
        kubectl("wait", "--for=delete", "namespace/dra-reserve-nodes", "--timeout=60s", kubeconfig=target.admin)
        until(lambda: _difference(before, _everything(target)) == set(), within=10, saying="nothing of it is left")
    finally:
        installation.change_over(target.admin, mode=target.mode, way=installation.way(target.mode))


def _settled(target: Target) -> Objects:
    """Return all objects, once two looks see the same: roles are aggregated, namespaces of other tests end."""
    looks = [_everything(target)]
    until(
        lambda: looks.append(_everything(target)) or not _difference(looks[-2], looks[-1]),
        within=20,
        saying="two looks see the same",
    )
    return looks[-1]


def _everything(target: Target) -> Objects:
    """Return every object of the cluster, without what it tells of itself."""
    listable = kubectl("api-resources", "--verbs=list", "--output=name", kubeconfig=target.admin).split()
    kinds = ",".join(sorted({*listable} - BY_THEMSELVES))
    shown = json.loads(kubectl("get", kinds, "--all-namespaces", "--output=json", kubeconfig=target.admin))
    found: Objects = {}
    for obj in shown["items"]:
        metadata = obj["metadata"]
        told = {key: value for key, value in metadata.items() if key in {"labels", "annotations", "finalizers"}}
        rest = {key: value for key, value in obj.items() if key not in {"metadata", "status"}}
        found[obj["kind"], metadata.get("namespace", ""), metadata["name"]] = {**rest, "metadata": told}
    return found


def _changed(before: Objects, after: Objects) -> set[Identity]:
    return {key for key in before.keys() & after.keys() if before[key] != after[key]}


def _difference(before: Objects, after: Objects) -> set[Identity]:
    return (before.keys() ^ after.keys()) | _changed(before, after)
