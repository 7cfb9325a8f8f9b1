"""Applies JSON patches (RFC 6902): operations in order, all or nothing."""

from collections.abc import Callable
from copy import deepcopy
from functools import partial
from typing import Any, Final, TypeAlias

import msgspec

from localplane import status_errors
from localplane.objects import Mutation, Object
from localplane.schemas.go_decoder import json_type_name
from localplane.status_errors import StatusError

MAX_OPERATIONS: Final = 10_000
"""Maximum number of operations in one patch, as upstream."""

_Json: TypeAlias = Any
_Pointer: TypeAlias = list[str]


class _Operation(msgspec.Struct, frozen=True):
    op: str
    path: str
    source: str | None = msgspec.field(name="from", default=None)
    value: _Json = msgspec.UNSET


class _OperationError(Exception):
    """The error of an operation that cannot be applied."""


def mutation(patch: _Json) -> Mutation:
    """Return the mutation of a patch; raises `StatusError` 400 for a malformed patch and 413 for a too long one."""
    if not isinstance(patch, list):
        what = f"json: cannot unmarshal {json_type_name(patch)} into Go value of type []handlers.jsonPatchOp"
        raise status_errors.bad_request(f"error decoding patch: {what}")
    try:
        operations = msgspec.convert(patch, list[_Operation])
    except msgspec.ValidationError as error:
        raise status_errors.bad_request(f"json patch: {error}") from None
    if len(operations) > MAX_OPERATIONS:
        message = f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(operations)}"
        raise StatusError(413, "RequestEntityTooLarge", message)
    return partial(_apply_operations, operations)


def _apply_operations(operations: list[_Operation], obj: Object) -> Object:
    holder: Object = {"": obj}  # lets an operation replace the object itself
    try:
        for operation in operations:
            _OPERATIONS.get(operation.op, _unknown_operation)(holder, operation)
    except _OperationError:
        raise status_errors.request_rejected() from None
    if not isinstance(holder[""], dict):
        raise status_errors.request_rejected()
    return holder[""]


def _add(holder: Object, operation: _Operation) -> None:
    _insert_at(holder, _parse_pointer(operation.path), _operation_value(operation))


def _remove(holder: Object, operation: _Operation) -> None:
    _remove_at(holder, _parse_pointer(operation.path))


def _replace(holder: Object, operation: _Operation) -> None:
    parent, key = _resolve_parent(holder, _parse_pointer(operation.path))
    _get_child(parent, key)
    if isinstance(parent, list):
        parent[_parse_index(parent, key)] = _operation_value(operation)
    else:
        parent[key] = _operation_value(operation)


def _move(holder: Object, operation: _Operation) -> None:
    source, target = _source_pointer(operation), _parse_pointer(operation.path)
    if target[: len(source)] == source and len(target) > len(source):
        raise _OperationError("a value cannot be moved into itself")
    _insert_at(holder, target, _remove_at(holder, source))


def _copy(holder: Object, operation: _Operation) -> None:
    _insert_at(
        holder,
        _parse_pointer(operation.path),
        deepcopy(_get_child(*_resolve_parent(holder, _source_pointer(operation)))),
    )


def _test(holder: Object, operation: _Operation) -> None:
    wanted = None if operation.value is msgspec.UNSET else operation.value
    try:
        actual = _get_child(*_resolve_parent(holder, _parse_pointer(operation.path)))
    except _OperationError:
        if wanted is None:  # upstream treats a missing value as null
            return
        raise
    if not json_equals(actual, wanted):
        raise _OperationError("test failed")


def _unknown_operation(_: Object, operation: _Operation) -> None:
    raise _OperationError(operation.op)


_OPERATIONS: Final[dict[str, Callable[[Object, _Operation], None]]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "copy": _copy,
    "test": _test,
}


def json_equals(one: _Json, other: _Json) -> bool:
    """Return whether two values are equal as JSON: true is not 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(json_equals(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(json_equals, one, other))
    return bool(one == other)


def _operation_value(operation: _Operation) -> _Json:
    if operation.value is msgspec.UNSET:
        raise _OperationError("no value")
    return operation.value


def _source_pointer(operation: _Operation) -> _Pointer:
    if operation.source is None:
        raise _OperationError("no from")
    return _parse_pointer(operation.source)


def _parse_pointer(text: str) -> _Pointer:
    """Return the parts of a JSON pointer (RFC 6901), relative to the holder of the object."""
    if text and not text.startswith("/"):
        raise _OperationError(text)
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")]


def _resolve_parent(holder: Object, pointer: _Pointer) -> tuple[_Json, str]:
    """Return the parent of the value that a pointer refers to, and the value's key in the parent."""
    parent: _Json = holder
    for key in pointer[:-1]:
        parent = _get_child(parent, key)
    return parent, pointer[-1]


def _get_child(parent: _Json, key: str) -> _Json:
    if isinstance(parent, list):
        return parent[_parse_index(parent, key)]
    if isinstance(parent, dict) and key in parent:
        return parent[key]
    raise _OperationError(key)


def _insert_at(holder: Object, pointer: _Pointer, value: _Json) -> None:
    parent, key = _resolve_parent(holder, pointer)
    if isinstance(parent, list):
        parent.insert(len(parent) if key == "-" else _parse_index(parent, key, last=len(parent)), value)
    elif isinstance(parent, dict):
        parent[key] = value
    else:
        raise _OperationError(key)


def _remove_at(holder: Object, pointer: _Pointer) -> _Json:
    parent, key = _resolve_parent(holder, pointer)
    removed = _get_child(parent, key)
    if isinstance(parent, list):
        del parent[_parse_index(parent, key)]
    else:
        del parent[key]
    return removed


def _parse_index(values: list[_Json], key: str, *, last: int | None = None) -> int:
    if not key.isdecimal() or (len(key) > 1 and key[0] == "0") or len(key) > 9:  # noqa: PLR2004 - no list is longer
        raise _OperationError(key)
    index = int(key)
    if index > (len(values) - 1 if last is None else last):
        raise _OperationError(key)
    return index
