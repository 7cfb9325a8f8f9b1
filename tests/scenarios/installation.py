"""Installs what deploy/ installs, except what runs there: controller and plugin under test run from the working tree.

They run with the service accounts and the rights that are installed, never with more. There are two ways of installing,
and `WAYS` says which mode's scenarios go which; DRA_INSTALLATION=helm (or kustomize) has both modes go the same.
"""

from __future__ import annotations

import json
import os
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, Final

import yaml

from tests.cluster import charts, kubeconfig
from tests.cluster.kubectl import KubectlError, kubectl
from tests.cluster.waiting import until
from tests.scenarios.target import Mode, Place

DEPLOY: Final = Path(__file__).resolve().parents[2] / "deploy"
KUSTOMIZATION: Final = DEPLOY / "kustomize"
OVERLAYS: Final = {mode: KUSTOMIZATION / mode.value for mode in Mode}
PLUGIN_KUSTOMIZATION: Final = DEPLOY / "kubelet-plugin"
GUARDS: Final = DEPLOY / "policies" / "guards.yaml"

NAMESPACE: Final = "dra-reserve"
SERVICE_ACCOUNT: Final = "dra-reserve-controller"
RELEASE: Final = "dra-reserve"
LEASE: Final = "dra-reserve-controller"

PLUGIN_NAMESPACE: Final = "dra-reserve-nodes"
PLUGIN_SERVICE_ACCOUNT: Final = "dra-reserve-kubelet-plugin"

Json = dict[str, Any]

IN_FORCE_WITHIN: Final = 30.0
"""Seconds; API servers look for new policies every second."""

_NO_REFERENCE: Final = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {"name": "no-reference", "namespace": "default", "annotations": {"reserve.dra/reserved-for": "?"}},
    "spec": {},
}


def install(admin: Path, *, kustomization: Path = OVERLAYS[Mode.REPLACE]) -> None:
    """Apply a kustomization; may be done again."""
    wanted = rendered(kustomization, admin=admin)
    kubectl("apply", "--filename=-", kubeconfig=admin, stdin=yaml.safe_dump_all(wanted))


class Way(StrEnum):
    """How to install."""

    KUSTOMIZE = "kustomize"
    HELM = "helm"


WAYS: Final = {Mode.ALONGSIDE: Way.KUSTOMIZE, Mode.REPLACE: Way.HELM}

CHOICE: Final = "DRA_INSTALLATION"
"""The environment variable that says how, whatever the mode."""


def way(mode: Mode) -> Way:
    """Return how to install for the scenarios of a mode."""
    return Way(os.environ.get(CHOICE) or WAYS[mode])


def change_over(admin: Path, *, mode: Mode, way: Way) -> None:
    """Install what a mode needs, one way, and take away what only the other mode does: rights above all."""
    if way is Way.HELM:
        if not released(admin):
            remove(admin)
        upgrade(admin, mode=mode)
        return
    if released(admin):
        remove(admin)
    install(admin, kustomization=OVERLAYS[mode])
    kept = {identity(obj) for obj in rendered(OVERLAYS[mode], admin=admin)}
    others = [obj for other in Mode for obj in rendered(OVERLAYS[other], admin=admin)]
    if needless := [obj for obj in others if identity(obj) not in kept]:
        manifests = yaml.safe_dump_all(needless)
        kubectl("delete", "--ignore-not-found", "--filename=-", kubeconfig=admin, stdin=manifests)


def remove(admin: Path) -> None:
    """Remove what is installed, whichever way, but for the namespace."""
    if released(admin):
        charts.helm("uninstall", RELEASE, f"--namespace={NAMESPACE}", "--wait", kubeconfig=admin)
        return
    objects = [obj for mode in Mode for obj in rendered(OVERLAYS[mode], admin=admin) if obj["kind"] != "Namespace"]
    kubectl("delete", "--ignore-not-found", "--filename=-", kubeconfig=admin, stdin=yaml.safe_dump_all(objects))


