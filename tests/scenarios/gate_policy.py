"""The policy that adds the scheduling gate to pods: installs the policy, and opts namespaces in and out."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from tests.cluster.kubectl import kubectl
from tests.scenarios import objects
from tests.scenarios.api import Json
from tests.scenarios.eventually import eventually
from tests.scenarios.installation import DEPLOY
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import PodShape
from tests.scenarios.resources import NAMESPACES, PODS

MANIFEST: Final = DEPLOY / "policies" / "gate.yaml"
OPT_IN: Final = "reserve.dra/gate"


def install(admin: Path) -> None:
    """Install policy and binding; no namespace is opted in by that."""
    kubectl("apply", "--validate=strict", f"--filename={MANIFEST}", kubeconfig=admin)


def remove(admin: Path) -> None:
    """Remove policy and binding."""
    kubectl("delete", "--ignore-not-found", f"--filename={MANIFEST}", kubeconfig=admin)


async def opt_in(namespace: Namespace) -> None:
    """Label a namespace, and return when the policy gates its pods."""
    await label(namespace, "enabled")
    await eventually(
        lambda: gates_on_creation(namespace, PodShape(claim="shared")),
        until=lambda gates: gates == [objects.GATE],
        saying="the policy is in force",
    )


async def label(namespace: Namespace, value: str | None) -> None:
    """Set the label that opts a namespace in, or remove it."""
    await namespace.api.patch(NAMESPACES, namespace.name, {"metadata": {"labels": {OPT_IN: value}}})


async def gates_on_creation(namespace: Namespace, shape: PodShape) -> list[str]:
    """Return the gates with which a pod would be created, by a dry run."""
    path = PODS.path(namespace=namespace.name)
    query: dict[str, Any] = {"dryRun": "All"}
    made: Json = await namespace.api.request("POST", path, objects.pod("probe", shape), query=query)
    return [gate["name"] for gate in made["spec"].get("schedulingGates", [])]
