"""Record live reads in the cache: an informer may be behind, and none reports what does not exist."""

from collections.abc import Iterable

from dra.engine.claims.actions import LookUpNode, LookUpPlacements, LookUpPod
from dra.engine.claims.claim_cache import ClaimCache
from dra.engine.claims.consumers import Stage, stage_of
from dra.engine.claims.view import Placements
from dra.engine.instants import Instant
from dra.model.meta import Key, Uid
from dra.model.nodes import Node
from dra.model.pods import Pod


def observe_pod(cache: ClaimCache, uid: Uid, pod: Pod, *, now: Instant) -> None:
    """Record a live read of the pod that was known under a uid; another pod may have its name by now."""
    if pod.metadata.uid != uid:
        cache.forget_pod(uid)
    cache.observe_pod(pod, now=now)


def observe_listed_pod(cache: ClaimCache, claim: Key, question: LookUpPod, pod: Pod, *, now: Instant) -> None:
    """Record a live read of the name in a claim's entry."""
    if pod.metadata.uid != question.uid:
        cache.lookups.observe_pod_vanished(claim, question.uid)
    elif stage_of(pod, started=False) is Stage.FINISHED:
        cache.lookups.observe_pod_absent(claim, question.uid)
    else:
        if cache.consumer(question.uid) is not None:  # the pod informer may be behind
            cache.observe_pod(pod, now=now)
        cache.lookups.observe_pod_present(claim, question.uid, now=now)


def observe_nodes(cache: ClaimCache, question: LookUpNode, nodes: Iterable[Node], *, now: Instant) -> None:
    """Record a live read of one node, from a complete list that contains the node if it exists."""
    node = next((node for node in nodes if node.metadata.name == question.node), None)
    if node is None:
        cache.forget_node(question.node)
    else:
        cache.observe_node(node, now=now)
    cache.lookups.observe_node_read(question.claim, question.node, now=now)


def observe_unknown_placements(cache: ClaimCache, question: LookUpPlacements, *, fault: str, now: Instant) -> None:
    """Record why it is unknown where pods that wait for a claim could run."""
    claim = cache.claim(question.claim)
    if claim is not None and claim.status.allocation is not None:
        placements = Placements(
            allocation=claim.status.allocation,
            at=now,
            pods=frozenset(question.pods),
            error=f"other placements are unknown: {fault}",
        )
        cache.lookups.observe_placements(question.claim, placements)
