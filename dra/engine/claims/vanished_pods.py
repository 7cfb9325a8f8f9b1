"""Pods whose objects were deleted before their containers were reported to have ended, by the state of their nodes.

The claim rules wait for such pods (`dra.engine.claims.lost_nodes`).
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from dra.engine.claims.claim_state import ClaimState
from dra.engine.claims.consumers import DEFAULT_GRACE_PERIOD
from dra.engine.claims.node_index import NodeIndex
from dra.engine.claims.view import LostNode, VanishedPod
from dra.engine.instants import Instant

NODES_LISTED: Final = 16
"""Maximum number of nodes that get entries where it is unknown on which of them a pod ran."""


def add_vanished(record: ClaimState, nodes: NodeIndex, pod: VanishedPod) -> None:
    """Record that a pod has vanished."""
    record.vanished[pod.uid] = pod
    reconcile_vanished(record, nodes)


def reconcile_vanished(record: ClaimState, nodes: NodeIndex, *, gone: str = "") -> None:
    """Reconcile the vanished pods of a claim with the known state of their nodes.

    A pod is gone with a node that was rebooted or is out of service; a node that does not report in replaces its pods.
    An unknown node may be new; ``gone`` is a node that a live read did not find.
    """
    for uid, pod in tuple(record.vanished.items()):
        if not pod.node or (nodes.ready(pod.node) and nodes.lost_node(pod.node, pod.boot_id) is not None):
            continue
        if pod.node not in nodes and pod.node != gone:
            continue
        del record.vanished[uid]
        if nodes.lost_node(pod.node, pod.boot_id) is not None:
            record.lost_nodes[pod.node] = pod.boot_id
            record.lost_node_graces[pod.node] = max(
                pod.grace, record.lost_node_graces.get(pod.node, DEFAULT_GRACE_PERIOD)
            )


def lost_nodes(record: ClaimState, nodes: NodeIndex) -> Iterator[LostNode]:
    """Yield the nodes that did not report in when pods vanished from them, and on which these pods may still run."""
    for name, boot in record.lost_nodes.items():
        node = nodes.lost_node(name, boot)
        if node is not None:
            yield msgspec.structs.replace(node, grace=record.lost_node_graces.get(name, DEFAULT_GRACE_PERIOD))


def observe_node_read(record: ClaimState, nodes: NodeIndex, name: str, *, now: Instant) -> None:
    """Record a live read of a node: if it is Ready, pods that vanished from it long enough ago have ended."""
    nodes.observe_live_read(name, now=now)
    for uid, pod in tuple(record.vanished.items()):
        if pod.node == name and nodes.ready(name) and now >= pod.ended_at:
            del record.vanished[uid]
    reconcile_vanished(record, nodes, gone=name)


def still_running(record: ClaimState, nodes: NodeIndex, *, now: Instant) -> tuple[VanishedPod, ...]:
    """Return the vanished pods whose containers may still run; the time of a new one starts now.

    A pod whose node is unknown ran on the node of the allocation if there is only one.
    """
    (only,) = (
        record.reachable_nodes if record.reachable_nodes is not None and len(record.reachable_nodes) == 1 else ("",)
    )
    for uid, pod in tuple(record.vanished.items()):
        node, since = pod.node or only, now if pod.since is None else pod.since
        if (node, since) != (pod.node, pod.since):
            record.vanished[uid] = msgspec.structs.replace(pod, node=node, since=since)
        elif not node and now >= pod.ended_at:
            silent = silent_nodes(record, nodes)
            if len(silent) <= NODES_LISTED:  # one entry for each node instead of one for each pod
                record.lost_nodes.update(
                    (name, nodes.boot_id(name)) for name in silent if name not in record.lost_nodes
                )
                del record.vanished[uid]
    return tuple(record.vanished.values())


def silent_nodes(record: ClaimState, nodes: NodeIndex) -> tuple[str, ...]:
    """Return the nodes that do not report in and may run a vanished pod whose node is unknown.

    Empty for a guard that the claim was first seen with. A guard may stand for no pod at all, and some node of a large
    cluster is always silent: after each restart of the controller every claim in use would wait for that node.
    """
    unknown = any(not pod.node and not pod.guard for pod in record.vanished.values())
    return nodes.not_ready(record.reachable_nodes) if unknown else ()
