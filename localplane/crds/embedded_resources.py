"""Validates objects embedded in custom objects (``x-kubernetes-embedded-resource``): kind, apiVersion, metadata."""

from collections.abc import Iterator
from typing import Final

from dra.model import name_validation
from localplane.crds.pruning import EMBEDDED_RESOURCE, JsonSchemaProps, field_schema
from localplane.crds.schema_errors import child_path
from localplane.kinds import field_errors, objectmeta
from localplane.status_errors import FieldError

_MAX_API_VERSION_PARTS: Final = 2
"""Maximum number of parts of an apiVersion: group and version."""


def check_embedded_resources(value: object, schema: JsonSchemaProps | None, path: str = "") -> Iterator[FieldError]:
    """Yield the errors of the embedded objects in a value."""
    if schema is None:
        return
    if isinstance(value, dict):
        if schema.get(EMBEDDED_RESOURCE):
            yield from _check_type_meta(value, path)
        properties = schema.get("properties") or {}
        for name, field in value.items():
            here = child_path(path, name) if name in properties else f"{path}[{name}]"
            yield from check_embedded_resources(field, field_schema(schema, name)[1], here)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from check_embedded_resources(item, schema.get("items"), f"{path}[{index}]")


def _check_type_meta(value: JsonSchemaProps, path: str) -> Iterator[FieldError]:
    for name in ("apiVersion", "kind"):
        where, text = child_path(path, name), value.get(name)
        if name not in value:
            yield field_errors.required(where)
        elif not isinstance(text, str):
            yield field_errors.invalid(where, text, "must be a string")
        elif not text:
            yield field_errors.invalid(where, text, "must not be empty")
        elif name == "apiVersion" and len(text.split("/")) > _MAX_API_VERSION_PARTS:
            yield field_errors.invalid(where, text, f"unexpected GroupVersion string: {text}")
        elif name == "kind" and (errors := name_validation.dns1123_label(text.lower())):
            detail = "may have mixed case, but should otherwise match: " + ",".join(errors)
            yield field_errors.invalid(where, text, detail)
    meta = value.get("metadata")
    if isinstance(meta, dict):
        yield from objectmeta.validate_template(meta, child_path(path, "metadata"))
