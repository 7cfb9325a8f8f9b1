"""Nodes without machines: Node objects that kwok keeps alive, playing the kubelet for the pods that are bound to them.

They carry the label `FAKE`, and kwok touches nothing else, so that it may also run beside the nodes of a real cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tests.cluster.binaries import HERE
from tests.cluster.ports import LOOPBACK

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cluster.rest import Rest

FAKE: Final = "scenario.dra/fake"
BROKEN: Final = "scenario.dra/broken"

STAGES: Final = HERE / "kwok" / "stages.yaml"

WORKERS: Final = 8
"""Pods and leases that kwok writes at once; each waits for the API server, not for the CPU."""


def command(binary: Path, *, kubeconfig: Path, port: int, lease_seconds: int) -> list[str]:
    """Return kwok's command line."""
    return [
        str(binary),
        f"--kubeconfig={kubeconfig}",
        f"--manage-nodes-with-label-selector={FAKE}=true",
        f"--config={STAGES}",
        f"--server-address={LOOPBACK}:{port}",
        f"--node-lease-duration-seconds={lease_seconds}",
    ]


def names(count: int, *, broken: bool = False) -> list[str]:
    """Return node-000, node-001 and so on; kwok's stages know a broken node by its name."""
    return [f"{'broken' if broken else 'node'}-{number:03}" for number in range(count)]


def create(rest: Rest, nodes: list[str]) -> None:
    """Create the Node objects."""
    for name in nodes:
        rest.call("POST", "/api/v1/nodes", node(name))


def node(name: str) -> dict[str, Any]:
    """Return the Node as its kubelet would register it."""
    labels = {
        FAKE: "true",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
    }
    if name.startswith("broken-"):
        labels[BROKEN] = "true"
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


def all_usable(rest: Rest, nodes: list[str]) -> bool:
    """Tell whether every one of `nodes` is Ready and without the taints that new nodes are born with."""
    found = rest.call("GET", f"/api/v1/nodes?labelSelector={FAKE}")["items"]
    return set(nodes) <= {each["metadata"]["name"] for each in found if _usable(each)}


def _usable(found: dict[str, Any]) -> bool:
    conditions = {each["type"]: each["status"] for each in found["status"].get("conditions", [])}
    return conditions.get("Ready") == "True" and not found["spec"].get("taints")
