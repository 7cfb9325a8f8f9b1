"""Computes sets of fields, as ``managedFields`` stores the fields of a manager (fieldsV1).

A path element is ``f:name``, ``k:{"name":"a"}`` (an element of a list of type map) or ``v:"x"`` (of a set). A set is a
tree of path elements, and ``.`` in a node marks the node itself as a member, which keeps all set operations short. In
fieldsV1 a leaf is just ``{}``.
"""

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

import msgspec

from localplane.objects import encode
from localplane.schemas.schema import ElementRelationship, Schema

_Json: TypeAlias = Any

FieldSet: TypeAlias = dict[str, Any]
"""A set of field paths, as a tree of path elements."""

MEMBER_MARK: Final = "."
_UNKNOWN_SCHEMA: Final = Schema(preserve=True)


def leaf_set() -> FieldSet:
    """Return the set with only the node itself."""
    return {MEMBER_MARK: {}}


def from_fields_v1(fields: FieldSet) -> FieldSet:
    """Return the set of a fieldsV1 value."""
    return {name: {} if name == MEMBER_MARK else from_fields_v1(inner) or leaf_set() for name, inner in fields.items()}


def to_fields_v1(fields: FieldSet) -> FieldSet:
    """Return the fieldsV1 value of a set."""
    return {
        name: {} if name == MEMBER_MARK or inner == {MEMBER_MARK: {}} else to_fields_v1(inner)
        for name, inner in sorted(fields.items())
    }


def union(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return the paths that are in either set."""
    both = {name: union(one[name], other[name]) for name in one.keys() & other.keys()}
    return {**one, **other, **both}


def intersection(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return the paths that are in both sets."""
    common = {name: intersection(one[name], other[name]) for name in one if name in other}
    return {name: inner for name, inner in common.items() if inner or name == MEMBER_MARK}


def difference(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return the paths of the first set that are not in the second set."""
    rest = {
        name: difference(inner, other[name]) if name in other else inner
        for name, inner in one.items()
        if name != MEMBER_MARK or MEMBER_MARK not in other
    }
    return {name: inner for name, inner in rest.items() if inner or name == MEMBER_MARK}


def recursive_difference(one: FieldSet, removed: FieldSet) -> FieldSet:
    """Return the paths of the first set that neither are nor lie below a member of the second set."""
    rest = {}
    for name, inner in one.items():
        if name in removed:
            if name == MEMBER_MARK or MEMBER_MARK in removed[name]:
                continue
            inner = recursive_difference(inner, removed[name])  # noqa: PLW2901 - the rest of it
            if not inner:
                continue
        rest[name] = inner
    return rest


def path_texts(fields: FieldSet, prefix: str = "") -> Iterator[str]:
    """Yield the paths in the format and order of conflict messages: members of a node first, then deeper paths."""
    for name, inner in sorted(fields.items()):
        if name != MEMBER_MARK and MEMBER_MARK in inner:
            yield prefix + _path_element_text(name)
    for name, inner in sorted(fields.items()):
        if name != MEMBER_MARK:
            yield from path_texts(inner, prefix + _path_element_text(name))


def _path_element_text(element: str) -> str:
    kind, _, text = element.partition(":")
    if kind == "f":
        return f".{text}"
    if kind == "k":
        keys = msgspec.json.decode(text)
        return f"[{','.join(f'{name}={encode(value).decode()}' for name, value in sorted(keys.items()))}]"
    return f"[={text}]"


def field_schema(schema: Schema, name: str) -> Schema:
    """Return the schema of a field; a schema that preserves unknown fields if the field is not declared."""
    return schema.fields.get(name) or schema.values or _UNKNOWN_SCHEMA


def item_schema(schema: Schema) -> Schema:
    """Return the schema of a list's elements."""
    return schema.items or _UNKNOWN_SCHEMA


def is_granular(value: _Json, schema: Schema) -> bool:
    """Return whether managers own the parts of a value separately."""
    if isinstance(value, dict):
        return schema.relationship is not ElementRelationship.ATOMIC or schema.type == ""
    return (
        isinstance(value, list)
        and schema.type == "array"
        and schema.relationship in (ElementRelationship.SET, ElementRelationship.MAP)
    )


def path_element(item: _Json, schema: Schema) -> str:
    """Return the path element of an item in a list of type set or map."""
    if schema.relationship is ElementRelationship.SET or not isinstance(item, dict):
        return f"v:{encode(item).decode()}"
    inner = item_schema(schema)
    keys = {}
    for name in sorted(schema.list_map_keys):
        value = item.get(name)
        if value is None:
            value = field_schema(inner, name).default
        if value is not None:
            keys[name] = value
    return f"k:{encode(keys).decode()}"


def applied_fields(value: _Json, schema: Schema) -> FieldSet:
    """Return the paths of an applied value; an empty list of type set or map has none."""
    return _fields_of(value, schema, containers=False)


def added_fields(value: _Json, schema: Schema) -> FieldSet:
    """Return the paths of an added value, including the paths of its objects and lists themselves."""
    return _fields_of(value, schema, containers=True)


def _fields_of(value: _Json, schema: Schema, *, containers: bool) -> FieldSet:
    if not is_granular(value, schema) or value == {}:
        return leaf_set()
    fields: FieldSet = leaf_set() if containers else {}
    if isinstance(value, dict):
        for name, part in value.items():
            field = field_schema(schema, name)
            inner = _fields_of(part, field, containers=containers or (schema is _UNKNOWN_SCHEMA or schema.preserve))
            if inner:
                fields[f"f:{name}"] = inner
        return fields
    for item in value:
        inner = leaf_set()
        if schema.relationship is ElementRelationship.MAP and isinstance(item, dict):
            inner |= _fields_of(item, item_schema(schema), containers=containers)
        fields[path_element(item, schema)] = inner
    return fields


def compare_fields(old: _Json, new: _Json, schema: Schema) -> tuple[FieldSet, FieldSet]:
    """Return the paths of changed or added values, and the paths of removed values."""
    if old == new:
        return {}, {}
    if not (is_granular(old, schema) and is_granular(new, schema) and isinstance(old, dict) == isinstance(new, dict)):
        return leaf_set() | (_fields_of(new, schema, containers=True) if is_granular(new, schema) else {}), {}
    changed: FieldSet = {}
    removed: FieldSet = {}
    before, after = _path_elements(old, schema), _path_elements(new, schema)
    for name, (value, inner) in after.items():
        if name not in before:
            changed[name] = (
                (leaf_set() | added_fields(value, inner)) if not name.startswith("f:") else added_fields(value, inner)
            )
            continue
        deeper, gone = compare_fields(before[name][0], value, inner)
        if deeper:
            changed[name] = deeper
        if gone:
            removed[name] = gone
    for name in before.keys() - after.keys():
        removed[name] = leaf_set()
    return changed, removed


def _path_elements(value: _Json, schema: Schema) -> dict[str, tuple[_Json, Schema]]:
    if isinstance(value, dict):
        return {f"f:{name}": (part, field_schema(schema, name)) for name, part in value.items()}
    if schema.relationship is ElementRelationship.SET:
        return {path_element(item, schema): (item, _STRING_SCHEMA) for item in value}
    return {path_element(item, schema): (item, item_schema(schema)) for item in value}


_STRING_SCHEMA: Final = Schema(type="string")
