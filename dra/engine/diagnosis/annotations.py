"""Annotations of ``reserve.dra`` that nothing reads: a misspelled key is silent everywhere else."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Final

from dra.api.reservations import well_known
from dra.engine.claims.patches import LISTED_AT
from dra.model import workload_reservations

ANNOTATION_PREFIX: Final = "reserve.dra/"

KNOWN_ANNOTATIONS: Final = frozenset(
    {
        *(
            workload_reservations.RESERVED_FOR,
            workload_reservations.RESERVED_FOR_UID,
            workload_reservations.RESOLVED_UID,
            workload_reservations.RESOLVED_FOR,
        ),
        *(
            workload_reservations.RESERVED_FOR_ANY_POD,
            workload_reservations.ENTERED_ALLOCATION,
            workload_reservations.PRE_LIST,
            workload_reservations.FORCE_RELEASE,
            LISTED_AT,
        ),
        *(each for each in vars(well_known).values() if isinstance(each, str) and each.startswith(ANNOTATION_PREFIX)),
    }
)
"""Keys that a process of dra-reserve reads or writes on claims and pods."""


def unknown_annotations(annotations: Mapping[str, str] | None) -> Iterable[tuple[str, str]]:
    """Yield keys of ``reserve.dra`` that nothing reads, each with the known key that is closest; empty if none is."""
    for key in sorted(annotations or ()):
        if key.startswith(ANNOTATION_PREFIX) and key not in KNOWN_ANNOTATIONS:
            yield key, next(iter(get_close_matches(key, KNOWN_ANNOTATIONS, n=1, cutoff=0.8)), "")
