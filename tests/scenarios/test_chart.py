"""The Helm chart on a real API server: it is accepted as a whole, works with its own rights, and goes without trace."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import pytest
import yaml

from tests.cluster import charts, snapshots
from tests.cluster.kubectl import kubectl
from tests.cluster.waiting import until
from tests.deploy import combinations
from tests.scenarios import installation
from tests.scenarios.features import Feature, kubernetes_version
from tests.scenarios.target import Capability, Mode, Target

pytestmark = [pytest.mark.modes(Mode.REPLACE), pytest.mark.needs(Capability.RIGHTS)]

OF_THE_GATE: Final = {"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"}
WITH_GATE: Final = Feature.GATE_POLICY.among(kubernetes_version())


@pytest.fixture
def operator(target: Target) -> Iterator[None]:
    """The kinds of the Prometheus operator, as far as we write them: a field that it does not know is refused."""
    text, endpoint = {"type": "string"}, {name: {"type": "string"} for name in ("port", "path", "interval")}
    texts = {"type": "object", "additionalProperties": text}
    monitor = {
        "selector": {"type": "object", "properties": {"matchLabels": texts}},
        "podMetricsEndpoints": {"type": "array", "items": {"type": "object", "properties": endpoint}},
    }
    rule = {"alert": text, "expr": text, "for": text, "labels": texts, "annotations": texts}
    group = {"name": text, "rules": {"type": "array", "items": {"type": "object", "properties": rule}}}
    rules = {"groups": {"type": "array", "items": {"type": "object", "properties": group}}}
    kinds = [_definition("PodMonitor", monitor), _definition("PrometheusRule", rules)]
    names = [each["metadata"]["name"] for each in kinds]
    kubectl("apply", "--filename=-", kubeconfig=target.admin, stdin=yaml.safe_dump_all(kinds))
    kubectl("wait", "--for=condition=Established", *(f"crd/{name}" for name in names), kubeconfig=target.admin)
    yield
    kubectl("delete", "crd", *names, kubeconfig=target.admin)


def _definition(kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    plural = f"{kind.lower()}s"
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.monitoring.coreos.com"},
        "spec": {
            "group": "monitoring.coreos.com",
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }


def test_whatever_the_chart_makes_is_accepted(target: Target, operator: None) -> None:
    """Any two choices of its values meet (tests/deploy/combinations.py); each different object is sent once."""
    del operator
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


def test_uninstalling_leaves_the_cluster_as_it_was(target: Target, operator: None) -> None:
    """But for the release's namespace, which Helm leaves to who made it, with the lease that the controller wrote."""
    del operator
    everything = {
        "kubeletPlugin": {"enabled": True},
        "policies": {"gate": WITH_GATE},
        "podMonitor": {"enabled": True},
        "workloads": [{"group": "ray.io", "resource": "rayjobs"}],
    }
    installation.remove(target.admin)
    there = installation.remove_plugin(target.admin)  # other scenarios install it with kustomize
    try:
        before = snapshots.settled(target.admin)
        installation.upgrade(target.admin, mode=Mode.REPLACE, values=everything)
        installed = snapshots.settled(target.admin)
        assert len(installed.keys() - before.keys()) > 35
        assert snapshots.changed(before, installed) <= {("ClusterRole", "", name) for name in ("view", "edit", "admin")}
        installation.remove(target.admin)
        kubectl("wait", "--for=delete", "namespace/dra-reserve-nodes", "--timeout=60s", kubeconfig=target.admin)
        until(
            lambda: snapshots.difference(before, snapshots.taken(target.admin)) == set(),
            within=60,
            saying="nothing of it is left",
        )
    finally:
        if there:
            installation.install(target.admin, kustomization=installation.PLUGIN_KUSTOMIZATION)
        installation.change_over(target.admin, mode=target.mode, way=installation.way(target.mode))
        installation.controller_kubeconfig(target.admin, target.folder.path)  # the account of the next test is another
