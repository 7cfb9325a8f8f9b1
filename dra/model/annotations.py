"""Which annotations of an object are kept in memory: all of few, and of many those that a decision asks for.

An object may carry 256 KiB of annotations, and whoever may create claims chooses them. Writes are merge patches, so an
annotation that is not kept is not lost.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Final

from dra.model import workload_reservations
from dra.model.claims import EXTENDED_RESOURCE_CLAIM, POD_CLAIM_NAME
from dra.model.meta import ObjectMeta

RETAIN_ALL_MAX_CHARACTERS: Final = 4096
"""Characters of all annotations together, names and values, up to which all of them are kept."""

RETAINED_VALUE_MAX_CHARACTERS: Final = 1024
"""Characters of one value that are kept beyond that; no value that can be read is longer."""

CLAIM_RULE_ANNOTATIONS: Final = frozenset(
    {
        workload_reservations.RESERVED_FOR,
        workload_reservations.RESERVED_FOR_UID,
        workload_reservations.RESOLVED_UID,
        workload_reservations.RESERVED_FOR_ANY_POD,
        workload_reservations.ENTERED_ALLOCATION,
        workload_reservations.PRE_LIST,
        workload_reservations.FORCE_RELEASE,
        POD_CLAIM_NAME,
        EXTENDED_RESOURCE_CLAIM,
    }
)
"""Annotations of claims and pods that the rules for claims look at, or write."""


def retained_annotations(
    annotations: Mapping[str, str],
    *,
    asked_for: AbstractSet[str] = CLAIM_RULE_ANNOTATIONS,
    longest: int = RETAINED_VALUE_MAX_CHARACTERS,
) -> dict[str, str]:
    """Return what of an object's annotations is kept. Idempotent."""
    if sum(len(name) + len(value) for name, value in annotations.items()) <= RETAIN_ALL_MAX_CHARACTERS:
        return dict(annotations)
    return {name: annotations[name][:longest] for name in asked_for & annotations.keys()}


def trim_annotations(
    metadata: ObjectMeta,
    *,
    asked_for: AbstractSet[str] = CLAIM_RULE_ANNOTATIONS,
    longest: int = RETAINED_VALUE_MAX_CHARACTERS,
) -> None:
    """Let go of the other annotations of an object that was just decoded, wherever it is referred to."""
    annotations = metadata.annotations
    if annotations is None:
        return
    rest = retained_annotations(annotations, asked_for=asked_for, longest=longest)
    if len(rest) < len(annotations) or rest != annotations:
        annotations.clear()
        annotations.update(rest)
