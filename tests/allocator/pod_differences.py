"""Where `kubectl dra simulate` and kube-scheduler answer differently on purpose, and why.

Each kind is a row of KEP-notes.md. `simulate` never says that a pod fits where kube-scheduler refuses.
"""

from typing import Final

from dra.engine.kube_scheduler.scheduling_cycle import NO_MAPPINGS
from tests.allocator.differences import known
from tests.allocator.pod_answers import PLACED, Compared

DIFFERENT_MAX: Final = 0.01
"""Greatest part of the answers that may differ."""

EMPTY_CLAIM: Final = "kube-scheduler fails to bind a pod with claims to a node that serves its extended resource itself"
DISAGREE: Final = "kube-scheduler takes a pool whose slices disagree on their number by the slice it sees first"


def kind(compared: Compared) -> str:
    """Return why `simulate` refuses what kube-scheduler places; empty if it must not, or places what is refused."""
    if compared.answer != PLACED:
        return ""
    if compared.told.reason.startswith(NO_MAPPINGS):
        return EMPTY_CLAIM
    counts: dict[tuple[str, str, int], set[int]] = {}
    for each in compared.question["slices"]:
        pool = each["spec"]["pool"]
        key = (each["spec"]["driver"], pool["name"], pool["generation"])
        counts.setdefault(key, set()).add(pool["resourceSliceCount"])
    if any(len(each) > 1 for each in counts.values()):
        return DISAGREE
    return known(compared.question)
