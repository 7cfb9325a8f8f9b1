"""Applies strategic merge patches: merge patches that merge lists by key and support directives.

    $patch: merge | replace | delete        how to patch this object, this element, or (replace) the whole list
    $setElementOrder/LIST                   the order of the elements that the author of the patch knows
    $deleteFromPrimitiveList/LIST           values to remove from a list of scalars
    $retainKeys                             the fields of a union to keep

A list is merged if its field has the patch strategy ``merge``; elements are matched by the merge key. The result has
the order of the patch; elements that only the server has keep their previous position relative to elements that were
present before. In a field that the object does not have yet, objects with a directive are ignored.
"""

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any, Final, TypeAlias

from localplane.objects import Mutation, Object, encode
from localplane.schemas.go_decoder import format_as_go, json_type_name
from localplane.schemas.schema import Schema
from localplane.status_errors import StatusError, bad_request

PATCH_DIRECTIVE: Final = "$patch"
SET_ELEMENT_ORDER: Final = "$setElementOrder/"
DELETE_FROM_PRIMITIVE_LIST: Final = "$deleteFromPrimitiveList/"
RETAIN_KEYS: Final = "$retainKeys"

_Json: TypeAlias = Any


def mutation(patch: Object, schema: Schema) -> Mutation:
    """Return the mutation of a patch for objects of a schema; the mutation may raise `StatusError`."""
    return lambda target: _merge_map(target, deepcopy(patch), schema)


def check_strategic_patch(body: _Json) -> Object:
    """Return a patch that is an object; raises `StatusError` 400 for any other value."""
    if not isinstance(body, dict | None):
        kind = f"{json_type_name(body)} into Go value of type map[string]interface {{}}"
        raise bad_request(f"json: cannot unmarshal {kind}")
    return body or {}


def _internal_error(message: str) -> StatusError:
    """Return 500, upstream's status for a patch that contradicts itself."""
    return StatusError(500, "", message)


def _merge_map(target: Object, patch: Object, schema: Schema | None) -> Object:
    directive = patch.pop(PATCH_DIRECTIVE, None)
    if directive == "replace":
        return patch
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise _internal_error(f"unknown patch type: {format_as_go(directive)}")
    _apply_retain_keys(target, patch)
    orders = _pop_directives(patch, SET_ELEMENT_ORDER)
    removals = _pop_directives(patch, DELETE_FROM_PRIMITIVE_LIST)
    for name, value in patch.items():
        if value is None:
            target.pop(name, None)
        elif name not in target:
            if (content := _without_directives(value)) is not None:
                target[name] = content
        else:
            order = orders.pop(name, None)
            target[name] = _merge_field(
                target[name], value, _field_schema(schema, name), order, removals.pop(name, None)
            )
    for name in [*removals, *orders]:  # lists that occur only in directives
        if isinstance(content := target.get(name), list):
            target[name] = _merge_field(
                content, [], _field_schema(schema, name), orders.pop(name, None), removals.pop(name, None)
            )
    return target


def _apply_retain_keys(target: Object, patch: Object) -> None:
    if RETAIN_KEYS not in patch:
        return
    kept = patch.pop(RETAIN_KEYS)
    if not isinstance(kept, list) or any(
        name not in kept for name, value in patch.items() if value is not None and not name.startswith("$")
    ):
        raise bad_request("invalid patch format of retainKeys")
    for name in list(target):
        if name not in kept:
            del target[name]


def _pop_directives(patch: Object, prefix: str) -> dict[str, _Json]:
    return {name.removeprefix(prefix): patch.pop(name) for name in list(patch) if name.startswith(prefix)}


def _field_schema(schema: Schema | None, name: str) -> Schema | None:
    if schema is None:
        return None
    return schema.fields.get(name) or schema.values


def _merge_field(target: _Json, value: _Json, schema: Schema | None, order: _Json, removal: _Json) -> _Json:
    strategies = schema.patch_strategies if schema is not None else frozenset()
    if isinstance(target, dict) and isinstance(value, dict):
        return value if "replace" in strategies else _merge_map(target, value, schema)
    if isinstance(target, list) and isinstance(value, list) and schema is not None and "merge" in strategies:
        return _merge_list(target, value, schema, order, removal)
    return _without_directives(value)


