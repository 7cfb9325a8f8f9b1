"""The selection of annotations that are kept in memory: all if they are small, else only those that rules read.

An object may carry 256 KiB of annotations, chosen by any user who may create claims. Writes are merge patches, so an
annotation that is not kept is not lost.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Final

from dra.model import workload_reservations
from dra.model.claims import EXTENDED_RESOURCE_CLAIM, POD_CLAIM_NAME
from dra.model.meta import ObjectMeta
from dra.model.pods import GANG_ANNOTATIONS

RETAIN_ALL_MAX_CHARACTERS: Final = 4096
"""Maximum number of characters of the annotations of one object, names and values, that are all kept."""

RETAINED_VALUE_MAX_CHARACTERS: Final = 1024
"""Maximum number of characters that are kept of one value of a larger object; no readable value is longer."""

CLAIM_RULE_ANNOTATIONS: Final = frozenset(
    {
        workload_reservations.RESERVED_FOR,
        workload_reservations.RESERVED_FOR_UID,
        workload_reservations.RESOLVED_UID,
        workload_reservations.RESERVED_FOR_ANY_POD,
        workload_reservations.ENTERED_ALLOCATION,
        workload_reservations.PRE_LIST,
        workload_reservations.FORCE_RELEASE,
        workload_reservations.WHEN_SUSPENDED,
        POD_CLAIM_NAME,
        EXTENDED_RESOURCE_CLAIM,
        *GANG_ANNOTATIONS,
    }
)
"""Annotations of claims and pods that the rules for claims read or write."""


def retained_annotations(
    annotations: Mapping[str, str],
    *,
    keep: AbstractSet[str] = CLAIM_RULE_ANNOTATIONS,
    value_max_characters: int = RETAINED_VALUE_MAX_CHARACTERS,
) -> dict[str, str]:
    """Return the annotations of an object that are kept in memory. Idempotent."""
    if sum(len(name) + len(value) for name, value in annotations.items()) <= RETAIN_ALL_MAX_CHARACTERS:
        return dict(annotations)
    return {name: annotations[name][:value_max_characters] for name in keep & annotations.keys()}


def trim_annotations(
    metadata: ObjectMeta,
    *,
    keep: AbstractSet[str] = CLAIM_RULE_ANNOTATIONS,
    value_max_characters: int = RETAINED_VALUE_MAX_CHARACTERS,
) -> None:
    """Remove the other annotations of an object that was just decoded, in place, so that all references see it."""
    annotations = metadata.annotations
    if annotations is None:
        return
    rest = retained_annotations(annotations, keep=keep, value_max_characters=value_max_characters)
    if len(rest) < len(annotations) or rest != annotations:
        annotations.clear()
        annotations.update(rest)
