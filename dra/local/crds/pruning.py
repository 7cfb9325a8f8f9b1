"""Dropping what a schema does not know: unknown fields, and nulls where null is no value.

Upstream's prune, of a *structural* schema: one whose shape (properties, items, additionalProperties) is said outside
of allOf, anyOf, oneOf and not. The metadata, kind and apiVersion of a resource are not the schema's business.
"""

from typing import Any, Final, TypeAlias

from dra.local.crds.causes import child

Node: TypeAlias = dict[str, Any]
"""One JSONSchemaProps."""

PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
EMBEDDED: Final = "x-kubernetes-embedded-resource"
META: Final = frozenset({"apiVersion", "kind", "metadata"})


def inner(schema: Node | None, name: str) -> tuple[bool, Node | None]:
    """Return whether a schema knows a field of an object, and that field's schema (None: anything, but pruned)."""
    if schema is None:
        return False, None
    known = (schema.get("properties") or {}).get(name)
    if known is not None:
        return True, known
    others = schema.get("additionalProperties")
    if others is None or others is False:
        return False, None
    return True, others if isinstance(others, dict) else None


def prune(obj: Node, schema: Node) -> list[str]:
    """Drop the fields of a resource that its schema does not know; return their paths."""
    dropped: list[str] = []
    _prune(obj, schema | {EMBEDDED: True}, "", dropped)
    return sorted(dropped)


def _prune(value: object, schema: Node | None, path: str, dropped: list[str]) -> None:
    keep = schema is not None and schema.get(PRESERVE) is True
    if isinstance(value, dict):
        for name in list(value):
            if schema is not None and schema.get(EMBEDDED) and name in META:
                continue
            known, field = inner(schema, name)
            if known:
                _prune(value[name], field, child(path, name), dropped)
            elif not keep:
                dropped.append(child(path, name))
                del value[name]
    elif isinstance(value, list):
        items = schema.get("items") if schema is not None else None
        if keep and items is None:
            return
        for index, item in enumerate(value):
            _prune(item, {**items, PRESERVE: True} if keep and items else items, f"{path}[{index}]", dropped)


def drop_nulls(value: object, schema: Node | None) -> None:
    """Drop nulls of fields that are neither nullable nor have a default."""
    if isinstance(value, dict):
        for name in list(value):
            _, field = inner(schema, name)
            if value[name] is None and field is not None and not field.get("nullable") and field.get("default") is None:
                del value[name]
            else:
                drop_nulls(value[name], field)
    elif isinstance(value, list):
        items = schema.get("items") if schema is not None else None
        for item in value:
            drop_nulls(item, items)
