"""Nodes without machines: Node objects that kwok keeps alive, playing the kubelet for the pods that are bound to them.

They carry the label `FAKE` and a taint of the same name: kwok touches no other nodes, and no pods but the scenarios' go
there, so that they may also be added to a cluster with nodes of its own. Broken ones carry `BROKEN` in the same way: a
pod has to ask for one.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tests.cluster import binaries
from tests.cluster.kubectl import kubectl
from tests.cluster.ports import LOOPBACK, free
from tests.cluster.probes import healthy
from tests.cluster.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cluster.processes import Process
    from tests.cluster.run_folder import RunFolder

FAKE: Final = "scenario.dra/fake"
BROKEN: Final = "scenario.dra/broken"

BROKEN_PREFIX: Final = "broken-"
"""What stages.yaml knows a broken node by: for a pod, kwok sees its node's name and nothing else of it."""

STAGES: Final = binaries.HERE / "kwok" / "stages.yaml"

LEASE_SECONDS: Final = 40
"""As a kubelet's. Renewed four times as often: for hundreds of nodes raise it, or the leases are what is measured."""

GRACE: Final = 2.0


def names(sound: int, *, broken: int = 0) -> list[str]:
    """Return node-000, node-001 and so on, then broken-000 and so on: those on which no pod ever gets its sandbox."""
    return [
        *(f"node-{number:03}" for number in range(sound)),
        *(f"{BROKEN_PREFIX}{number:03}" for number in range(broken)),
    ]


class FakeNodes:
    """kwok and its nodes on one cluster."""

    def __init__(
        self, folder: RunFolder, binary: Path, *, kubeconfig: Path, lease_seconds: int = LEASE_SECONDS
    ) -> None:
        self._kubeconfig: Final = kubeconfig
        (port,) = free(1)
        command = [
            str(binary),
            f"--kubeconfig={kubeconfig}",
            f"--manage-nodes-with-label-selector={FAKE}=true",
            f"--config={STAGES}",
            f"--server-address={LOOPBACK}:{port}",
            f"--node-lease-duration-seconds={lease_seconds}",
        ]
        ready = partial(healthy, port, "/healthz", tls=False)
        self.kwok: Final[Process] = folder.process("kwok", command, ready=ready, grace=GRACE)

    def add(self, nodes: list[str]) -> None:
        """Create the nodes and wait until pods can run there; kwok must be running."""
        if not nodes:
            return
        many = {"apiVersion": "v1", "kind": "List", "items": [node(name) for name in nodes]}
        kubectl("create", "--validate=false", "--filename=-", kubeconfig=self._kubeconfig, stdin=json.dumps(many))
        until(lambda: self._usable(nodes), within=60, saying=f"{len(nodes)} fake nodes are ready")

    def remove_all(self) -> None:
        """Delete every fake node: for clusters that go on without us."""
        kubectl("delete", "nodes", f"--selector={FAKE}", kubeconfig=self._kubeconfig)

    def _usable(self, nodes: list[str]) -> bool:
        listing = kubectl("get", "nodes", f"--selector={FAKE}", "--output=json", kubeconfig=self._kubeconfig)
        return set(nodes) <= {node["metadata"]["name"] for node in json.loads(listing)["items"] if _ready(node)}


def node(name: str) -> dict[str, Any]:
    """Return the Node as its kubelet would register it."""
    ours = dict.fromkeys(_marks(name), "true")
    machine = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    taints = [{"key": key, "value": "true", "effect": "NoSchedule"} for key in ours]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": machine | ours},
        "spec": {"taints": taints},
    }


def _marks(name: str) -> list[str]:
    """Return the keys that are both labels and taints of a node."""
    return [FAKE, BROKEN] if name.startswith(BROKEN_PREFIX) else [FAKE]


def _ready(node: dict[str, Any]) -> bool:
    """Tell whether it is Ready and has lost the taint that says that it is not."""
    conditions = {each["type"]: each["status"] for each in node["status"].get("conditions", [])}
    taints = {each["key"] for each in node["spec"].get("taints", ())}
    return conditions.get("Ready") == "True" and taints == set(_marks(node["metadata"]["name"]))
