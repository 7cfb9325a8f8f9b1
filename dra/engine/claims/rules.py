"""The rules of one claim, in the order in which they fold into ``Desired``.

Each sees the view and what the rules before it want, and returns what it wants instead. To change what the controller
does, change a rule; to see what it does, read this table.
"""

from collections.abc import Callable
from functools import reduce
from typing import Final, TypeAlias

from dra.engine.claims.allocation import damage_rule, deallocation_rule, metadata_rule, revocation_rule
from dra.engine.claims.desired import Desired
from dra.engine.claims.force import force_rule
from dra.engine.claims.gates import gates_rule
from dra.engine.claims.generated import generated_rule
from dra.engine.claims.groups import groups_rule
from dra.engine.claims.held import held_rule, return_rule
from dra.engine.claims.listing import guard_rule, kept_rule, listing_rule
from dra.engine.claims.lost import lost_rule
from dra.engine.claims.policy import Policy
from dra.engine.claims.view import ClaimView
from dra.engine.claims.workload import workload_rule
from dra.engine.instants import Instant

Rule: TypeAlias = Callable[[ClaimView, Policy, Instant, Desired], Desired]

RULES: Final[tuple[Rule, ...]] = (
    workload_rule,  # 2, 7, 12: the workload entry
    revocation_rule,  # 9: must precede the listing, nobody new may come to rely on the allocation
    force_rule,  # 12: likewise
    kept_rule,  # 1, 11, 12: foreign and doubtful entries
    held_rule,  # entries of reservations, likewise
    groups_rule,  # 13: entries of PodGroups, before the listing leaves out their pods
    lost_rule,  # 12: pods that may run without an object
    listing_rule,  # 3, 5, 10, 14: the pods
    guard_rule,  # 4: after the listing, it asks who is left out
    deallocation_rule,  # 8, 10: after everything that may want an entry
    metadata_rule,  # 2, 8, 10: follows the allocation
    return_rule,  # what a reservation holds is no ended pod's
    generated_rule,  # 13: after everything that may want an entry
    gates_rule,  # 6
    damage_rule,  # 8, 9
)


def fold(view: ClaimView, *, policy: Policy, now: Instant) -> Desired:
    """Return what the claim should be."""
    return reduce(lambda desired, rule: rule(view, policy, now, desired), RULES, Desired())
