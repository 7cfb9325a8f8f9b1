"""Evaluates the part of kubectl's JSONPath that printer columns use: ``.status.conditions[?(@.type=="Ready")].status``.

Supported are fields, quoted fields, indexes, slices, wildcards and filters that compare one field with a literal.
"""

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final, TypeAlias

import msgspec

PathStep: TypeAlias = Callable[[Any], Iterator[Any]]

_STEP_PATTERN: Final = re.compile(
    r"""\.(?P<deep>\.)?(?P<field>(?:\\.|[^.\[\]\\*])+)
      | \.?\[?(?P<all>\*)\]?
      | \[\s*(?P<quote>['"])(?P<quoted>.*?)(?P=quote)\s*\]
      | \[\s*(?P<index>-?\d+)\s*\]
      | \[\s*(?P<start>-?\d*)\s*:\s*(?P<stop>-?\d*)\s*\]
      | \[\?\(\s*@(?P<path>[^=!<>]*?)\s*(?:(?P<operator>==|!=|<=|>=|<|>)\s*(?P<literal>.+?)\s*)?\)\]""",
    re.VERBOSE,
)

_COMPARISONS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": lambda one, other: bool(one == other),
    "!=": lambda one, other: bool(one != other),
    "<": lambda one, other: bool(one < other),
    "<=": lambda one, other: bool(one <= other),
    ">": lambda one, other: bool(one > other),
    ">=": lambda one, other: bool(one >= other),
}


class InvalidJsonPathError(ValueError):
    """The error of a path that cannot be parsed."""


@lru_cache(maxsize=1024)
def parse_path(path: str) -> tuple[PathStep, ...]:
    """Return the steps of a path; raises `InvalidJsonPathError`."""
    text = path.strip().removeprefix("{").removesuffix("}").removeprefix("$")
    if text and text[0] not in ".[":
        text = f".{text}"
    steps, position = [], 0
    while position < len(text):
        if text[position:] == ".":
            break
        match = _STEP_PATTERN.match(text, position)
        if match is None or match.end() == position:
            raise InvalidJsonPathError(f"{path}: cannot be understood from {text[position:]!r} on")
        steps.append(_compile_step(match))
        position = match.end()
    return tuple(steps)


def find_values(path: str, value: Any) -> list[Any]:  # noqa: ANN401 - JSON
    """Return the values that a path selects."""
    values = [value]
    for step in parse_path(path):
        values = [inner for outer in values for inner in step(outer)]
    return values


def _compile_step(match: re.Match[str]) -> PathStep:
    if (name := match["field"] if match["field"] is not None else match["quoted"]) is not None:
        plain = re.sub(r"\\(.)", r"\1", name)
        return (
            (lambda value: _recursive_values(value, plain))
            if match["deep"]
            else (lambda value: _field_values(value, plain))
        )
    if match["all"]:
        return _all_values
    if match["index"] is not None:
        index = int(match["index"])
        return lambda value: iter([value[index]] if isinstance(value, list) and _is_valid_index(value, index) else ())
    if match["start"] is not None:
        start, stop = (int(text) if text else None for text in (match["start"], match["stop"]))
        return lambda value: iter(value[start:stop] if isinstance(value, list) else ())
    return _compile_filter(match["path"], match["operator"], match["literal"])


def _compile_filter(path: str, operator: str | None, literal: str | None) -> PathStep:
    parse_path(path)
    if operator is None or literal is None:
        return lambda value: (item for item in _all_values(value) if find_values(path, item))
    wanted, compare = _parse_literal(literal), _COMPARISONS[operator]

    def holds(item: Any) -> bool:  # noqa: ANN401 - JSON
        try:
            return any(compare(value, wanted) for value in find_values(path, item))
        except TypeError:
            return False

    return lambda value: (item for item in _all_values(value) if holds(item))


def _parse_literal(text: str) -> Any:  # noqa: ANN401 - JSON
    if text[0] == text[-1] == "'" and len(text) > 1:
        return text[1:-1]
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise InvalidJsonPathError(f"{text}: no literal") from error


def _field_values(value: Any, name: str) -> Iterator[Any]:  # noqa: ANN401 - JSON
    if isinstance(value, dict) and name in value:
        yield value[name]


def _all_values(value: Any) -> Iterator[Any]:  # noqa: ANN401 - JSON
    if isinstance(value, list):
        yield from value
    elif isinstance(value, dict):
        yield from value.values()


def _recursive_values(value: Any, name: str) -> Iterator[Any]:  # noqa: ANN401 - JSON
    yield from _field_values(value, name)
    for inner in _all_values(value):
        yield from _recursive_values(inner, name)


def _is_valid_index(value: list[Any], index: int) -> bool:
    return -len(value) <= index < len(value)
