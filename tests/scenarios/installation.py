"""Installs what deploy/ installs, except what runs there: controller and plugin under test run from the working tree.

They run with the service accounts and the rights that are installed, never with more.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import yaml

from tests.cluster import kubeconfig
from tests.cluster.kubectl import kubectl

DEPLOY: Final = Path(__file__).resolve().parents[2] / "deploy"
KUSTOMIZATION: Final = DEPLOY / "kustomize"
PLUGIN_KUSTOMIZATION: Final = DEPLOY / "kubelet-plugin"

NAMESPACE: Final = "dra-reserve"
SERVICE_ACCOUNT: Final = "dra-reserve-controller"
LEASE: Final = "dra-reserve-controller"

PLUGIN_NAMESPACE: Final = "dra-reserve-nodes"
PLUGIN_SERVICE_ACCOUNT: Final = "dra-reserve-kubelet-plugin"


def install(admin: Path, *, kustomization: Path = KUSTOMIZATION) -> None:
    """Apply a kustomization; may be done again."""
    rendered = kubectl("kustomize", str(kustomization), kubeconfig=admin)
    wanted = [obj for obj in yaml.safe_load_all(rendered) if obj["kind"] not in {"Deployment", "DaemonSet"}]
    kubectl("apply", "--filename=-", kubeconfig=admin, stdin=yaml.safe_dump_all(wanted))


def controller_kubeconfig(admin: Path, folder: Path) -> Path:
    """Return the kubeconfig for the controller under test: the installed service account's."""
    path = folder / f"{SERVICE_ACCOUNT}.kubeconfig"
    return kubeconfig.for_service_account(path, admin=admin, namespace=NAMESPACE, name=SERVICE_ACCOUNT)


def plugin_kubeconfig(admin: Path, folder: Path, *, node: str) -> Path:
    """Return the kubeconfig for the plugin under test on a node: the installed service account's, as pods get it."""
    path = folder / f"{PLUGIN_SERVICE_ACCOUNT}-{node}.kubeconfig"
    account = {"namespace": PLUGIN_NAMESPACE, "name": PLUGIN_SERVICE_ACCOUNT}
    return kubeconfig.for_service_account(path, admin=admin, **account, node=node)
