"""Annotations of ours that mean nothing: a key with a slip is silent everywhere else."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Final

from dra.engine.patches import KICKED
from dra.engine.reservations import marks
from dra.model import workloads

OURS: Final = "reserve.dra/"

KNOWN: Final = frozenset(
    {
        *(workloads.RESERVED_FOR, workloads.RESERVED_FOR_UID, workloads.RESOLVED_UID, workloads.RESOLVED_FOR),
        *(workloads.ANY_POD, workloads.ENTERED, workloads.PRE_LIST, workloads.FORCE_RELEASE, KICKED),
        *(each for each in vars(marks).values() if isinstance(each, str) and each.startswith(OURS)),
    }
)
"""The keys that some process of ours reads or writes on claims and pods."""


def unknown(annotations: Mapping[str, str] | None) -> Iterable[tuple[str, str]]:
    """Yield keys of ours that nothing reads, each with the key that is meant, if one is close."""
    for key in sorted(annotations or ()):
        if key.startswith(OURS) and key not in KNOWN:
            yield key, next(iter(get_close_matches(key, KNOWN, n=1, cutoff=0.8)), "")
