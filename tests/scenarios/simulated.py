"""What `kubectl dra simulate` says of one pod on the cluster as it is now, to be compared with what happens then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from dra.cli.kubectl.connection import connect
from dra.cli.kubectl.options import Place
from dra.cli.kubectl.reading.live import Parts, Reader
from dra.cli.kubectl.simulate.playing import Fate, play
from dra.cli.kubectl.simulate.priorities import prioritized
from dra.cli.kubectl.simulate.wishes import read

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from dra.engine.diagnosis.snapshot import Snapshot

Json = dict[str, Any]


async def look(kubeconfig: Path, *, nodes: Collection[str]) -> Snapshot:
    """Return the cluster as the command would read it, as far as it is about these nodes and who waits for them."""
    async with connect(Place(kubeconfig=str(kubeconfig))) as connection:
        found = await Reader(connection, namespace=None, lease=("dra-reserve", "nobody")).read(Parts.EVERYTHING)
    return msgspec.structs.replace(
        found,
        nodes=tuple(each for each in found.nodes if each.metadata.name in nodes),
        pods=tuple(each for each in found.pods if each.spec.node_name in nodes),
    )


def fate(snapshot: Snapshot, manifest: Json, *, namespace: str) -> Fate:
    """Return what is said to become of the one object of a manifest."""
    wishes = read([manifest], namespace=namespace)
    wishes.pods = [
        prioritized(pod, wishes.priorities.get(pod.metadata.key, ""), snapshot.priorities) for pod in wishes.pods
    ]
    (found,) = (each for each in play(snapshot, wishes).fates if each.new)
    return found


def only(snapshot: Snapshot, node: str) -> Snapshot:
    """Return the cluster as if it had one node."""
    return msgspec.structs.replace(snapshot, nodes=tuple(each for each in snapshot.nodes if each.metadata.name == node))
