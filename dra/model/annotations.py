"""Which annotations of an object are kept in memory: all of few, and of many those that a decision asks for.

An object may carry 256 KiB of annotations, and whoever may create claims chooses them. Writes are merge patches, so an
annotation that is not kept is not lost.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Final

from dra.model import workloads
from dra.model.claims import EXTENDED_RESOURCE_CLAIM, POD_CLAIM_NAME
from dra.model.meta import ObjectMeta

FEW: Final = 4096
"""Characters of all annotations together, names and values, up to which all of them are kept."""

LONGEST: Final = 1024
"""Characters of one value that are kept beyond that; no value that can be read is longer."""

ASKED_FOR: Final = frozenset(
    {
        workloads.RESERVED_FOR,
        workloads.RESERVED_FOR_UID,
        workloads.RESOLVED_UID,
        workloads.ANY_POD,
        workloads.ENTERED,
        workloads.PRE_LIST,
        workloads.FORCE_RELEASE,
        POD_CLAIM_NAME,
        EXTENDED_RESOURCE_CLAIM,
    }
)
"""Annotations of claims and pods that the rules for claims look at, or write."""


def kept(
    annotations: Mapping[str, str], *, asked_for: AbstractSet[str] = ASKED_FOR, longest: int = LONGEST
) -> dict[str, str]:
    """Return what of an object's annotations is kept. Idempotent."""
    if sum(len(name) + len(value) for name, value in annotations.items()) <= FEW:
        return dict(annotations)
    return {name: annotations[name][:longest] for name in asked_for & annotations.keys()}


def trim(metadata: ObjectMeta, *, asked_for: AbstractSet[str] = ASKED_FOR, longest: int = LONGEST) -> None:
    """Let go of the other annotations of an object that was just decoded, wherever it is referred to."""
    annotations = metadata.annotations
    if annotations is None:
        return
    rest = kept(annotations, asked_for=asked_for, longest=longest)
    if len(rest) < len(annotations) or rest != annotations:
        annotations.clear()
        annotations.update(rest)
