"""Rule 13: the entries of PodGroups, which scheduler, kubelet and eviction treat as entries of all pods of the group.

The scheduler that bound the first pod of the group made the entry. The entry is removed when the PodGroup is gone,
whatever its pods do (KEP-5729; upstream's ``syncClaim``). If the API server does not serve PodGroups, their entries
stay.
"""

from dra.engine.claims.actions import LookUpWorkload
from dra.engine.claims.consumers import Consumer
from dra.engine.claims.desired import Desired
from dra.engine.claims.policy import Policy
from dra.engine.claims.view import ClaimView, EntryKind
from dra.engine.claims.workload_entry import WorkloadFate, fate_of_known
from dra.engine.instants import Instant


def pod_groups_rule(view: ClaimView, policy: Policy, now: Instant, desired: Desired) -> Desired:
    """Keep the entries of PodGroups that exist, or may exist."""
    del policy, now
    if view.allocation is None or desired.revoking:  # revoked here only by a forced release
        return desired
    for entry in view.of(EntryKind.GROUP):
        outcome = fate_of_known(entry.group, entry.reference)
        if outcome is WorkloadFate.GONE:
            continue
        desired = desired.but(kept=(*desired.kept, entry.reference))
        if outcome is WorkloadFate.ASKED:
            desired = desired.ask(LookUpWorkload(claim=view.key, reference=entry.reference))
    return desired


def is_covered_by_pod_group(consumer: Consumer, desired: Desired) -> bool:
    """Return whether the entry of its PodGroup covers the pod; upstream compares names only."""
    if not consumer.gang:
        return False
    entries = desired.kept if desired.workload is None else (desired.workload, *desired.kept)
    return any(entry.is_pod_group and entry.name == consumer.gang for entry in entries)
