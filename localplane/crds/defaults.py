"""Applies the defaults of a schema: to requests, and to reads without writing the object."""

from copy import deepcopy

from localplane.crds.pruning import JsonSchemaProps, field_schema


def apply_defaults(value: object, schema: JsonSchemaProps | None) -> None:
    """Set the defaults of a schema, including defaults inside of default values."""
    if schema is None:
        return
    if isinstance(value, dict):
        for name, field in (schema.get("properties") or {}).items():
            if field.get("default") is not None and (name not in value or _is_unset(value[name], field)):
                value[name] = deepcopy(field["default"])
        for name in value:
            _, field = field_schema(schema, name)
            if _is_unset(value[name], field) and name not in (schema.get("properties") or {}):
                value[name] = deepcopy(field["default"]) if field and "default" in field else None
            apply_defaults(value[name], field)
    elif isinstance(value, list):
        items = schema.get("items")
        for index, item in enumerate(value):
            if _is_unset(item, items):
                value[index] = deepcopy(items["default"]) if items and "default" in items else None
            apply_defaults(value[index], items)


def has_defaults(schema: JsonSchemaProps | None) -> bool:
    """Return whether a schema or any nested schema has a default."""
    if not isinstance(schema, dict):
        return False
    if schema.get("default") is not None:
        return True
    fields = (*(schema.get("properties") or {}).values(), schema.get("items"), schema.get("additionalProperties"))
    return any(has_defaults(field) for field in fields)


def _is_unset(value: object, schema: JsonSchemaProps | None) -> bool:
    return value is None and schema is not None and not schema.get("nullable")
