"""Checks ``x-kubernetes-list-type``: entries of sets and of maps must be unique.

Only the new object is checked; on an update, the caller skips the check if the old object was invalid.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from localplane.crds.pruning import JsonSchemaProps, field_schema
from localplane.crds.schema_errors import child_path
from localplane.kinds.field_errors import duplicate, invalid
from localplane.objects import encode
from localplane.status_errors import FieldError

LIST_TYPE: Final = "x-kubernetes-list-type"
LIST_MAP_KEYS: Final = "x-kubernetes-list-map-keys"


def check_list_types(value: object, schema: JsonSchemaProps | None, path: str = "") -> Iterator[FieldError]:
    """Yield an error for each duplicate entry."""
    if schema is None:
        return
    if isinstance(value, dict):
        properties = schema.get("properties") or {}
        for name, field in value.items():
            yield from check_list_types(
                field,
                field_schema(schema, name)[1],
                child_path(path, name) if name in properties else f"{path}[{name}]",
            )
    elif isinstance(value, list):
        if schema.get(LIST_TYPE) == "set":
            yield from (duplicate(f"{path}[{index}]", value[index]) for index in _duplicate_indexes(value))
        elif schema.get(LIST_TYPE) == "map":
            yield from _check_list_map(value, schema, path)
        for index, item in enumerate(value):
            yield from check_list_types(item, schema.get("items"), f"{path}[{index}]")


def map_key(item: object, schema: JsonSchemaProps) -> JsonSchemaProps:
    """Return the key fields of an entry in a list of type map."""
    names: list[str] = schema.get(LIST_MAP_KEYS) or []
    return {name: item[name] for name in names if name in item} if isinstance(item, dict) else {}


def _check_list_map(value: list[Any], schema: JsonSchemaProps, path: str) -> Iterator[FieldError]:
    for index, item in enumerate(value):
        if item is not None and not isinstance(item, dict):
            yield invalid(f"{path}[{index}]", item, "must be an object for an array of list-type map")
            return
    keys = [map_key(item, schema) for item in value]
    yield from (duplicate(f"{path}[{index}]", keys[index]) for index in _duplicate_indexes(keys))


def _duplicate_indexes(values: Iterable[Any]) -> Iterator[int]:
    """Yield the index of each value's second occurrence."""
    seen: dict[bytes, int] = {}
    for index, value in enumerate(values):
        text = encode(dict(sorted(value.items())) if isinstance(value, dict) else value)
        seen[text] = seen.get(text, 0) + 1
        if seen[text] == 2:  # noqa: PLR2004 - the second of them, once
            yield index
