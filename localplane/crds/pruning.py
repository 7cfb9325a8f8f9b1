"""Prunes custom objects: drops fields that the schema does not declare, and nulls that the schema does not allow.

The schema is *structural*: its shape (properties, items, additionalProperties) is declared outside of allOf, anyOf,
oneOf and not. The metadata, kind and apiVersion of a resource are never pruned. As upstream's prune.
"""

from typing import Any, Final, TypeAlias

from localplane.crds.schema_errors import child_path

JsonSchemaProps: TypeAlias = dict[str, Any]
"""A JSONSchemaProps as plain JSON; also used for other plain JSON objects of definitions."""

PRESERVE_UNKNOWN_FIELDS: Final = "x-kubernetes-preserve-unknown-fields"
EMBEDDED_RESOURCE: Final = "x-kubernetes-embedded-resource"
TYPE_AND_OBJECT_META: Final = frozenset({"apiVersion", "kind", "metadata"})


def field_schema(schema: JsonSchemaProps | None, name: str) -> tuple[bool, JsonSchemaProps | None]:
    """Return whether a schema declares a field, and the field's schema (None: any value, but pruned)."""
    if schema is None:
        return False, None
    known = (schema.get("properties") or {}).get(name)
    if known is not None:
        return True, known
    others = schema.get("additionalProperties")
    if others is None or others is False:
        return False, None
    return True, others if isinstance(others, dict) else None


def prune(obj: JsonSchemaProps, schema: JsonSchemaProps) -> list[str]:
    """Drop the fields of a resource that its schema does not declare; return the paths of dropped fields."""
    dropped: list[str] = []
    _prune_value(obj, schema | {EMBEDDED_RESOURCE: True}, "", dropped)
    return sorted(dropped)


def _prune_value(value: object, schema: JsonSchemaProps | None, path: str, dropped: list[str]) -> None:
    keep = schema is not None and schema.get(PRESERVE_UNKNOWN_FIELDS) is True
    if isinstance(value, dict):
        for name in list(value):
            if schema is not None and schema.get(EMBEDDED_RESOURCE) and name in TYPE_AND_OBJECT_META:
                continue
            known, field = field_schema(schema, name)
            if known:
                _prune_value(value[name], field, child_path(path, name), dropped)
            elif not keep:
                dropped.append(child_path(path, name))
                del value[name]
    elif isinstance(value, list):
        items = schema.get("items") if schema is not None else None
        if keep and items is None:
            return
        for index, item in enumerate(value):
            _prune_value(
                item, {**items, PRESERVE_UNKNOWN_FIELDS: True} if keep and items else items, f"{path}[{index}]", dropped
            )


def drop_nulls(value: object, schema: JsonSchemaProps | None) -> None:
    """Drop nulls of fields that are neither nullable nor have a default."""
    if isinstance(value, dict):
        for name in list(value):
            _, field = field_schema(schema, name)
            if value[name] is None and field is not None and not field.get("nullable") and field.get("default") is None:
                del value[name]
            else:
                drop_nulls(value[name], field)
    elif isinstance(value, list):
        items = schema.get("items") if schema is not None else None
        for item in value:
            drop_nulls(item, items)
