"""Labels and annotations by which people and schedulers speak about reservations; the names are Koordinator's."""

from typing import Final

_GROUP: Final = "scheduling.koordinator.sh"

# On reservations.
LABEL_RESERVATION_ORDER: Final = f"{_GROUP}/reservation-order"
"""Label: of several that fit, the smallest number that is not 0 comes first."""
ANNOTATION_RESTRICTED_OPTIONS: Final = f"{_GROUP}/reservation-restricted-options"
"""Annotation: the resources that policy Restricted is about."""
ANNOTATION_RESIZE_ALLOCATABLE: Final = f"{_GROUP}/reservation-resize-allocatable"
"""Annotation: what is held instead of what the template asks for."""
LABEL_PRIORITY: Final = "koordinator.sh/priority"
"""Label: a priority, where the template has none."""
LABEL_PRE_ALLOCATION_REQUIRED: Final = f"{_GROUP}/pre-allocation-required"
"""Label: not to be placed but over running pods."""
ANNOTATION_PLACED_OVER: Final = "reserve.dra/placed-over"
"""Annotation, ours: uids of the pods that it was placed over, with commas."""

# On pods.
LABEL_RESERVATION_IGNORED: Final = f"{_GROUP}/reservation-ignored"
"""Label: the pod may use what is reserved for others."""
ANNOTATION_RESERVATION_AFFINITY: Final = f"{_GROUP}/reservation-affinity"
"""Annotation: the pod runs in a reservation, one of these."""
ANNOTATION_EXACT_MATCH: Final = f"{_GROUP}/exact-match-reservation"
"""Annotation: resources of which the reservation holds exactly what the pod wants."""
ANNOTATION_RESERVATION_ALLOCATED: Final = f"{_GROUP}/reservation-allocated"
"""Annotation, by the scheduler: the reservation that the pod is in."""
LABEL_DISABLE_PREEMPTIBLE: Final = f"{_GROUP}/disable-preemptible"
"""Label: the pod is no victim."""
LABEL_PRE_ALLOCATABLE: Final = "pod.koordinator.sh/is-pre-allocatable"
"""Label: reservations may be placed over the pod (mode Cluster)."""
ANNOTATION_PRE_ALLOCATABLE_PRIORITY: Final = "pod.koordinator.sh/pre-allocatable-priority"
"""Annotation: over which first; the greatest number."""

ANNOTATION_LOOK_AGAIN: Final = "reserve.dra/look-again"
"""Annotation, ours: each new value makes kube-scheduler look at a waiting pod again."""
LABEL_PLACEHOLDER: Final = "reserve.dra/placeholder"
"""Label, ours: the pod finds a place for a reservation, or keeps it."""
ANNOTATION_STANDBY_FOR: Final = "reserve.dra/heir-of"
"""Annotation of such a pod, ours: uid of the pod whose room it takes over when that ends."""
ANNOTATION_REPLACES: Final = "reserve.dra/replaces"
"""Annotation of such a pod, ours: uids of those that it stands for from now on, with commas."""
LABEL_INSIDE: Final = "reserve.dra/inside"
"""Label of a pod in a reservation that keeps its room with placeholders, ours: the pod's uid, for its heir to see."""
SCHEDULING_GATE: Final = "reserve.dra/reservation"
"""Scheduling gate, ours: the pod goes into a reservation, if there is one for it."""
ANNOTATION_RESERVATION_NAME: Final = f"{_GROUP}/reservation-name"
"""Annotation of such a pod: which one."""

RETAINED_POD_ANNOTATIONS: Final = frozenset(
    {
        ANNOTATION_RESERVATION_AFFINITY,
        ANNOTATION_EXACT_MATCH,
        ANNOTATION_RESERVATION_ALLOCATED,
        ANNOTATION_PRE_ALLOCATABLE_PRIORITY,
        ANNOTATION_STANDBY_FOR,
        ANNOTATION_REPLACES,
        ANNOTATION_RESERVATION_NAME,
        ANNOTATION_LOOK_AGAIN,
    }
)
"""Annotations of pods that are kept in memory where a pod has many (`dra.model.annotations`)."""
MAX_ANNOTATION_LENGTH: Final = 16_384
"""Characters of one of these that are kept; a longer one cannot be read, and refuses its pod by name."""

# On nodes, and on reservations for what is held within them.
ANNOTATION_NODE_RESERVATION: Final = "node.koordinator.sh/reservation"

TRUE: Final = "true"


def parse_integer(text: str | None, *, otherwise: int = 0) -> int:
    """Return a whole number of a label; something else stands for one that is no number."""
    given = text or ""
    digits = given.removeprefix("-")
    return int(given) if digits.isascii() and digits.isdigit() and len(digits) <= _MAX_DIGITS else otherwise


_MAX_DIGITS: Final = 18
"""Of numbers that fit into 64 bits in any case."""
