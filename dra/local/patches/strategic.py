"""Strategic merge patch: a merge patch that knows which lists are maps, and takes orders inside of the patch.

    $patch: merge | replace | delete        what to do with this object, this element, or (replace) the whole list
    $setElementOrder/LIST                   the order of the elements that the author of the patch knows
    $deleteFromPrimitiveList/LIST           values to take out of a list of scalars
    $retainKeys                             the fields of a union that stay

A list is merged if its field has the patch strategy ``merge``; elements are found by its merge key. The order of the
result is that of the patch; elements that only the server has are woven in where both were known before. What is new
has nothing to be directed: objects with a directive are not taken from it.
"""

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any, Final, TypeAlias

from dra.local.objects import Mutation, Object, encode
from dra.local.refusals import Refusal, bad_request
from dra.local.schemas.decoding import word
from dra.local.schemas.schema import Schema

DIRECTIVE: Final = "$patch"
ORDER: Final = "$setElementOrder/"
REMOVE: Final = "$deleteFromPrimitiveList/"
RETAIN: Final = "$retainKeys"

_Json: TypeAlias = Any


def mutation(patch: Object, schema: Schema) -> Mutation:
    """Return what the patch does to an object of a kind; applying it may raise `Refusal`."""
    return lambda target: _merged(target, deepcopy(patch), schema)


def checked(body: _Json) -> Object:
    """Return a patch that is an object; raises `Refusal` 400 for any other value."""
    if not isinstance(body, dict | None):
        kind = f"{word(body)} into Go value of type map[string]interface {{}}"
        raise bad_request(f"json: cannot unmarshal {kind}")
    return body or {}


def _failed(message: str) -> Refusal:
    """Return 500, which is what upstream makes of a patch that contradicts itself."""
    return Refusal(500, "", message)


def _merged(target: Object, patch: Object, schema: Schema | None) -> Object:
    directive = patch.pop(DIRECTIVE, None)
    if directive == "replace":
        return patch
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise _failed(f"unknown patch type: {printed(directive)}")
    _retain(target, patch)
    orders = _taken(patch, ORDER)
    removals = _taken(patch, REMOVE)
    for name, value in patch.items():
        if value is None:
            target.pop(name, None)
        elif name not in target:
            if (found := _new(value)) is not None:
                target[name] = found
        else:
            order = orders.pop(name, None)
            target[name] = _field(target[name], value, _at(schema, name), order, removals.pop(name, None))
    for name in [*removals, *orders]:  # lists of which the patch says nothing else
        if isinstance(found := target.get(name), list):
            target[name] = _field(found, [], _at(schema, name), orders.pop(name, None), removals.pop(name, None))
    return target


def _retain(target: Object, patch: Object) -> None:
    if RETAIN not in patch:
        return
    kept = patch.pop(RETAIN)
    if not isinstance(kept, list) or any(
        name not in kept for name, value in patch.items() if value is not None and not name.startswith("$")
    ):
        raise bad_request("invalid patch format of retainKeys")
    for name in list(target):
        if name not in kept:
            del target[name]


def _taken(patch: Object, prefix: str) -> dict[str, _Json]:
    return {name.removeprefix(prefix): patch.pop(name) for name in list(patch) if name.startswith(prefix)}


def _at(schema: Schema | None, name: str) -> Schema | None:
    if schema is None:
        return None
    return schema.fields.get(name) or schema.values


def _field(target: _Json, value: _Json, schema: Schema | None, order: _Json, removal: _Json) -> _Json:
    strategies = schema.strategies if schema is not None else frozenset()
    if isinstance(target, dict) and isinstance(value, dict):
        return value if "replace" in strategies else _merged(target, value, schema)
    if isinstance(target, list) and isinstance(value, list) and schema is not None and "merge" in strategies:
        return _merged_list(target, value, schema, order, removal)
    return _new(value)


