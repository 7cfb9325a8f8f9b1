"""The part of kubectl's JSONPath that printer columns use: ``.status.conditions[?(@.type=="Ready")].status``.

Fields, quoted fields, indexes, slices, wildcards and filters that compare one field with a literal.
"""

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final, TypeAlias

import msgspec

Step: TypeAlias = Callable[[Any], Iterator[Any]]

_STEP: Final = re.compile(
    r"""\.(?P<deep>\.)?(?P<field>(?:\\.|[^.\[\]\\*])+)
      | \.?\[?(?P<all>\*)\]?
      | \[\s*(?P<quote>['"])(?P<quoted>.*?)(?P=quote)\s*\]
      | \[\s*(?P<index>-?\d+)\s*\]
      | \[\s*(?P<start>-?\d*)\s*:\s*(?P<stop>-?\d*)\s*\]
      | \[\?\(\s*@(?P<path>[^=!<>]*?)\s*(?:(?P<operator>==|!=|<=|>=|<|>)\s*(?P<literal>.+?)\s*)?\)\]""",
    re.VERBOSE,
)

_COMPARE: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": lambda one, other: bool(one == other),
    "!=": lambda one, other: bool(one != other),
    "<": lambda one, other: bool(one < other),
    "<=": lambda one, other: bool(one <= other),
    ">": lambda one, other: bool(one > other),
    ">=": lambda one, other: bool(one >= other),
}


class InvalidPathError(ValueError):
    """A path that cannot be understood."""


@lru_cache(maxsize=1024)
def parse(path: str) -> tuple[Step, ...]:
    """Return the steps of a path; raises `InvalidPathError`."""
    text = path.strip().removeprefix("{").removesuffix("}").removeprefix("$")
    if text and text[0] not in ".[":
        text = f".{text}"
    steps, position = [], 0
    while position < len(text):
        if text[position:] == ".":
            break
        found = _STEP.match(text, position)
        if found is None or found.end() == position:
            raise InvalidPathError(f"{path}: cannot be understood from {text[position:]!r} on")
        steps.append(_step(found))
        position = found.end()
    return tuple(steps)


def values(path: str, value: Any) -> list[Any]:  # noqa: ANN401 - JSON
    """Return what a path leads to."""
    found = [value]
    for step in parse(path):
        found = [inner for outer in found for inner in step(outer)]
    return found


def _step(found: re.Match[str]) -> Step:
    if (name := found["field"] if found["field"] is not None else found["quoted"]) is not None:
        plain = re.sub(r"\\(.)", r"\1", name)
        return (lambda value: _everywhere(value, plain)) if found["deep"] else (lambda value: _field(value, plain))
    if found["all"]:
        return _all
    if found["index"] is not None:
        index = int(found["index"])
        return lambda value: iter([value[index]] if isinstance(value, list) and _within(value, index) else ())
    if found["start"] is not None:
        start, stop = (int(text) if text else None for text in (found["start"], found["stop"]))
        return lambda value: iter(value[start:stop] if isinstance(value, list) else ())
    return _filter(found["path"], found["operator"], found["literal"])


def _filter(path: str, operator: str | None, literal: str | None) -> Step:
    parse(path)
    if operator is None or literal is None:
        return lambda value: (each for each in _all(value) if values(path, each))
    wanted, compare = _literal(literal), _COMPARE[operator]

    def holds(item: Any) -> bool:  # noqa: ANN401 - JSON
        try:
            return any(compare(each, wanted) for each in values(path, item))
        except TypeError:
            return False

    return lambda value: (each for each in _all(value) if holds(each))


def _literal(text: str) -> Any:  # noqa: ANN401 - JSON
    if text[0] == text[-1] == "'" and len(text) > 1:
        return text[1:-1]
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise InvalidPathError(f"{text}: no literal") from error


def _field(value: Any, name: str) -> Iterator[Any]:  # noqa: ANN401 - JSON
    if isinstance(value, dict) and name in value:
        yield value[name]


def _all(value: Any) -> Iterator[Any]:  # noqa: ANN401 - JSON
    if isinstance(value, list):
        yield from value
    elif isinstance(value, dict):
        yield from value.values()


def _everywhere(value: Any, name: str) -> Iterator[Any]:  # noqa: ANN401 - JSON
    yield from _field(value, name)
    for each in _all(value):
        yield from _everywhere(each, name)


def _within(value: list[Any], index: int) -> bool:
    return -len(value) <= index < len(value)
