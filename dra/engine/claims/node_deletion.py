"""The warning that an autoscaler may delete the node on which a claim is kept.

A claim stays allocated for its workload, a PodGroup or a Reservation while no pod uses the claim. Cluster autoscaler
and Karpenter count pods and no claims: they delete the node as empty, and the workload's next pod finds neither node
nor devices. This rule decides nothing about the claim; it reports the danger while an administrator can avert it.
"""

from typing import Final

from dra.engine.claims.codes import Code
from dra.engine.claims.desired import Desired
from dra.engine.claims.policy import Policy
from dra.engine.claims.reasons import Reason, list_names
from dra.engine.claims.view import KEEPING_KINDS, ClaimView
from dra.engine.instants import Instant
from dra.model.autoscalers import DeletionSign
from dra.model.references import ConsumerReference

UNUSED_WITHOUT_SIGN: Final = 30.0
"""Seconds without a pod after which a node of a Karpenter NodePool counts as threatened.

Karpenter shows no sign before it disrupts an empty node. A Job's next pod comes within seconds: a warning in each such
gap would tell nothing.
"""


def keeping_entry(view: ClaimView, desired: Desired) -> ConsumerReference | None:
    """Return the entry that keeps a claim for future pods: of a workload, a PodGroup or a Reservation."""
    if desired.workload is not None:
        return desired.workload
    listed = (entry.reference for entry in view.entries if entry.kind in KEEPING_KINDS)
    return next((entry for entry in listed if entry in desired.kept_entries), None)


def node_deletion_rule(view: ClaimView, policy: Policy, now: Instant, desired: Desired) -> Desired:
    """Report that each node of a kept and unused allocation may be deleted by an autoscaler."""
    del policy
    warning = deletion_warning(view, desired)
    if warning is None:
        return desired
    due = _reported_from(view, now=now)
    return desired.wake_by(due) if now < due else desired.with_reasons(warning)


def deletion_warning(view: ClaimView, desired: Desired) -> Reason | None:
    """Return the warning about the nodes of an allocation; None if no autoscaler may delete all the nodes as empty."""
    keeper = keeping_entry(view, desired)
    if keeper is None or not view.deletion_signs or not desired.allocated or view.consuming:
        return None
    signs = dict.fromkeys(shown.sign for shown in view.deletion_signs)
    return view.reason(
        Code.NODE_MAY_BE_DELETED,
        keeper=str(keeper),
        nodes=list_names(f"node {shown.node}" for shown in view.deletion_signs),
        signs=" or ".join(sign.mark for sign in signs),
        annotations=" or ".join(dict.fromkeys(sign.keep_annotation for sign in signs)),
    )


def _reported_from(view: ClaimView, *, now: Instant) -> Instant:
    """Return from when the signs are reported: at once, unless a node only belongs to a NodePool."""
    since = view.history.unused_since
    if since is None or all(shown.sign is not DeletionSign.NODE_POOL for shown in view.deletion_signs):
        return now
    return since + UNUSED_WITHOUT_SIGN
