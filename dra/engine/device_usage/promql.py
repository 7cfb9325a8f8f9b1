"""Selectors of PromQL from names that users choose: a name selects what has that name, and nothing else."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

NAMES_BYTES_MAX: Final = 2_000
"""Maximum number of bytes of the names in one selector. A query has a selector twice, and its URL must stay below the
8 KiB that proxies take."""

_LABEL_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_ESCAPES: Final = {"\\": "\\\\", '"': '\\"', "\n": "\\n"}
_OPERATORS: Final = frozenset("\\.+*?()|[]{}^$")


class MalformedLabelError(ValueError):
    """A label is none of Prometheus."""


def selector(labels: Mapping[str, str], *, any_of: Mapping[str, Collection[str]]) -> str:
    """Return a selector of the series that have all labels, and for each name in ``any_of`` one of the values.

    Raises MalformedLabelError.
    """
    matchers = [f"{_label_name(name)}={_quoted(value)}" for name, value in labels.items()]
    matchers += [_matcher(_label_name(name), values) for name, values in any_of.items()]
    return "{" + ",".join(matchers) + "}"


def split_names(names: Iterable[str]) -> Iterator[tuple[str, ...]]:
    """Yield the names in parts, each of which fits into one selector; a name that is longer is a part of its own."""
    part: list[str] = []
    size = 0
    for name in names:
        length = len(name.encode(errors="replace"))
        if part and size + length > NAMES_BYTES_MAX:
            yield tuple(part)
            part, size = [], 0
        part.append(name)
        size += length
    if part:
        yield tuple(part)


def _matcher(name: str, values: Collection[str]) -> str:
    if len(values) == 1:
        (value,) = values
        return f"{name}={_quoted(value)}"
    return f"{name}=~{_quoted('|'.join(_literal(value) for value in sorted(values)))}"


def _literal(text: str) -> str:
    """Return a regular expression of RE2 that matches a text alone."""
    return "".join(f"\\{character}" if character in _OPERATORS else character for character in text)


def _label_name(name: str) -> str:
    if not _LABEL_NAME.fullmatch(name):
        raise MalformedLabelError(f"{name!r} is no name of a label; use a form like cluster=eu-1")
    return name


def _quoted(value: str) -> str:
    """Return a string literal of PromQL, which has the escapes of Go."""
    return '"' + "".join(_ESCAPES.get(character, character) for character in value) + '"'
