"""The labels and annotations of Reservations, pods and nodes that concern reservations.

The keys are Koordinator's, or begin with reserve.dra/.
"""

from typing import Final, TypeVar

import msgspec

_GROUP: Final = "scheduling.koordinator.sh"

# On reservations.
LABEL_RESERVATION_ORDER: Final = f"{_GROUP}/reservation-order"
"""Label: the smallest number other than 0 is preferred among reservations that fit."""
ANNOTATION_RESTRICTED_OPTIONS: Final = f"{_GROUP}/reservation-restricted-options"
"""Annotation: the resources that policy Restricted restricts."""
ANNOTATION_RESIZE_ALLOCATABLE: Final = f"{_GROUP}/reservation-resize-allocatable"
"""Annotation: amounts to hold instead of the requests of the template."""
LABEL_PRIORITY: Final = "koordinator.sh/priority"
"""Label: the priority, if the template has none."""
LABEL_PREEMPTION_POLICY: Final = f"{_GROUP}/preemption-policy"
"""Label: the preemption policy, PreemptLowerPriority or Never, instead of the template's."""
LABEL_PRE_ALLOCATION_REQUIRED: Final = f"{_GROUP}/pre-allocation-required"
"""Label: the reservation must be placed over running pods."""
ANNOTATION_PLACED_OVER: Final = "reserve.dra/placed-over"
"""Annotation of dra-reserve: comma-separated uids of the pods that the reservation was placed over."""

# On pods.
LABEL_RESERVATION_IGNORED: Final = f"{_GROUP}/reservation-ignored"
"""Label: the pod may use what is reserved for others."""
ANNOTATION_RESERVATION_AFFINITY: Final = f"{_GROUP}/reservation-affinity"
"""Annotation: the pod must run in a reservation that matches."""
ANNOTATION_EXACT_MATCH: Final = f"{_GROUP}/exact-match-reservation"
"""Annotation: resources of which the reservation must hold exactly what the pod requests."""
ANNOTATION_RESERVATION_ALLOCATED: Final = f"{_GROUP}/reservation-allocated"
"""Annotation, written by the scheduler: the reservation that the pod is in."""
LABEL_DISABLE_PREEMPTIBLE: Final = f"{_GROUP}/disable-preemptible"
"""Label: the pod must not be a victim of preemption."""
LABEL_PRE_ALLOCATABLE: Final = "pod.koordinator.sh/is-pre-allocatable"
"""Label: reservations may be placed over the pod (mode Cluster)."""
ANNOTATION_PRE_ALLOCATABLE_PRIORITY: Final = "pod.koordinator.sh/pre-allocatable-priority"
"""Annotation: reservations are placed over the pod with the greatest number first."""

ANNOTATION_LOOK_AGAIN: Final = "reserve.dra/look-again"
"""Annotation of dra-reserve: each new value makes kube-scheduler retry a pending pod."""
PAUSE_IMAGE: Final = "registry.k8s.io/pause:3.10"
"""Each node has a similar image already: that of the pause container, which holds the namespaces of a pod."""

LABEL_PLACEHOLDER: Final = "reserve.dra/placeholder"
"""Label of dra-reserve: the pod finds the node of a reservation, or keeps its capacity (a placeholder)."""
ANNOTATION_STANDBY_FOR: Final = "reserve.dra/heir-of"
"""Annotation of dra-reserve on a placeholder: uid of the owner pod whose capacity it takes over when that pod ends."""
ANNOTATION_REPLACES: Final = "reserve.dra/replaces"
"""Annotation of dra-reserve on a placeholder: comma-separated uids of the placeholders that it replaces."""
LABEL_INSIDE: Final = "reserve.dra/inside"
"""Label of dra-reserve on an owner pod (mode yielding): its own uid, for its standby placeholder's anti-affinity."""
SCHEDULING_GATE: Final = "reserve.dra/reservation"
"""Scheduling gate of dra-reserve: the pod waits for a reservation, if there is one for it."""
ANNOTATION_RESERVATION_NAME: Final = f"{_GROUP}/reservation-name"
"""Annotation of a placeholder: the name of its reservation."""

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
"""Annotations that are kept in memory even if a pod has many (`dra.model.annotations`)."""
MAX_ANNOTATION_LENGTH: Final = 16_384
"""Maximum characters of a retained annotation; a longer one cannot be parsed, and so rejects its pod by name."""

# On nodes; on reservations, for what is kept from owner pods.
ANNOTATION_NODE_RESERVATION: Final = "node.koordinator.sh/reservation"

TRUE: Final = "true"


def parse_integer(text: str | None, *, otherwise: int = 0) -> int:
    """Return the integer in a label; `otherwise` if the text is no integer."""
    given = text or ""
    digits = given.removeprefix("-")
    return int(given) if digits.isascii() and digits.isdigit() and len(digits) <= _MAX_DIGITS else otherwise


_MAX_DIGITS: Final = 18
"""Maximum number of digits: such numbers fit into 64 bits in any case."""

T = TypeVar("T")


class MalformedAnnotationError(ValueError):
    """An annotation cannot be parsed; the text begins with the name of the annotation."""


def decode_annotation(name: str, text: str, kind: type[T]) -> T:
    """Return the decoded value of an annotation. Raises MalformedAnnotationError with the path of the field."""
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.ValidationError as error:
        raise MalformedAnnotationError(f"annotation {name}: {error}") from error
    except (msgspec.DecodeError, UnicodeError) as error:
        raise MalformedAnnotationError(f"annotation {name}: is not valid JSON: {error}") from error
    except RecursionError as error:
        raise MalformedAnnotationError(f"annotation {name}: is nested too deeply") from error
