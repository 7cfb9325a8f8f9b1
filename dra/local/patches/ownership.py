"""Which fields a manager owns: sets of paths, as ``managedFields`` keeps them (fieldsV1).

A path element is ``f:name``, ``k:{"name":"a"}`` (an element of a list that is a map) or ``v:"x"`` (of a set). Inside a
set is a tree of elements, and ``.`` in a node says that the node itself is a member; so all operations are the same
few lines. In fieldsV1 a leaf is just ``{}``.
"""

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

import msgspec

from dra.local.objects import encode
from dra.local.schemas.schema import Collection, Schema

_Json: TypeAlias = Any

Fields: TypeAlias = dict[str, Any]
"""A tree of path elements."""

MEMBER: Final = "."
_UNTYPED: Final = Schema(preserve=True)


def leaf() -> Fields:
    """Return the set of the path that leads here."""
    return {MEMBER: {}}


def read(fields: Fields) -> Fields:
    """Return the set that fieldsV1 writes."""
    return {name: {} if name == MEMBER else read(inner) or leaf() for name, inner in fields.items()}


def written(fields: Fields) -> Fields:
    """Return fieldsV1 of a set."""
    return {
        name: {} if name == MEMBER or inner == {MEMBER: {}} else written(inner)
        for name, inner in sorted(fields.items())
    }


def union(one: Fields, other: Fields) -> Fields:
    """Return the paths of either."""
    both = {name: union(one[name], other[name]) for name in one.keys() & other.keys()}
    return {**one, **other, **both}


def intersection(one: Fields, other: Fields) -> Fields:
    """Return the paths of both."""
    found = {name: intersection(one[name], other[name]) for name in one if name in other}
    return {name: inner for name, inner in found.items() if inner or name == MEMBER}


def difference(one: Fields, other: Fields) -> Fields:
    """Return the paths of one that are not those of the other."""
    found = {
        name: difference(inner, other[name]) if name in other else inner
        for name, inner in one.items()
        if name != MEMBER or MEMBER not in other
    }
    return {name: inner for name, inner in found.items() if inner or name == MEMBER}


def without(one: Fields, gone: Fields) -> Fields:
    """Return the paths of one that do not lead to, or beyond, a member of the other."""
    found = {}
    for name, inner in one.items():
        if name in gone:
            if name == MEMBER or MEMBER in gone[name]:
                continue
            inner = without(inner, gone[name])  # noqa: PLW2901 - the rest of it
            if not inner:
                continue
        found[name] = inner
    return found


def paths(fields: Fields, prefix: str = "") -> Iterator[str]:
    """Yield the paths as conflicts show them: the members of a node, then what lies deeper."""
    for name, inner in sorted(fields.items()):
        if name != MEMBER and MEMBER in inner:
            yield prefix + _shown(name)
    for name, inner in sorted(fields.items()):
        if name != MEMBER:
            yield from paths(inner, prefix + _shown(name))


def _shown(element: str) -> str:
    kind, _, text = element.partition(":")
    if kind == "f":
        return f".{text}"
    if kind == "k":
        keys = msgspec.json.decode(text)
        return f"[{','.join(f'{name}={encode(value).decode()}' for name, value in sorted(keys.items()))}]"
    return f"[={text}]"


def child(schema: Schema, name: str) -> Schema:
    """Return the schema of a field; of unknown structure where nothing is known."""
    return schema.fields.get(name) or schema.values or _UNTYPED


def items(schema: Schema) -> Schema:
    """Return the schema of the elements of a list."""
    return schema.items or _UNTYPED


def granular(value: _Json, schema: Schema) -> bool:
    """Whether the parts of a value are owned one by one."""
    if isinstance(value, dict):
        return schema.collection is not Collection.ATOMIC or schema.type == ""
    return isinstance(value, list) and schema.type == "array" and schema.collection in (Collection.SET, Collection.MAP)


def element(item: _Json, schema: Schema) -> str:
    """Return the path element of an element of a list that is a set or a map."""
    if schema.collection is Collection.SET or not isinstance(item, dict):
        return f"v:{encode(item).decode()}"
    inner = items(schema)
    keys = {}
    for name in sorted(schema.keys):
        value = item.get(name)
        if value is None:
            value = child(inner, name).default
        if value is not None:
            keys[name] = value
    return f"k:{encode(keys).decode()}"


def of(value: _Json, schema: Schema) -> Fields:
    """Return the paths of a value that is applied; of a list without elements, none."""
    return _of(value, schema, containers=False)


def added(value: _Json, schema: Schema) -> Fields:
    """Return the paths of a value that was not there before: also those of what it is in."""
    return _of(value, schema, containers=True)


def _of(value: _Json, schema: Schema, *, containers: bool) -> Fields:
    if not granular(value, schema) or value == {}:
        return leaf()
    found: Fields = leaf() if containers else {}
    if isinstance(value, dict):
        for name, each in value.items():
            field = child(schema, name)
            inner = _of(each, field, containers=containers or (schema is _UNTYPED or schema.preserve))
            if inner:
                found[f"f:{name}"] = inner
        return found
    for each in value:
        inner = leaf()
        if schema.collection is Collection.MAP and isinstance(each, dict):
            inner |= _of(each, items(schema), containers=containers)
        found[element(each, schema)] = inner
    return found


def changes(old: _Json, new: _Json, schema: Schema) -> tuple[Fields, Fields]:
    """Return the paths whose values differ or are new, and those that are gone."""
    if old == new:
        return {}, {}
    if not (granular(old, schema) and granular(new, schema) and isinstance(old, dict) == isinstance(new, dict)):
        return leaf() | (_of(new, schema, containers=True) if granular(new, schema) else {}), {}
    changed: Fields = {}
    removed: Fields = {}
    before, after = _parts(old, schema), _parts(new, schema)
    for name, (value, inner) in after.items():
        if name not in before:
            changed[name] = (leaf() | added(value, inner)) if not name.startswith("f:") else added(value, inner)
            continue
        deeper, gone = changes(before[name][0], value, inner)
        if deeper:
            changed[name] = deeper
        if gone:
            removed[name] = gone
    for name in before.keys() - after.keys():
        removed[name] = leaf()
    return changed, removed


def _parts(value: _Json, schema: Schema) -> dict[str, tuple[_Json, Schema]]:
    if isinstance(value, dict):
        return {f"f:{name}": (each, child(schema, name)) for name, each in value.items()}
    if schema.collection is Collection.SET:
        return {element(each, schema): (each, _SCALAR) for each in value}
    return {element(each, schema): (each, items(schema)) for each in value}


_SCALAR: Final = Schema(type="string")
