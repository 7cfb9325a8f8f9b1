"""The rules of one claim, in the order in which they fold into ``Desired``.

Each rule sees the view and the result of the preceding rules, and returns its own result instead. To change what the
controller does, change a rule; to learn what the controller does, read this table.
"""

from collections.abc import Callable
from functools import reduce
from typing import Final, TypeAlias

from dra.engine.claims.consumer_entries import (
    consumer_entries_rule,
    guard_entry_rule,
    kept_entries_rule,
    pod_groups_rule,
)
from dra.engine.claims.deallocation import deallocation_rule, inconsistency_rule, metadata_rule, revocation_rule
from dra.engine.claims.desired import Desired
from dra.engine.claims.force_release import force_release_rule
from dra.engine.claims.lost_nodes import lost_nodes_rule
from dra.engine.claims.node_deletion import node_deletion_rule
from dra.engine.claims.policy import Policy
from dra.engine.claims.reservation_entries import (
    generated_claim_rule,
    reservation_entries_rule,
    return_to_reservation_rule,
)
from dra.engine.claims.scheduling_gates import scheduling_gates_rule
from dra.engine.claims.view import ClaimView
from dra.engine.claims.workload_entry import workload_rule
from dra.engine.instants import Instant

ClaimRule: TypeAlias = Callable[[ClaimView, Policy, Instant, Desired], Desired]

RULES: Final[tuple[ClaimRule, ...]] = (
    workload_rule,  # Enter, Release, Doubt: the workload entry
    revocation_rule,  # Unstick: must precede the listing, since no further pod may come to rely on the allocation
    force_release_rule,  # Doubt: likewise
    kept_entries_rule,  # List, Alongside, Doubt: foreign and doubtful entries
    reservation_entries_rule,  # entries of reservations, likewise
    pod_groups_rule,  # Stock duties: entries of PodGroups, before the listing leaves out the pods they cover
    lost_nodes_rule,  # Doubt: pods that may run without an object
    consumer_entries_rule,  # Pre-list, Re-list, Deletion, Off the allocation: the pods
    guard_entry_rule,  # Prune, guard: after the listing, since it depends on which pods are left out
    deallocation_rule,  # Deallocate, Deletion: after everything that may want an entry
    metadata_rule,  # Enter, Deallocate, Deletion: follows the allocation
    return_to_reservation_rule,  # an ended pod no longer controls a claim that a reservation holds
    generated_claim_rule,  # Stock duties: after everything that may want an entry
    scheduling_gates_rule,  # Gate
    inconsistency_rule,  # Deallocate, Unstick
    node_deletion_rule,  # reports only: after everything that keeps or frees the allocation
)


def apply_rules(view: ClaimView, *, policy: Policy, now: Instant) -> Desired:
    """Return the desired state of the claim."""
    return reduce(lambda desired, rule: rule(view, policy, now, desired), RULES, Desired())
