"""Rule 12, for machines: a node that does not report in may still run pods whose objects are gone.

A pod leaves the API without its kubelet's word when somebody deletes it by force. Its entry is then replaced by one for
its node, in the list, so that it outlives us and nobody else takes the list for empty. That entry goes when nothing can
be left of the pod: the Node object is gone, has the out-of-service taint or another bootID, or its kubelet has reported
in for long enough to end what the API server does not know any more.

On a node that does report in the kubelet ends such a pod within its grace period. A node counts as Ready for up to 50 s
after its kubelet's last word, so the claim is kept for that long besides, and then the node is read live.
"""

from typing import Final

from dra.engine.claims.actions import LookUpNode
from dra.engine.claims.desired import Desired
from dra.engine.claims.policy import Policy
from dra.engine.claims.reasons import Code
from dra.engine.claims.view import ClaimView, EntryKind, LostNode, lost_node_entry
from dra.engine.instants import NEVER, WATCH_OUTAGE_UNNOTICED, Instant

ENDED_WITHIN: Final = 120.0
"""Seconds of readiness after which a kubelet has ended what it was told to forget: four usual grace periods."""

BEGUN_WITHIN: Final = 30.0
"""Seconds within which a kubelet that is back has begun to end such pods."""

SETTLED: Final = ENDED_WITHIN + WATCH_OUTAGE_UNNOTICED
"""The same as our watch shows it: the node may have fallen silent again, and we do not know it yet."""


def seconds_to_settle(node: LostNode) -> float:
    """Return the seconds of readiness after which nothing is left of such pods, whose grace period begins then."""
    return max(SETTLED, node.grace + BEGUN_WITHIN + WATCH_OUTAGE_UNNOTICED)


def lost_nodes_rule(view: ClaimView, policy: Policy, now: Instant, desired: Desired) -> Desired:
    """Keep the claim for pods that vanished from nodes that do not report in."""
    del policy
    if view.allocation is None:
        return desired
    for node in unsettled_nodes(view, now):
        desired = _keep_for_node(view, node, desired)
        due = _settled_at(node)
        desired = desired.look_at(due) if now < due else desired.ask(LookUpNode(claim=view.key, node=node.name))
    return _keep_for_vanished(view, now, desired)


def _keep_for_vanished(view: ClaimView, now: Instant, desired: Desired) -> Desired:
    """Keep the claim until the containers of vanished pods have certainly ended; their nodes are read live then."""
    if not view.vanished:
        return desired
    due = sorted({pod.node for pod in view.vanished if pod.node and now >= pod.ended_at})
    for node in due:
        desired = desired.ask(LookUpNode(claim=view.key, node=node))
    later = [pod.ended_at for pod in view.vanished if now < pod.ended_at]
    desired = desired.look_at(min(later, default=NEVER))
    desired = desired.but(held=True)
    if desired.workload is not None or view.unfinished:  # they are not what keeps the claim
        return desired
    reasons = [view.reason(Code.NODE_LOST, node=node, seconds=int(SETTLED)) for node in view.silent_nodes]
    pods = [pod for pod in view.vanished if not pod.guard]
    seconds = max(int(pod.patience) for pod in pods or view.vanished)
    if pods:
        reasons.append(view.reason(Code.PODS_VANISHED, pods=len(pods), seconds=seconds))
    else:  # the guard that the claim was first seen with
        reasons.append(view.reason(Code.GUARD_FOUND, seconds=seconds))
    return desired.because(*reasons)


def may_run_without_object(view: ClaimView, now: Instant) -> bool:
    """Whether pods whose objects are gone may still run with the devices."""
    return bool(view.vanished or unsettled_nodes(view, now))


def unsettled_nodes(view: ClaimView, now: Instant) -> tuple[LostNode, ...]:
    """Return the nodes on which such pods may still run: a live read has to tell that a node has stayed Ready."""
    return tuple(n for n in view.lost_nodes if min(now, n.read) < _settled_at(n))


def _settled_at(node: LostNode) -> Instant:
    """Return from when on nothing is left of such pods, if the node stays Ready."""
    return NEVER if node.ready_since is None else node.ready_since + seconds_to_settle(node)


def _keep_for_node(view: ClaimView, node: LostNode, desired: Desired) -> Desired:
    reason = view.reason(Code.NODE_LOST, node=node.name, seconds=int(seconds_to_settle(node)))
    if desired.revoking and view.any_pod:  # a person vouches for the node, and its entry would let pods in
        return desired.because(reason)
    entry = lost_node_entry(node.name, node.boot)
    if view.claim.metadata.deleting and entry.uid not in view.listed:
        # Under deletion nothing can be added to the list. An entry of the node with another bootID, or none, which
        # another pod has left that vanished before, keeps the claim as well, and outlives us. So do the entries of pods
        # whose objects are gone, on whichever node they ran.
        listed = [e.reference for e in view.of(EntryKind.LOST_NODE) if e.reference.name == node.name]
        listed += [e.reference for e in view.of(EntryKind.FINISHED) if e.consumer is None]
        added = tuple(entry for entry in listed if entry not in desired.kept)
        return desired.but(held=True, kept=(*desired.kept, *added)).because(reason)
    if entry.uid not in view.listed and not desired.has_room:
        return desired.because(reason)  # the entries of others, of which the list is full, keep everybody off
    return desired.but(kept=(*desired.kept, entry)).because(reason)
