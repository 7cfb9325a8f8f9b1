"""The patch formats: which there are, by content type, and what each makes of a body."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from dra.kube.transport import APPLY_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from dra.local import refusals
from dra.local.kinds.kind import Kind
from dra.local.kinds.subresource import Subresource
from dra.local.objects import Mutation
from dra.local.patches import json, merge

JSON_PATCH: Final = "application/json-patch+json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """A patch as it came in."""

    body: Any
    """As JSON."""
    kind: Kind
    part: Subresource | None = None
    manager: str = ""
    force: bool = False
    """Of server-side apply: take fields away from other managers."""


Format: TypeAlias = Callable[[Patch], Mutation]

FORMATS: Final[dict[str, Format]] = {
    JSON_PATCH: lambda patch: json.mutation(patch.body),
    MERGE_PATCH: lambda patch: merge.mutation(merge.checked(patch.body)),
}
"""Those that there are for every kind."""

_ORDER: Final = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)


def find(media_type: str, kind: Kind) -> Format:
    """Return a format; raises `Refusal` 415 for one that the kind has not."""
    known = [each for each in _ORDER if each in FORMATS and not (kind.custom and each == STRATEGIC_PATCH)]
    if media_type not in known:
        raise refusals.unsupported_media_type(known)
    return FORMATS[media_type]
