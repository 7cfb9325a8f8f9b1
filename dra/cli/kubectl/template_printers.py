"""Implements kubectl's templates: ``-o jsonpath='{range .items[*]}{.name}{end}'``, ``custom-columns``, ``--sort-by``.

Paths are those of printer columns (`dra.model.jsonpath`): fields, quoted fields, indexes, slices, wildcards, filters
that compare a field with a literal. Packages for JSONPath implement RFC 9535, which has neither kubectl's templates nor
its escapes. Unions (``['a','b']``) are rejected with an error. A missing field is empty, as in kubectl.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from dra.model import jsonpath

_ACTION: Final = re.compile(r"""\{((?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[^{}"'])*)\}""")
_QUOTED: Final = re.compile(r"""(['"])(?P<text>.*)\1""", re.DOTALL)
_UNION: Final = re.compile(r"""\[\s*(?:'[^']*'|"[^"]*"|-?\d+)\s*,""")
_SPACED: Final = re.compile(r"""\[[^\]]*\]|(?P<space>\s)""")

MISSING_VALUE: Final = "<none>"


class MalformedTemplateError(ValueError):
    """A template cannot be parsed; the text says where."""


@dataclass(frozen=True, slots=True)
class JsonPath:
    """A path from an object to values."""

    text: str

    @classmethod
    def parse(cls, text: str) -> "JsonPath":
        """Parse a path; raise MalformedTemplateError."""
        path = text.strip()
        if any(match["space"] for match in _SPACED.finditer(path)):
            raise MalformedTemplateError(f"{text.strip()!r}: write one path in each pair of braces")
        if _UNION.search(path):
            raise MalformedTemplateError(f"{path!r}: unions are not supported; write one path for each")
        try:
            jsonpath.parse_path(_without_root(path))
        except jsonpath.InvalidJsonPathError as error:
            raise MalformedTemplateError(str(error)) from error
        return cls(path)

    def find(self, current: Any, root: Any) -> list[Any]:  # noqa: ANN401 - JSON
        """Return the values of the path below ``current``; a path with ``$`` starts from ``root``."""
        return jsonpath.find_values(_without_root(self.text), root if self.text.startswith("$") else current)


def _without_root(path: str) -> str:
    return path[1:] if path[:1] in {"$", "@"} else path


@dataclass(frozen=True, slots=True)
class RangeBlock:
    """The template block ``{range PATH}…{end}``."""

    path: JsonPath
    parts: tuple["TemplatePart", ...]


TemplatePart: TypeAlias = str | JsonPath | RangeBlock


@dataclass(frozen=True, slots=True)
class JsonPathTemplate:
    """A parsed template of ``-o jsonpath``."""

    parts: tuple[TemplatePart, ...]

    @classmethod
    def parse(cls, text: str) -> "JsonPathTemplate":
        """Parse a template; a text without braces is a single path. Raise MalformedTemplateError."""
        if "{" not in text:
            return cls((JsonPath.parse(text),))
        tokens = list(_tokens(text))
        parts, rest = _parse_parts(tokens)
        if rest:
            raise MalformedTemplateError("{end} without {range}")
        return cls(parts)

    def __call__(self, content: Any) -> str:  # noqa: ANN401 - JSON
        """Return the text for an object."""
        return "".join(_render_parts(self.parts, content, content))


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    """Yield the tokens of a template: ("text", …) and ("action", …)."""
    position = 0
    for action in _ACTION.finditer(text):
        yield from _literal_text(text[position : action.start()])
        yield "action", action[1].strip()
        position = action.end()
    yield from _literal_text(text[position:])


def _literal_text(text: str) -> Iterator[tuple[str, str]]:
    if "{" in text or "}" in text:
        raise MalformedTemplateError(f"{text!r}: unbalanced brace")
    if text:
        yield "text", text


def _parse_parts(tokens: list[tuple[str, str]]) -> tuple[tuple[TemplatePart, ...], list[tuple[str, str]]]:
    """Return the parts up to an ``end`` or the end of the text, and the remaining tokens, from the ``end`` on."""
    parts: list[TemplatePart] = []
    while tokens:
        kind, text = tokens[0]
        if kind == "text":
            parts.append(text)
        elif text == "end":
            return tuple(parts), tokens
        elif text.startswith("range ") or text == "range":
            inner, rest = _parse_parts(tokens[1:])
            if not rest:
                raise MalformedTemplateError("{range} without {end}")
            parts.append(RangeBlock(JsonPath.parse(text.removeprefix("range")), inner))
            tokens = rest
        elif quoted := _QUOTED.fullmatch(text):
            parts.append(_unescape(quoted["text"]))
        else:
            parts.append(JsonPath.parse(text))
        tokens = tokens[1:]
    return tuple(parts), []


def _unescape(text: str) -> str:
    escapes = {"n": "\n", "t": "\t", "r": "\r"}
    return re.sub(r"\\(.)", lambda match: escapes.get(match[1], match[1]), text)


def _render_parts(parts: Sequence[TemplatePart], current: Any, root: Any) -> Iterator[str]:  # noqa: ANN401 - JSON
    for part in parts:
        match part:
            case str():
                yield part
            case JsonPath():
                yield " ".join(format_value(value) for value in part.find(current, root))
            case RangeBlock(path=path, parts=inner):
                for item in path.find(current, root):
                    yield from _render_parts(inner, item, root)


def format_value(value: Any) -> str:  # noqa: ANN401 - JSON
    """Return a value as kubectl prints it: strings unchanged, other values as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class CustomColumns:
    """The columns of ``-o custom-columns``: ``NAME:.metadata.name,FOR:.workload``."""

    header: tuple[str, ...]
    paths: tuple[JsonPath, ...]

    @classmethod
    def parse(cls, text: str) -> "CustomColumns":
        """Parse the columns; raise MalformedTemplateError."""
        pairs = [column.partition(":") for column in re.split(r",(?![^\[]*\])", text)]
        if not all(name and path for name, _, path in pairs):
            raise MalformedTemplateError(f"{text!r}: write columns as HEADER:PATH, separated by commas")
        paths = tuple(JsonPath.parse(path.strip().removeprefix("{").removesuffix("}")) for _, _, path in pairs)
        return cls(tuple(name for name, _, _ in pairs), paths)

    def row(self, content: Any) -> tuple[str, ...]:  # noqa: ANN401 - JSON
        """Return the cells of an object."""
        return tuple(",".join(map(format_value, path.find(content, content))) or MISSING_VALUE for path in self.paths)


def sort_key(path: JsonPath, content: Any) -> tuple[int, float, str]:  # noqa: ANN401 - JSON
    """Return a sort key of an object: missing values first, then numbers, then texts."""
    values = path.find(content, content)
    if not values:
        return (0, 0.0, "")
    if isinstance(values[0], int | float):
        return (1, float(values[0]), "")
    return (2, 0.0, format_value(values[0]))
