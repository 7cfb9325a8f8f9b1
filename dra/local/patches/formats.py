"""The patch formats: which there are, by content type, and what each makes of a body."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from dra.kube.transport import APPLY_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from dra.local import refusals
from dra.local.kinds.kind import Kind
from dra.local.kinds.subresource import Subresource
from dra.local.objects import Mutation
from dra.local.patches import apply, json, merge, strategic
from dra.local.patches.apply import Author
from dra.local.patches.bodies import Codec
from dra.local.schemas import parsing
from dra.local.schemas.parsing import Unreadable

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
    codec: Codec
    """Of the objects that it changes."""
    time: str = ""
    """Now, as the API writes it."""


Format: TypeAlias = Callable[[Patch], Mutation]

FORMATS: Final[dict[str, Format]] = {
    JSON_PATCH: lambda patch: json.mutation(patch.body),
    MERGE_PATCH: lambda patch: merge.mutation(merge.checked(patch.body)),
    STRATEGIC_PATCH: lambda patch: strategic.mutation(strategic.checked(patch.body), patch.codec.schema),
    APPLY_PATCH: lambda patch: _application(patch),  # noqa: PLW0108 - defined below
}
"""By content type."""

_ORDER: Final = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)


def read(raw: bytes, media_type: str) -> tuple[Any, list[str]]:
    """Return the body of a patch, and what to warn of; raises `Refusal` 400, in the words of Kubernetes 1.37."""
    try:
        return parsing.parse_yaml(raw) if media_type == APPLY_PATCH else (parsing.parse(raw), [])
    except Unreadable as error:
        in_yaml = f"error decoding patch: error converting YAML to JSON: {error}"
        raise refusals.bad_request(in_yaml if media_type == APPLY_PATCH else "invalid JSON patch") from None


def _application(patch: Patch) -> Mutation:
    kind, part = patch.kind, patch.part
    author = Author(
        manager=patch.manager,
        api_version=kind.api_version,
        subresource=part.name if part is not None else "",
        time=patch.time,
        status_apart=kind.subresource("status") is not None,
    )
    body = apply.checked(patch.body, api_version=patch.codec.api_version, kind=patch.codec.kind)
    return apply.application(body, patch.codec.schema, author, force=patch.force)


def find(media_type: str, kind: Kind) -> Format:
    """Return a format; raises `Refusal` 415 for one that the kind has not."""
    known = [each for each in _ORDER if each in FORMATS and not (kind.custom and each == STRATEGIC_PATCH)]
    if media_type not in known:
        raise refusals.unsupported_media_type(known)
    return FORMATS[media_type]
