"""Selects the patch type by content type, and decodes patches."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from dra.kube.transport import APPLY_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from localplane import status_errors
from localplane.codecs import KindCodec
from localplane.kinds.kind import Kind
from localplane.kinds.subresource import Subresource
from localplane.objects import Mutation
from localplane.patches import json_patch, merge_patch, server_side_apply, strategic_merge_patch
from localplane.patches.server_side_apply import FieldManagerIdentity
from localplane.schemas import body_parser
from localplane.schemas.body_parser import BodySyntaxError

JSON_PATCH: Final = "application/json-patch+json"


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchRequest:
    """A patch request, decoded."""

    body: Any
    """The patch as a JSON value."""
    kind: Kind
    subresource: Subresource | None = None
    field_manager: str = ""
    force: bool = False
    """Whether a server-side apply takes fields over from other managers."""
    codec: KindCodec
    """Codec of the patched objects."""
    time: str = ""
    """Current time in the API's format."""


PatchType: TypeAlias = Callable[[PatchRequest], Mutation]

PATCH_TYPES: Final[dict[str, PatchType]] = {
    JSON_PATCH: lambda patch: json_patch.mutation(patch.body),
    MERGE_PATCH: lambda patch: merge_patch.mutation(merge_patch.check_merge_patch(patch.body)),
    STRATEGIC_PATCH: lambda patch: strategic_merge_patch.mutation(
        strategic_merge_patch.check_strategic_patch(patch.body), patch.codec.schema
    ),
    APPLY_PATCH: lambda patch: _apply_mutation(patch),  # noqa: PLW0108 - defined below
}
"""Patch types by content type."""

_ADVERTISED_TYPES: Final = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)


def decode_patch(raw: bytes, media_type: str) -> tuple[Any, list[str]]:
    """Return the body of a patch, and warnings; raises `StatusError` 400 with the messages of Kubernetes 1.37."""
    try:
        return body_parser.parse_yaml(raw) if media_type == APPLY_PATCH else (body_parser.parse_json(raw), [])
    except BodySyntaxError as error:
        in_yaml = f"error decoding patch: error converting YAML to JSON: {error}"
        raise status_errors.bad_request(in_yaml if media_type == APPLY_PATCH else "invalid JSON patch") from None


def _apply_mutation(patch: PatchRequest) -> Mutation:
    kind, part = patch.kind, patch.subresource
    identity = FieldManagerIdentity(
        manager=patch.field_manager,
        api_version=kind.api_version,
        subresource=part.name if part is not None else "",
        time=patch.time,
        has_status_subresource=kind.subresource("status") is not None,
    )
    body = server_side_apply.check_applied_object(
        patch.body, api_version=patch.codec.api_version, kind=patch.codec.kind
    )
    return server_side_apply.apply_mutation(body, patch.codec.schema, identity, force=patch.force)


def find_patch_type(media_type: str, kind: Kind) -> PatchType:
    """Return the patch type of a content type; raises `StatusError` 415 if the kind does not support the type."""
    known = [
        patch_type
        for patch_type in _ADVERTISED_TYPES
        if patch_type in PATCH_TYPES and not (kind.is_custom and patch_type == STRATEGIC_PATCH)
    ]
    if media_type not in known:
        raise status_errors.unsupported_media_type(known)
    return PATCH_TYPES[media_type]
