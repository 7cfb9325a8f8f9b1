"""Parses field selectors with upstream's grammar and error messages, and matches objects with both kinds of selectors.

A field selector knows ``=``, ``==`` and ``!=`` only, and the fields of its kind.
"""

import re
from dataclasses import dataclass
from typing import Final

from dra.model.label_selectors import Labels, Requirement, SelectorSyntaxError, parse_label_selector
from localplane import status_errors
from localplane.kinds.kind import Kind
from localplane.objects import Object


@dataclass(frozen=True, slots=True)
class Selector:
    """The label and field requirements of a list or a watch."""

    labels: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.labels or self.fields)

    def matches(self, labels: Labels, fields: Labels) -> bool:
        """Return whether labels and fields meet all requirements."""
        return all(wanted(labels) for wanted in self.labels) and all(wanted(fields) for wanted in self.fields)


def parse_selectors(kind: Kind, labels: str, fields: str) -> Selector:
    """Return the selector of label and field selectors; raises `StatusError` 400."""
    try:
        return Selector(parse_label_selector(labels), parse_field_selector(kind, fields))
    except SelectorSyntaxError as fault:
        raise status_errors.bad_request(str(fault)) from None


_EMPTY_OBJECT: Final[Object] = {"metadata": {}, "spec": {}, "status": {}}
_METADATA_FIELDS: Final = ("metadata.name", "metadata.namespace")


def parse_field_selector(kind: Kind, text: str) -> tuple[Requirement, ...]:
    """Return the requirements of a field selector."""
    if not text:
        return ()
    known = {*_METADATA_FIELDS, *kind.strategy.selectable_fields(_EMPTY_OBJECT)}
    requirements = []
    for term in re.findall(r"(?:\\.|[^,\\])+", text, re.DOTALL):
        parts = re.fullmatch(r"((?:\\.|[^=!\\])*?)(!=|==|=)(.*)", term, re.DOTALL)
        if parts is None:
            raise SelectorSyntaxError(f"invalid selector: '{text}'; can't understand '{term}'")
        name, operator, value = parts[1], parts[2], _unescape(parts[3])
        if name not in known:
            if kind.is_custom or len(known) > len(_METADATA_FIELDS):
                raise SelectorSyntaxError(f"field label not supported: {name}")
            listed = ", ".join(f'"{field}"' for field in _METADATA_FIELDS)
            raise SelectorSyntaxError(f'"{name}" is not a known field selector: only {listed}')
        requirements.append(_field_requirement(name, value, equal=operator != "!="))
    return tuple(requirements)


def _field_requirement(name: str, value: str, *, equal: bool) -> Requirement:
    return lambda fields: (fields.get(name, "") == value) is equal


def _unescape(value: str) -> str:
    letters, position = [], 0
    while position < len(value):
        letter = value[position]
        if letter == "\\":
            position += 1
            letter = value[position : position + 1]
            if letter not in ("\\", ",", "="):
                raise SelectorSyntaxError(f"invalid field selector: invalid escape sequence: \\{letter}")
        elif letter in ",=":
            raise SelectorSyntaxError(f"invalid field selector: unescaped character in value: {letter}")
        letters.append(letter)
        position += 1
    return "".join(letters)
