"""The annotation keys that dra-reserve knows on claims and pods, and those that are misspelled."""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import lru_cache
from typing import Final

from dra.api.koordinator.well_known import ANNOTATION_CPUS
from dra.api.reservations import well_known
from dra.engine.claims.patches import LISTED_AT
from dra.model import workload_reservations

_ANNOTATION_PREFIX: Final = "reserve.dra/"

_KNOWN_ANNOTATIONS: Final = frozenset(
    {
        workload_reservations.RESERVED_FOR,
        workload_reservations.RESERVED_FOR_UID,
        workload_reservations.RESOLVED_UID,
        workload_reservations.RESOLVED_FOR,
        workload_reservations.RESERVED_FOR_ANY_POD,
        workload_reservations.ENTERED_ALLOCATION,
        workload_reservations.PRE_LIST,
        workload_reservations.FORCE_RELEASE,
        workload_reservations.WHEN_SUSPENDED,
        LISTED_AT,
        ANNOTATION_CPUS,
        *(
            value
            for value in vars(well_known).values()
            if isinstance(value, str) and value.startswith(_ANNOTATION_PREFIX)
        ),
    }
)
"""Keys that a process of dra-reserve reads or writes on claims and pods."""


def unknown_annotations(annotations: Mapping[str, str] | None) -> Iterator[tuple[str, str]]:
    """Yield keys of ``reserve.dra`` that nothing reads, each with the known key that is closest; empty if none is."""
    for key in sorted(annotations or ()):
        if key.startswith(_ANNOTATION_PREFIX) and key not in _KNOWN_ANNOTATIONS:
            yield key, _closest_key(key)


@lru_cache(maxsize=256)
def _closest_key(key: str) -> str:
    """Return the known key whose name is closest; the prefix, which all keys share, would make any two keys similar."""
    names = [key.removeprefix(_ANNOTATION_PREFIX) for key in _KNOWN_ANNOTATIONS]
    near = get_close_matches(key.removeprefix(_ANNOTATION_PREFIX), names, n=1, cutoff=0.75)
    return _ANNOTATION_PREFIX + near[0] if near else ""
