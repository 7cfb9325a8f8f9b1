"""What `kubectl dra simulate` says of one pod on the cluster as it is now, to be compared with what happens then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from dra.cli.cluster_flags import ClusterFlags
from dra.cli.kubectl.connection import connect
from dra.cli.kubectl.simulate.simulated_manifests import parse_manifests, with_priority
from dra.cli.kubectl.simulate.simulation import PodOutcome, simulate_scheduling
from dra.cli.kubectl.snapshots.cluster_reader import SnapshotReader
from dra.cli.kubectl.snapshots.snapshot_scope import SnapshotScope

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from dra.engine.diagnosis.snapshot import Snapshot

Json = dict[str, Any]


async def look(kubeconfig: Path, *, nodes: Collection[str]) -> Snapshot:
    """Return the cluster as the command would read it, as far as it is about these nodes and who waits for them."""
    async with connect(ClusterFlags(kubeconfig=str(kubeconfig))) as connection:
        found = await SnapshotReader(connection, namespace=None, lease=("dra-reserve", "nobody")).read(
            SnapshotScope.SIMULATED
        )
    return msgspec.structs.replace(
        found,
        nodes=tuple(each for each in found.nodes if each.metadata.name in nodes),
        pods=tuple(each for each in found.pods if each.spec.node_name in nodes),
    )


def simulate_pod(snapshot: Snapshot, manifest: Json, *, namespace: str) -> PodOutcome:
    """Return what is said to become of the one object of a manifest."""
    manifests = parse_manifests([manifest], namespace=namespace)
    manifests.pods = [
        with_priority(pod, manifests.priority_class_names.get(pod.metadata.key, ""), snapshot.priorities)
        for pod in manifests.pods
    ]
    (found,) = (each for each in simulate_scheduling(snapshot, manifests).outcomes if each.is_from_manifests)
    return found


def only(snapshot: Snapshot, node: str) -> Snapshot:
    """Return the cluster as if it had one node."""
    return msgspec.structs.replace(snapshot, nodes=tuple(each for each in snapshot.nodes if each.metadata.name == node))