def _merged_list(target: list[_Json], patch: list[_Json], schema: Schema, order: _Json, removal: _Json) -> list[_Json]:
    if order is not None and not isinstance(order, list):
        raise _failed(f"expected a []interface {{}}, but received a {word(order)}")
    kinds = {
        "map" if isinstance(each, dict) else "list" if isinstance(each, list) else "scalar" for each in target + patch
    }
    if len(kinds) > 1:
        raise _failed(f"list element types are not identical: {printed([target, patch])}")
    if kinds == {"list"}:
        raise _failed("lists of lists are not supported")
    if kinds == {"scalar"} or not schema.merge_key:
        return _scalars(target, patch, order, removal)
    return _maps(target, patch, schema, order)


def _scalars(target: list[_Json], patch: list[_Json], order: _Json, removal: _Json) -> list[_Json]:
    gone = removal if isinstance(removal, list) else []
    merged = list(dict.fromkeys(each for each in target + patch if each in patch or each not in gone))
    return _ordered(merged, order if isinstance(order, list) else patch, target, key=lambda each: each)


def _maps(target: list[_Json], patch: list[_Json], schema: Schema, order: _Json) -> list[_Json]:
    key = schema.merge_key
    kept, changes, replaced = list(target), [], False
    for each in patch:
        directive = each.get(DIRECTIVE)
        if directive is None:
            changes.append(each)
        elif directive == "delete":
            unwanted = _key_of(each, key)
            kept = [old for old in kept if old.get(key) != unwanted]
        elif directive == "replace":
            replaced = True
        else:
            raise _failed(f"unknown patch type: {printed(directive)} in map: {printed(each)}")
    if replaced:
        return changes
    merged = list(kept)
    for each in changes:
        name = _key_of(each, key)
        for index, old in enumerate(merged):
            if old.get(key) == name:
                merged[index] = _merged(old, each, schema.items)
                break
        else:
            merged.append(each)  # with its directives, of which decoding will warn: upstream overlooks them, too
    told = order if isinstance(order, list) else changes
    wanted = [_identity(each.get(key)) for each in told if isinstance(each, dict)]
    mine = [_identity(each.get(key)) for each in changes]
    if [each for each in wanted if each in mine] != mine:
        shown = f"{printed(changes)}\n doesn't match $setElementOrder list:\n{printed(order)}"
        raise _failed(f"The order in patch list:\n{shown}\n")
    return _ordered(merged, wanted, target, key=lambda each: _identity(each.get(key)))


def _identity(value: _Json) -> bytes:
    """Return something that tells values apart, whatever they are."""
    return encode(value)


def _key_of(each: Object, key: str) -> _Json:
    if key not in each:
        raise _failed(f"map: {printed(each)} does not contain declared merge key: {key}")
    return each[key]


def _ordered(
    merged: list[_Json], wanted: Sequence[_Json], before: list[_Json], *, key: Callable[[_Json], _Json]
) -> list[_Json]:
    """Weave the elements in the wanted order and those that only the server has: where both were known, as before."""
    ranks = {key(each): rank for rank, each in enumerate(before)}
    known = sorted((each for each in merged if key(each) in wanted), key=lambda each: wanted.index(key(each)))
    others = [each for each in merged if key(each) not in wanted]
    woven: list[_Json] = []
    while known and others:
        one, other = ranks.get(key(known[0])), ranks.get(key(others[0]))
        woven.append((others if one is not None and other is not None and other < one else known).pop(0))
    return woven + known + others


def _new(value: _Json) -> _Json:
    """Return what there was nothing of before; None for an object with a directive."""
    if isinstance(value, dict):
        if DIRECTIVE in value:
            return None
        taken = ((name, _new(each)) for name, each in value.items() if not name.startswith((ORDER, REMOVE, RETAIN)))
        return {name: each for name, each in taken if each is not None}
    if isinstance(value, list):
        return [found for each in value if (found := _new(each)) is not None]
    return value


def printed(value: _Json) -> str:
    """Return a value as Go's %v prints it: ``map[a:1 b:[x y]]``."""
    if isinstance(value, dict):
        return f"map[{' '.join(f'{name}:{printed(each)}' for name, each in sorted(value.items()))}]"
    if isinstance(value, list):
        return f"[{' '.join(printed(each) for each in value)}]"
    if value is None:
        return "<nil>"
    return str(value).lower() if isinstance(value, bool) else str(value)