def _merge_list(target: list[_Json], patch: list[_Json], schema: Schema, order: _Json, removal: _Json) -> list[_Json]:
    if order is not None and not isinstance(order, list):
        raise _internal_error(f"expected a []interface {{}}, but received a {json_type_name(order)}")
    kinds = {
        "map" if isinstance(item, dict) else "list" if isinstance(item, list) else "scalar" for item in target + patch
    }
    if len(kinds) > 1:
        raise _internal_error(f"list element types are not identical: {format_as_go([target, patch])}")
    if kinds == {"list"}:
        raise _internal_error("lists of lists are not supported")
    if kinds == {"scalar"} or not schema.merge_key:
        return _merge_list_of_scalars(target, patch, order, removal)
    return _merge_list_of_maps(target, patch, schema, order)


def _merge_list_of_scalars(target: list[_Json], patch: list[_Json], order: _Json, removal: _Json) -> list[_Json]:
    gone = removal if isinstance(removal, list) else []
    merged = list(dict.fromkeys(item for item in target + patch if item in patch or item not in gone))
    return _merge_order(merged, order if isinstance(order, list) else patch, target, key=lambda item: item)


def _merge_list_of_maps(target: list[_Json], patch: list[_Json], schema: Schema, order: _Json) -> list[_Json]:
    key = schema.merge_key
    kept, changes, replaced = list(target), [], False
    for element in patch:
        directive = element.get(PATCH_DIRECTIVE)
        if directive is None:
            changes.append(element)
        elif directive == "delete":
            unwanted = _merge_key_value(element, key)
            kept = [old for old in kept if old.get(key) != unwanted]
        elif directive == "replace":
            replaced = True
        else:
            raise _internal_error(f"unknown patch type: {format_as_go(directive)} in map: {format_as_go(element)}")
    if replaced:
        return changes
    merged = list(kept)
    for element in changes:
        name = _merge_key_value(element, key)
        for index, old in enumerate(merged):
            if old.get(key) == name:
                merged[index] = _merge_map(old, element, schema.items)
                break
        else:
            merged.append(
                element
            )  # keeps its directives, about which decoding warns: upstream does not remove them either
    ordered = order if isinstance(order, list) else changes
    wanted = [_comparable(item.get(key)) for item in ordered if isinstance(item, dict)]
    mine = [_comparable(element.get(key)) for element in changes]
    if [identity for identity in wanted if identity in mine] != mine:
        shown = f"{format_as_go(changes)}\n doesn't match $setElementOrder list:\n{format_as_go(order)}"
        raise _internal_error(f"The order in patch list:\n{shown}\n")
    return _merge_order(merged, wanted, target, key=lambda item: _comparable(item.get(key)))


def _comparable(value: _Json) -> bytes:
    """Return a hashable encoding of any JSON value, to compare values."""
    return encode(value)


def _merge_key_value(element: Object, key: str) -> _Json:
    if key not in element:
        raise _internal_error(f"map: {format_as_go(element)} does not contain declared merge key: {key}")
    return element[key]


def _merge_order(
    merged: list[_Json], wanted: Sequence[_Json], before: list[_Json], *, key: Callable[[_Json], _Json]
) -> list[_Json]:
    """Merge the elements in the wanted order with elements that only the server has, which keep their old positions."""
    ranks = {key(item): rank for rank, item in enumerate(before)}
    known = sorted((item for item in merged if key(item) in wanted), key=lambda item: wanted.index(key(item)))
    others = [item for item in merged if key(item) not in wanted]
    woven: list[_Json] = []
    while known and others:
        one, other = ranks.get(key(known[0])), ranks.get(key(others[0]))
        woven.append((others if one is not None and other is not None and other < one else known).pop(0))
    return woven + known + others


def _without_directives(value: _Json) -> _Json:
    """Return a new value without directives; None for an object with a ``$patch`` directive."""
    if isinstance(value, dict):
        if PATCH_DIRECTIVE in value:
            return None
        taken = (
            (name, _without_directives(part))
            for name, part in value.items()
            if not name.startswith((SET_ELEMENT_ORDER, DELETE_FROM_PRIMITIVE_LIST, RETAIN_KEYS))
        )
        return {name: part for name, part in taken if part is not None}
    if isinstance(value, list):
        return [element for item in value if (element := _without_directives(item)) is not None]
    return value
