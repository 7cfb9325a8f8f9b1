"""Converts ``spec.reservedFor`` of a manifest to annotations, for servers that do not know the field.

Such a server rejects the field, or drops it silently, and the claim would be reserved for no workload.
"""

from collections.abc import Mapping
from typing import Any, Final

from dra.model.meta import Uid
from dra.model.references import ConsumerReference, MalformedReferenceError
from dra.model.workload_reservations import RESERVED_FOR, RESERVED_FOR_UID

Json = dict[str, Any]

RESERVED_FOR_FIELD: Final = "reservedFor"
RESOURCE_API_GROUP: Final = "resource.k8s.io"
_REFERENCE_FIELDS: Final = frozenset({"apiGroup", "resource", "name", "uid"})


class MalformedReservedForError(ValueError):
    """A value of spec.reservedFor is invalid; the text says how to write it."""


def has_reserved_for(manifest: Mapping[str, Any]) -> bool:
    """Report whether a manifest has spec.reservedFor."""
    return _claim_spec(dict(manifest)) is not None


def to_annotations(manifest: Mapping[str, Any]) -> Json:
    """Return the manifest with annotations in place of the field; raise MalformedReservedForError."""
    found = _claim_spec(dict(manifest))
    if found is None:
        return dict(manifest)
    spec, metadata = found
    reference = _parse_reference(spec[RESERVED_FOR_FIELD])
    annotations = dict(metadata.get("annotations") or {})
    wanted = {RESERVED_FOR: str(reference), **({RESERVED_FOR_UID: reference.uid} if reference.uid else {})}
    for key, value in wanted.items():
        if annotations.get(key, value) != value:
            raise MalformedReservedForError(
                f"spec.{RESERVED_FOR_FIELD} says {value}, annotation {key} says {annotations[key]}"
            )
    without = {key: value for key, value in spec.items() if key != RESERVED_FOR_FIELD}
    marked = {**metadata, "annotations": annotations | wanted}
    if manifest["kind"] == "ResourceClaim":
        return {**manifest, "metadata": marked, "spec": without}
    return {**manifest, "spec": {**manifest["spec"], "metadata": marked, "spec": without}}


def _claim_spec(manifest: Json) -> tuple[Json, Json] | None:
    """Return the spec that has the field, and the metadata for the claim's annotations; None without the field."""
    if str(manifest.get("apiVersion", "")).partition("/")[0] != RESOURCE_API_GROUP:
        return None
    spec: Any = manifest.get("spec")
    metadata: Any = manifest.get("metadata")
    if not isinstance(spec, dict):
        return None
    if manifest.get("kind") == "ResourceClaimTemplate":
        spec, metadata = spec.get("spec"), spec.get("metadata")
    elif manifest.get("kind") != "ResourceClaim":
        return None
    return (spec, metadata or {}) if isinstance(spec, dict) and spec.get(RESERVED_FOR_FIELD) is not None else None


def _parse_reference(value: Any) -> ConsumerReference:  # noqa: ANN401 - what YAML can say
    shape = "as in: {apiGroup: batch, resource: jobs, name: train}"
    if not isinstance(value, Mapping):
        raise MalformedReservedForError(f"spec.{RESERVED_FOR_FIELD}: is one reference, {shape}")
    if "kind" in value:
        raise MalformedReservedForError(
            f"spec.{RESERVED_FOR_FIELD}.kind: the field is named resource, and is a plural, {shape}"
        )
    if unknown := sorted(set(value) - _REFERENCE_FIELDS):
        raise MalformedReservedForError(f"spec.{RESERVED_FOR_FIELD}.{unknown[0]}: there is no such field; {shape}")
    if not (value.get("resource") and value.get("name")):
        raise MalformedReservedForError(f"spec.{RESERVED_FOR_FIELD}: resource and name are required, {shape}")
    group, resource, name = (str(value.get(key) or "") for key in ("apiGroup", "resource", "name"))
    try:
        kind = f"{resource}.{group}" if group else resource
        return ConsumerReference.parse(f"{kind}/{name}", uid=Uid(str(value.get("uid") or "")))
    except MalformedReferenceError as error:
        raise MalformedReservedForError(f"spec.{RESERVED_FOR_FIELD}: {error}") from error
