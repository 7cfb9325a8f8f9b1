"""Lists that are sets, and lists that are maps: no entry twice.

On updates it is the caller who lets old sins pass: what is checked is the new object alone.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from dra.local.crds.causes import child
from dra.local.crds.pruning import Node, inner
from dra.local.kinds.causes import duplicate, invalid
from dra.local.objects import encode
from dra.local.refusals import Cause

TYPE: Final = "x-kubernetes-list-type"
KEYS: Final = "x-kubernetes-list-map-keys"


def check(value: object, schema: Node | None, path: str = "") -> Iterator[Cause]:
    """Yield the entries that are there more than once."""
    if schema is None:
        return
    if isinstance(value, dict):
        properties = schema.get("properties") or {}
        for name, field in value.items():
            yield from check(
                field, inner(schema, name)[1], child(path, name) if name in properties else f"{path}[{name}]"
            )
    elif isinstance(value, list):
        if schema.get(TYPE) == "set":
            yield from (duplicate(f"{path}[{index}]", value[index]) for index in _repeated(value))
        elif schema.get(TYPE) == "map":
            yield from _check_map(value, schema, path)
        for index, item in enumerate(value):
            yield from check(item, schema.get("items"), f"{path}[{index}]")


def key_of(item: object, schema: Node) -> Node:
    """Return the fields of an entry by which it is told from the others."""
    names: list[str] = schema.get(KEYS) or []
    return {name: item[name] for name in names if name in item} if isinstance(item, dict) else {}


def _check_map(value: list[Any], schema: Node, path: str) -> Iterator[Cause]:
    for index, item in enumerate(value):
        if item is not None and not isinstance(item, dict):
            yield invalid(f"{path}[{index}]", item, "must be an object for an array of list-type map")
            return
    keys = [key_of(item, schema) for item in value]
    yield from (duplicate(f"{path}[{index}]", keys[index]) for index in _repeated(keys))


def _repeated(values: Iterable[Any]) -> Iterator[int]:
    """Yield where a value is found for the second time."""
    seen: dict[bytes, int] = {}
    for index, value in enumerate(values):
        text = encode(dict(sorted(value.items())) if isinstance(value, dict) else value)
        seen[text] = seen.get(text, 0) + 1
        if seen[text] == 2:  # noqa: PLR2004 - the second of them, once
            yield index