def remove_plugin(admin: Path) -> bool:
    """Remove what deploy/kubelet-plugin installs; return whether it was there."""
    objects = rendered(PLUGIN_KUSTOMIZATION, admin=admin)
    deleted = kubectl(
        "delete", "--ignore-not-found", "--filename=-", kubeconfig=admin, stdin=yaml.safe_dump_all(objects)
    )
    return bool(deleted.strip())


def upgrade(admin: Path, *, mode: Mode, values: Json | None = None) -> None:
    """Install the chart, or change what is installed; no pods: the controller under test is ours to start."""
    wanted = {"mode": mode.value, "controller": {"replicas": 0}, **(values or {})}
    way = ("upgrade", "--install", RELEASE, str(charts.CHART), f"--namespace={NAMESPACE}", "--create-namespace")
    charts.helm(*way, "--values=-", kubeconfig=admin, stdin=yaml.safe_dump(wanted))


def released(admin: Path) -> bool:
    """Return whether the chart is installed."""
    return bool(charts.helm("list", f"--namespace={NAMESPACE}", "--short", kubeconfig=admin).strip())


def rendered(kustomization: Path, *, admin: Path) -> list[Json]:
    """Return the objects of a kustomization, without what runs; a plane of ours serves no admission policies."""
    left_out = {"Deployment", "DaemonSet"}
    if Place.chosen().api:
        left_out |= {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
    objects = yaml.safe_load_all(kubectl("kustomize", str(kustomization), kubeconfig=admin))
    return [obj for obj in objects if obj["kind"] not in left_out]


def identity(obj: Json) -> tuple[str, str, str]:
    """Return what tells an object from all others; the hash in a ConfigMap's name changes with its content."""
    return obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def guard(admin: Path) -> None:
    """See to it that the policies which each installation brings are in force, also after `unguard`."""
    policies = [*yaml.safe_load_all(GUARDS.read_text(encoding="utf-8"))]
    if released(admin):  # else the next upgrade would refuse to take them over
        for each in policies:
            each["metadata"]["labels"] = {"app.kubernetes.io/managed-by": "Helm"}
            release = {"meta.helm.sh/release-name": RELEASE, "meta.helm.sh/release-namespace": NAMESPACE}
            each["metadata"]["annotations"] = release
    manifests = yaml.safe_dump_all(policies)
    kubectl("apply", "--validate=strict", "--filename=-", kubeconfig=admin, stdin=manifests)
    until(partial(_in_force, admin), within=IN_FORCE_WITHIN, saying=f"{GUARDS} is in force")


def unguard(admin: Path) -> None:
    """Take them off again, for a while."""
    kubectl("delete", "--ignore-not-found", f"--filename={GUARDS}", kubeconfig=admin)
    until(lambda: not _in_force(admin), within=IN_FORCE_WITHIN, saying=f"{GUARDS} is out of force")


def _in_force(admin: Path) -> bool:
    """Whether the policy that comes last refuses what it must: then those before it are in force, too."""
    try:
        kubectl("create", "--dry-run=server", "--filename=-", kubeconfig=admin, stdin=json.dumps(_NO_REFERENCE))
    except KubectlError as error:
        return "RESOURCE[.GROUP]/NAME" in str(error)
    return False


def controller_kubeconfig(admin: Path, folder: Path) -> Path:
    """Return the kubeconfig for the controller under test: the installed service account's."""
    path = folder / f"{SERVICE_ACCOUNT}.kubeconfig"
    return kubeconfig.for_service_account(path, admin=admin, namespace=NAMESPACE, name=SERVICE_ACCOUNT)


def plugin_kubeconfig(admin: Path, folder: Path, *, node: str) -> Path:
    """Return the kubeconfig for the plugin under test on a node: the installed service account's, as pods get it."""
    path = folder / f"{PLUGIN_SERVICE_ACCOUNT}-{node}.kubeconfig"
    account = {"namespace": PLUGIN_NAMESPACE, "name": PLUGIN_SERVICE_ACCOUNT}
    return kubeconfig.for_service_account(path, admin=admin, **account, node=node)
