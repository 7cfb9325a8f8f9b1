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
    workload_rule,  # 2, 7, 12: the workload entry
    revocation_rule,  # 9: must precede the listing, since no further pod may come to rely on the allocation
    force_release_rule,  # 12: likewise
    kept_entries_rule,  # 1, 11, 12: foreign and doubtful entries
    reservation_entries_rule,  # entries of reservations, likewise
    pod_groups_rule,  # 13: entries of PodGroups, before the listing leaves out the pods they cover
    lost_nodes_rule,  # 12: pods that may run without an object
    consumer_entries_rule,  # 3, 5, 10, 14: the pods
    guard_entry_rule,  # 4: after the listing, since it depends on which pods are left out
    deallocation_rule,  # 8, 10: after everything that may want an entry
    metadata_rule,  # 2, 8, 10: follows the allocation
    return_to_reservation_rule,  # an ended pod no longer controls a claim that a reservation holds
    generated_claim_rule,  # 13: after everything that may want an entry
    scheduling_gates_rule,  # 6
    inconsistency_rule,  # 8, 9
    node_deletion_rule,  # reports only: after everything that keeps or frees the allocation
)


def apply_rules(view: ClaimView, *, policy: Policy, now: Instant) -> Desired:
    """Return the desired state of the claim."""
    return reduce(lambda desired, rule: rule(view, policy, now, desired), RULES, Desired())
