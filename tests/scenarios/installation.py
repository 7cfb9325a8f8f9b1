"""Installs what deploy/kustomize installs, except the Deployment: the controller under test runs from the working tree.

It runs with the service account and the rights that are installed, never with more.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import yaml

from tests.cluster import kubeconfig
from tests.cluster.kubectl import kubectl

KUSTOMIZATION: Final = Path(__file__).resolve().parents[2] / "deploy" / "kustomize"

NAMESPACE: Final = "dra-reserve"
SERVICE_ACCOUNT: Final = "dra-reserve-controller"
LEASE: Final = "dra-reserve-controller"


def install(admin: Path) -> None:
    """Apply the kustomization; may be done again."""
    rendered = kubectl("kustomize", str(KUSTOMIZATION), kubeconfig=admin)
    wanted = [obj for obj in yaml.safe_load_all(rendered) if obj["kind"] != "Deployment"]
    kubectl("apply", "--filename=-", kubeconfig=admin, stdin=yaml.safe_dump_all(wanted))


def controller_kubeconfig(admin: Path, folder: Path) -> Path:
    """Return the kubeconfig for the controller under test: the installed service account's."""
    path = folder / f"{SERVICE_ACCOUNT}.kubeconfig"
    return kubeconfig.for_service_account(path, admin=admin, namespace=NAMESPACE, name=SERVICE_ACCOUNT)
