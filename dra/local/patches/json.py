"""JSON patch (RFC 6902): operations one after the other, all or nothing."""

from collections.abc import Callable
from copy import deepcopy
from functools import partial
from typing import Any, Final, TypeAlias

import msgspec

from dra.local import refusals
from dra.local.objects import Mutation, Object
from dra.local.refusals import Refusal
from dra.local.schemas.decoding import word

LIMIT: Final = 10_000
"""Operations in one patch, as upstream."""

_Json: TypeAlias = Any
_Pointer: TypeAlias = list[str]


class _Operation(msgspec.Struct, frozen=True):
    op: str
    path: str
    source: str | None = msgspec.field(name="from", default=None)
    value: _Json = msgspec.UNSET


class _Fault(Exception):  # noqa: N818 - becomes a refusal, which does not say what it was
    """An operation that cannot be done."""


def mutation(patch: _Json) -> Mutation:
    """Return what the patch does to an object; raises `Refusal` 400 and 413 for a patch that is none."""
    if not isinstance(patch, list):
        what = f"json: cannot unmarshal {word(patch)} into Go value of type []handlers.jsonPatchOp"
        raise refusals.bad_request(f"error decoding patch: {what}")
    try:
        operations = msgspec.convert(patch, list[_Operation])
    except msgspec.ValidationError as error:
        raise refusals.bad_request(f"json patch: {error}") from None
    if len(operations) > LIMIT:
        message = f"The allowed maximum operations in a JSON patch is {LIMIT}, got {len(operations)}"
        raise Refusal(413, "RequestEntityTooLarge", message)
    return partial(_patched, operations)


def _patched(operations: list[_Operation], obj: Object) -> Object:
    holder: Object = {"": obj}  # so that the object itself can be replaced
    try:
        for operation in operations:
            _OPERATIONS.get(operation.op, _unknown)(holder, operation)
    except _Fault:
        raise refusals.rejected() from None
    if not isinstance(holder[""], dict):
        raise refusals.rejected()
    return holder[""]


def _add(holder: Object, operation: _Operation) -> None:
    _insert(holder, _pointer(operation.path), _value(operation))


def _remove(holder: Object, operation: _Operation) -> None:
    _take(holder, _pointer(operation.path))


def _replace(holder: Object, operation: _Operation) -> None:
    parent, key = _place(holder, _pointer(operation.path))
    _get(parent, key)
    if isinstance(parent, list):
        parent[_index(parent, key)] = _value(operation)
    else:
        parent[key] = _value(operation)


def _move(holder: Object, operation: _Operation) -> None:
    source, target = _source(operation), _pointer(operation.path)
    if target[: len(source)] == source and len(target) > len(source):
        raise _Fault("a value cannot be moved into itself")
    _insert(holder, target, _take(holder, source))


def _copy(holder: Object, operation: _Operation) -> None:
    _insert(holder, _pointer(operation.path), deepcopy(_get(*_place(holder, _source(operation)))))


def _test(holder: Object, operation: _Operation) -> None:
    wanted = None if operation.value is msgspec.UNSET else operation.value
    try:
        found = _get(*_place(holder, _pointer(operation.path)))
    except _Fault:
        if wanted is None:  # upstream takes what is missing for null
            return
        raise
    if not same(found, wanted):
        raise _Fault("test failed")


def _unknown(_: Object, operation: _Operation) -> None:
    raise _Fault(operation.op)


_OPERATIONS: Final[dict[str, Callable[[Object, _Operation], None]]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "copy": _copy,
    "test": _test,
}


def same(one: _Json, other: _Json) -> bool:
    """Whether two values are equal as JSON, where true is not 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def _value(operation: _Operation) -> _Json:
    if operation.value is msgspec.UNSET:
        raise _Fault("no value")
    return operation.value


def _source(operation: _Operation) -> _Pointer:
    if operation.source is None:
        raise _Fault("no from")
    return _pointer(operation.source)


def _pointer(text: str) -> _Pointer:
    """Return the parts of a JSON pointer (RFC 6901), below the holder."""
    if text and not text.startswith("/"):
        raise _Fault(text)
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")]


def _place(holder: Object, pointer: _Pointer) -> tuple[_Json, str]:
    """Return what holds the value that a pointer names, and the key there."""
    parent: _Json = holder
    for key in pointer[:-1]:
        parent = _get(parent, key)
    return parent, pointer[-1]


def _get(parent: _Json, key: str) -> _Json:
    if isinstance(parent, list):
        return parent[_index(parent, key)]
    if isinstance(parent, dict) and key in parent:
        return parent[key]
    raise _Fault(key)


def _insert(holder: Object, pointer: _Pointer, value: _Json) -> None:
    parent, key = _place(holder, pointer)
    if isinstance(parent, list):
        parent.insert(len(parent) if key == "-" else _index(parent, key, last=len(parent)), value)
    elif isinstance(parent, dict):
        parent[key] = value
    else:
        raise _Fault(key)


def _take(holder: Object, pointer: _Pointer) -> _Json:
    parent, key = _place(holder, pointer)
    found = _get(parent, key)
    if isinstance(parent, list):
        del parent[_index(parent, key)]
    else:
        del parent[key]
    return found


def _index(values: list[_Json], key: str, *, last: int | None = None) -> int:
    if not key.isdecimal() or (len(key) > 1 and key[0] == "0") or len(key) > 9:  # noqa: PLR2004 - no list is longer
        raise _Fault(key)
    index = int(key)
    if index > (len(values) - 1 if last is None else last):
        raise _Fault(key)
    return index
