"""Doubt about nodes: a node that does not report in may still run pods whose objects are deleted.

A forced deletion removes a pod from the API without the kubelet's confirmation. The pod's entry is then replaced by an
entry for its node, in the list, so that the entry outlives this process and no other component considers the list
empty. The entry is removed when no container of the pod can be left: the Node object is gone, has the out-of-service
taint or another bootID, or its kubelet has reported in long enough to end pods that the API server no longer has.

On a node that does report in, the kubelet ends such a pod within its grace period. A node counts as Ready for up to 50
s after its kubelet's last report, so the claim is kept for that long as well, and then the node is read live.
"""

from typing import Final

from dra.engine.claims.actions import LookUpNode
from dra.engine.claims.codes import Code
from dra.engine.claims.desired import Desired
from dra.engine.claims.policy import Policy
from dra.engine.claims.view import ClaimView, EntryKind, LostNode, lost_node_entry
from dra.engine.instants import NEVER, WATCH_OUTAGE_UNNOTICED, Instant

ENDED_WITHIN: Final = 120.0
"""Seconds of readiness after which a kubelet has ended the pods it was to remove: four default grace periods."""

BEGUN_WITHIN: Final = 30.0
"""Seconds within which a returning kubelet has begun to end such pods."""

SETTLED: Final = ENDED_WITHIN + WATCH_OUTAGE_UNNOTICED
"""`ENDED_WITHIN` in seconds as the watch shows it: the node may have fallen silent again unnoticed."""


def seconds_to_settle(node: LostNode) -> float:
    """Return the seconds of readiness after which no vanished pod is left; its grace period begins with readiness."""
    return max(SETTLED, node.grace + BEGUN_WITHIN + WATCH_OUTAGE_UNNOTICED)


def lost_nodes_rule(view: ClaimView, policy: Policy, now: Instant, desired: Desired) -> Desired:
    """Keep the claim for pods that vanished from nodes that do not report in."""
    del policy
    if view.allocation is None:
        return desired
    for node in unsettled_nodes(view, now):
        desired = _keep_for_node(view, node, desired)
        due = _settled_at(node)
        desired = (
            desired.wake_by(due) if now < due else desired.with_lookups(LookUpNode(claim=view.key, node=node.name))
        )
    return _keep_for_vanished(view, now, desired)


def _keep_for_vanished(view: ClaimView, now: Instant, desired: Desired) -> Desired:
    """Keep the claim until the containers of vanished pods have certainly ended, then have their nodes read live."""
    if not view.vanished:
        return desired
    due = sorted({pod.node for pod in view.vanished if pod.node and now >= pod.ended_at})
    for node in due:
        desired = desired.with_lookups(LookUpNode(claim=view.key, node=node))
    later = [pod.ended_at for pod in view.vanished if now < pod.ended_at]
    desired = desired.wake_by(min(later, default=NEVER))
    desired = desired.replace(kept_unlisted=True)
    if desired.workload is not None or view.unfinished:  # vanished pods are not what keeps the claim
        return desired
    reasons = [view.reason(Code.NODE_LOST, node=node, seconds=int(SETTLED)) for node in view.silent_nodes]
    pods = [pod for pod in view.vanished if not pod.guard]
    seconds = max(int(pod.seconds_to_end) for pod in pods or view.vanished)
    if pods:
        reasons.append(view.reason(Code.PODS_VANISHED, pods=len(pods), seconds=seconds))
    else:  # the guard that the claim was first seen with
        reasons.append(view.reason(Code.GUARD_FOUND, seconds=seconds))
    return desired.with_reasons(*reasons)


def may_run_without_object(view: ClaimView, now: Instant) -> bool:
    """Return whether pods whose objects are deleted may still run with the devices."""
    return bool(view.vanished or unsettled_nodes(view, now))


def unsettled_nodes(view: ClaimView, now: Instant) -> tuple[LostNode, ...]:
    """Return the lost nodes on which pods may still run: a live read must confirm that a node has stayed Ready."""
    return tuple(n for n in view.lost_nodes if min(now, n.live_read_at) < _settled_at(n))


def _settled_at(node: LostNode) -> Instant:
    """Return from when on no vanished pod is left, if the node stays Ready."""
    return NEVER if node.ready_since is None else node.ready_since + seconds_to_settle(node)


def _keep_for_node(view: ClaimView, node: LostNode, desired: Desired) -> Desired:
    reason = view.reason(Code.NODE_LOST, node=node.name, seconds=int(seconds_to_settle(node)))
    if desired.revoking and view.admits_any_pod:  # the user confirms that the pods ended; the entry would admit others
        return desired.with_reasons(reason)
    entry = lost_node_entry(node.name, node.boot_id)
    if view.claim.metadata.deleting and entry.uid not in view.listed:
        # Under deletion nothing can be added to the list. A lost node's entry with another bootID, or none, left by a
        # pod that vanished earlier, keeps the claim as well, and outlives this process. So do the entries of pods whose
        # objects are deleted, on whichever node they ran.
        listed = [e.reference for e in view.entries_of(EntryKind.LOST_NODE) if e.reference.name == node.name]
        listed += [e.reference for e in view.entries_of(EntryKind.FINISHED) if e.consumer is None]
        added = tuple(entry for entry in listed if entry not in desired.kept_entries)
        return desired.replace(kept_unlisted=True, kept_entries=(*desired.kept_entries, *added)).with_reasons(reason)
    if entry.uid not in view.listed and not desired.has_room:
        return desired.with_reasons(reason)  # foreign entries fill the list and keep other components off
    return desired.replace(kept_entries=(*desired.kept_entries, entry)).with_reasons(reason)
