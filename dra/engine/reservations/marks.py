"""Labels and annotations by which people and schedulers speak about reservations; the names are Koordinator's."""

from typing import Final

_GROUP: Final = "scheduling.koordinator.sh"

# On reservations.
ORDER: Final = f"{_GROUP}/reservation-order"
"""Label: of several that fit, the smallest number that is not 0 comes first."""
RESTRICTED_OPTIONS: Final = f"{_GROUP}/reservation-restricted-options"
"""Annotation: the resources that policy Restricted is about."""
RESIZE: Final = f"{_GROUP}/reservation-resize-allocatable"
"""Annotation: what is held instead of what the template asks for."""
PRIORITY: Final = "koordinator.sh/priority"
"""Label: a priority, where the template has none."""
PRE_ALLOCATION_REQUIRED: Final = f"{_GROUP}/pre-allocation-required"
"""Label: not to be placed but over running pods."""
PREDECESSORS: Final = "reserve.dra/placed-over"
"""Annotation, ours: uids of the pods that it was placed over, with commas."""

# On pods.
IGNORED: Final = f"{_GROUP}/reservation-ignored"
"""Label: the pod may use what is reserved for others."""
AFFINITY: Final = f"{_GROUP}/reservation-affinity"
"""Annotation: the pod runs in a reservation, one of these."""
EXACT_MATCH: Final = f"{_GROUP}/exact-match-reservation"
"""Annotation: resources of which the reservation holds exactly what the pod wants."""
ALLOCATED: Final = f"{_GROUP}/reservation-allocated"
"""Annotation, by the scheduler: the reservation that the pod is in."""
DISABLE_PREEMPTIBLE: Final = f"{_GROUP}/disable-preemptible"
"""Label: the pod is no victim."""
PRE_ALLOCATABLE: Final = "pod.koordinator.sh/is-pre-allocatable"
"""Label: reservations may be placed over the pod (mode Cluster)."""
PRE_ALLOCATABLE_PRIORITY: Final = "pod.koordinator.sh/pre-allocatable-priority"
"""Annotation: over which first; the greatest number."""

LOOK_AGAIN: Final = "reserve.dra/look-again"
"""Annotation, ours: each new value makes kube-scheduler look at a waiting pod again."""
PLACEHOLDER: Final = "reserve.dra/placeholder"
"""Label, ours: the pod finds a place for a reservation, or keeps it."""
HEIR_OF: Final = "reserve.dra/heir-of"
"""Annotation of such a pod, ours: uid of the pod whose room it takes over when that ends."""
REPLACES: Final = "reserve.dra/replaces"
"""Annotation of such a pod, ours: uids of those that it stands for from now on, with commas."""
INSIDE: Final = "reserve.dra/inside"
"""Label of a pod in a reservation that keeps its room with placeholders, ours: the pod's uid, for its heir to see."""
GATE: Final = "reserve.dra/reservation"
"""Scheduling gate, ours: the pod goes into a reservation, if there is one for it."""
RESERVATION_NAME: Final = f"{_GROUP}/reservation-name"
"""Annotation of such a pod: which one."""

ASKED_FOR: Final = frozenset(
    {AFFINITY, EXACT_MATCH, ALLOCATED, PRE_ALLOCATABLE_PRIORITY, HEIR_OF, REPLACES, RESERVATION_NAME, LOOK_AGAIN}
)
"""Annotations of pods that are kept in memory where a pod has many (`dra.model.annotations`)."""
LONGEST: Final = 16_384
"""Characters of one of these that are kept; a longer one cannot be read, and refuses its pod by name."""

# On nodes, and on reservations for what is held within them.
NODE_RESERVATION: Final = "node.koordinator.sh/reservation"

TRUE: Final = "true"


def number(text: str | None, *, otherwise: int = 0) -> int:
    """Return a whole number of a label; something else stands for one that is no number."""
    given = text or ""
    digits = given.removeprefix("-")
    return int(given) if digits.isascii() and digits.isdigit() and len(digits) <= _DIGITS else otherwise


_DIGITS: Final = 18
"""Of numbers that fit into 64 bits in any case."""
