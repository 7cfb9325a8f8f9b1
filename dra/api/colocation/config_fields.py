"""The fields of JSON objects in ConfigMap slo-controller-config: names, types and ranges.

`read_fields` turns an object into a `Layer`: canonical names and checked values, where an absent field stays absent,
which is not zero. As in Go, upper and lower case of names do not matter, and null means absent. Unlike in Go, an
unknown name and a name that is given twice are reported.
"""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final, TypeAlias

from dra.api.durations import MalformedDurationError, format_duration, parse_duration
from dra.model.meta import Struct

Layer: TypeAlias = Mapping[str, Any]
"""Name of a field → its value, a Layer itself for an object."""

PROBLEMS_MAX: Final = 20
"""Problems of an object that are reported; there may be many thousands of unknown names."""

TEXT_MAX: Final = 64
"""Characters of a wrong value that are repeated in messages."""

_INT64_MAX: Final = 2**63 - 1


class FieldProblem(Struct, frozen=True):
    """A mistake in a field; the rest of the object counts if the problem is no more than a warning."""

    path: str
    text: str
    is_warning: bool = False

    def __str__(self) -> str:
        return f"{self.path}: {self.text}" if self.path else self.text


class Boolean(Struct, frozen=True):
    """A boolean: true or false."""

    def read(self, value: object) -> bool:
        """Return the value; raises ValueError."""
        if isinstance(value, bool):
            return value
        raise ValueError(f"{show(value)} is not true or false")


class Integer(Struct, frozen=True):
    """A whole number in a range."""

    least: int
    most: int = _INT64_MAX

    def read(self, value: object) -> int:
        """Return the value; raises ValueError."""
        if not isinstance(value, int) or isinstance(value, bool):
            raise ValueError(f"{show(value)} is not a whole number")  # noqa: TRY004 - one error for all fields
        if not self.least <= value <= self.most:
            limits = f"{self.least} or more" if self.most == _INT64_MAX else f"from {self.least} to {self.most}"
            raise ValueError(f"{show(value)} is out of range; write a number that is {limits}")
        return value


class Share(Struct, frozen=True):
    """A number that is greater than 0 and at most 1."""

    def read(self, value: object) -> Fraction:
        """Return the value exactly as it is written; raises ValueError."""
        if isinstance(value, bool) or not isinstance(value, int | Decimal):
            raise ValueError(f"{show(value)} is not a number")  # noqa: TRY004 - one error for all fields
        if not 0 < value <= 1:  # before it becomes a fraction: 1e999999999 would fill the memory
            raise ValueError(f"{show(value)} is out of range; write a number that is greater than 0 and at most 1")
        if isinstance(value, Decimal) and -int(value.as_tuple().exponent) > _DECIMALS_MAX:
            raise ValueError(f"{show(value)} has more than {_DECIMALS_MAX} decimals")
        return Fraction(value)


_DECIMALS_MAX: Final = 18


class Word(Struct, frozen=True):
    """One of some words."""

    words: tuple[str, ...]

    def read(self, value: object) -> str:
        """Return the value; raises ValueError."""
        if isinstance(value, str) and value in self.words:
            return value
        raise ValueError(f"{show(value)} is not one of {', '.join(self.words)}")


class Durations(Struct, frozen=True):
    """Durations of Go, at most a few."""

    most: int = 8

    def read(self, value: object) -> tuple[str, ...]:
        """Return the durations as Go writes them; raises ValueError."""
        if not isinstance(value, Sequence) or isinstance(value, str) or len(value) > self.most:
            raise ValueError(f"{show(value)} is not a list of at most {self.most} durations")
        return tuple(_read_duration(duration) for duration in value)


def _read_duration(text: object) -> str:
    try:
        nanoseconds = parse_duration(text) if isinstance(text, str) else 0
    except MalformedDurationError as error:
        raise ValueError(str(error)) from error
    if nanoseconds <= 0:
        raise ValueError(f"{show(text)} is not a duration above 0, for example 5m0s")
    return format_duration(nanoseconds)


class Unused(Struct, frozen=True):
    """A field of Koordinator's that has no effect here; any value is accepted."""

    def read(self, value: object) -> object:
        """Return the value as it is."""
        return value


class Table(Struct, frozen=True):
    """An object with fields."""

    fields: Mapping[str, "Field"]


Field: TypeAlias = Boolean | Integer | Share | Word | Durations | Unused | Table


def read_fields(
    given: object,
    fields: Mapping[str, Field],
    problems: list[FieldProblem],
    *,
    path: str = "",
    others: Iterable[str] = (),
) -> dict[str, Any]:
    """Return the fields of an object that are right; what is wrong is appended to `problems`.

    `others` are names that the object may have and that are read elsewhere.
    """
    if not isinstance(given, Mapping):
        problems.append(FieldProblem(path=path, text=f"{show(given)} is not an object"))
        return {}
    names = {name.lower(): name for name in (*fields, *others)}
    layer: dict[str, Any] = {}
    unknown = 0
    for written, value in given.items():
        at = _join(path, written[:TEXT_MAX])
        name = names.get(written.lower())
        if name is None:
            unknown += 1
            if unknown <= PROBLEMS_MAX:
                problems.append(FieldProblem(path=at, text=_unknown(written, names), is_warning=True))
            continue
        if written != name and name in given:
            text = f"the same field as {name}, which counts"
            problems.append(FieldProblem(path=at, text=text, is_warning=True))
            continue
        if value is None or name not in fields:
            continue
        field = fields[name]
        if isinstance(field, Table):
            layer[name] = read_fields(value, field.fields, problems, path=at)
            continue
        try:
            layer[name] = field.read(value)
        except ValueError as error:
            problems.append(FieldProblem(path=at, text=str(error)))
    if unknown > PROBLEMS_MAX:
        text = f"{unknown - PROBLEMS_MAX} more unknown fields"
        problems.append(FieldProblem(path=path, text=text, is_warning=True))
    return layer


def pick(given: Mapping[str, Any], name: str) -> Any:  # noqa: ANN401 - any JSON
    """Return the value of a field whose name may be written in any case; None if it is absent."""
    if name in given:
        return given[name]
    return next((value for written, value in given.items() if written.lower() == name.lower()), None)


def merge(layer: Layer, over: Layer) -> Layer:
    """Return the fields of both, where those of `over` win, field by field in objects."""
    merged = dict(layer)
    for name, value in over.items():
        below = merged.get(name)
        merged[name] = merge(below, value) if isinstance(value, Mapping) and isinstance(below, Mapping) else value
    return merged


def show(value: object) -> str:
    """Return a wrong value for a message, cut if it is long."""
    text = (
        str(value) if isinstance(value, Decimal) else repr(value) if not isinstance(value, bool) else str(value).lower()
    )
    return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}…"


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _unknown(written: str, names: Mapping[str, str]) -> str:
    near = difflib.get_close_matches(written[:TEXT_MAX].lower(), names, n=1, cutoff=0.7)
    return f"unknown field{f', do you mean {names[near[0]]}?' if near else ''}; it has no effect"
