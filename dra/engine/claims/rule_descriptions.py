"""The rules of claims, each in a sentence: what ``kubectl dra explain rule release`` and KEP-notes.md say.

Code names a rule by its name, scenarios by its number; `dra.engine.claims.rules` has the order in which rules apply.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple


class RuleDescription(NamedTuple):
    """The description of one rule, in Markdown."""

    name: str
    sentence: str
    modules: str
    """The modules that have the rule, with functions where a module has more than one rule."""


RULE_DESCRIPTIONS: Final[Mapping[int, RuleDescription]] = {
    1: RuleDescription(
        "List",
        "The list is: workload entry, guard, window of pods, foreign entries untouched.",
        "`dra/engine/claims/decide.py` (`compose_entries`), `dra/engine/claims/consumer_entries.py` "
        "(`kept_entries_rule`)",
    ),
    2: RuleDescription(
        "Enter",
        "The workload is entered when the claim is allocated and a pod waits or consumes; an annotation records "
        "for which allocation. A claim that was generated for one pod is not entered.",
        "`dra/engine/claims/workload_entry.py`",
    ),
    3: RuleDescription(
        "Pre-list",
        "Waiting pods are listed in batches before the scheduler binds them, if the claim is reserved for a "
        "workload, or the pod was behind the gate or opts in; pods that are bound but not started come first.",
        "`dra/engine/claims/consumer_entries.py`, `dra/engine/claims/window.py`",
    ),
    4: RuleDescription(
        "Prune, guard",
        "Finished pods leave the list, and started pods too if slots are needed; a guard entry then keeps the claim.",
        "`dra/engine/claims/consumer_entries.py` (`guard_entry_rule`), `dra/engine/claims/window.py`",
    ),
    5: RuleDescription(
        "Re-list",
        "A bound pod that has not started is listed at once, and its pod object is touched so that the kubelet "
        "retries.",
        "`dra/engine/claims/consumer_entries.py`, `dra/engine/claims/decide.py` (`_resyncs`)",
    ),
    6: RuleDescription(
        "Gate",
        "The scheduling gate `reserve.dra/claim` is removed when the pod is listed, or when there is nothing "
        "to wait for. One pod, or one gang, allocates the claim; if no node takes this pod, up to 110 pods of "
        "the claim follow after 10 s, so that an autoscaler sees them. A gate that its controller removes "
        "last (Volcano's) is not waited for.",
        "`dra/engine/claims/scheduling_gates.py`",
    ),
    7: RuleDescription(
        "Release",
        "The workload entry is removed when its owner removes it, or when the workload has finished for good or is "
        "certainly gone; also while the workload is suspended, where the claim's annotation or the configuration "
        "says so. In a claim that was generated for one pod, it is removed with that pod.",
        "`dra/engine/claims/workload_entry.py`, `dra/engine/claims/suspension.py`",
    ),
    8: RuleDescription(
        "Deallocate",
        "Deallocation follows an edge, never a state: the last entry of a finished consumer is removed, or the "
        "claim is released.",
        "`dra/engine/claims/deallocation.py` (`deallocation_rule`)",
    ),
    9: RuleDescription(
        "Unstick",
        "An allocation that no pod can use is revoked if other devices would suit a pod, once no pod can still be "
        "bound to the allocation; if its nodes were deleted, whatever else has devices.",
        "`dra/engine/claims/stuck_allocations.py`, `dra/engine/claims/placements.py`, "
        "`dra/engine/claims/deallocation.py` (`revocation_rule`)",
    ),
    10: RuleDescription(
        "Deletion",
        "From the deletion timestamp on the list only shrinks.",
        "`dra/engine/claims/consumer_entries.py` (`_keep_live_entries`), `dra/engine/claims/deallocation.py` "
        "(`_decide_deletion`)",
    ),
    11: RuleDescription(
        "Alongside",
        "With the stock controller on, pods stay listed, finished pods become tombstones, and pods without a slot "
        "wait behind the gate.",
        "`dra/engine/claims/policy.py`, `dra/engine/claims/consumer_entries.py` (`kept_entries_rule`), "
        "`dra/engine/claims/decide.py`",
    ),
    12: RuleDescription(
        "Doubt",
        "In doubt the reservation stays, with a reason; a person can override the doubt.",
        "`dra/engine/claims/workload_entry.py` (`workload_fate`), `dra/engine/claims/consumer_entries.py` "
        "(`kept_entries_rule`), `dra/engine/claims/lost_nodes.py`, `dra/engine/claims/force_release.py`",
    ),
    13: RuleDescription(
        "Stock duties",
        "In mode `replace` the controller takes over the other duties of the stock controller.",
        "`dra/engine/claims/generation/decide.py` (claims from templates), "
        "`dra/engine/claims/reservation_entries.py` (early deletion), `dra/engine/claims/consumer_entries.py` "
        "(bound pods, entries of PodGroups)",
    ),
    14: RuleDescription(
        "Off the allocation",
        "A bound pod on a node that the allocation excludes is never listed.",
        "`dra/engine/claims/consumer_entries.py` (`_off_allocation_reason`)",
    ),
}
