"""Parses label selectors with upstream's grammar and error messages.

A label selector is a list of requirements, all of which must hold: ``a``, ``!a``, ``a=b``, ``a!=b``, ``a in (b,c)``,
``a notin (b,c)``, ``a>1``, ``a<1``.
"""

import re
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final

import msgspec

from dra.model import name_validation

Labels = Mapping[str, str]
Requirement = Callable[[Labels], bool]
"""Predicate of one requirement over labels or fields."""


class SelectorSyntaxError(ValueError):
    """The error of a selector that cannot be parsed."""


class _Token(Enum):
    IDENTIFIER = "identifier"
    NOT = "!"
    IN = "in"
    NOT_IN = "notin"
    EQUALS = "="
    DOUBLE_EQUALS = "=="
    NOT_EQUALS = "!="
    GREATER = ">"
    LESS = "<"
    OPEN = "("
    CLOSE = ")"
    COMMA = ","
    END = ""


_TOKEN_PATTERN: Final = re.compile(r"\s*(?:(==|!=|[=!<>(),])|([^\s=!<>(),]+)|$)")
_KEYWORDS: Final = {"in": _Token.IN, "notin": _Token.NOT_IN}
_OPERATORS: Final = "in, notin, =, ==, !=, gt, lt"


class _Lexer:
    """A lexer of selectors with one token of lookahead; ``in`` is an operator only where one is expected."""

    def __init__(self, text: str) -> None:
        self._tokens: list[tuple[_Token, str]] = []
        for symbol, word in _TOKEN_PATTERN.findall(text.rstrip()):
            if symbol or word:
                self._tokens.append(
                    (_Token(symbol) if symbol else _KEYWORDS.get(word, _Token.IDENTIFIER), symbol or word)
                )
        self._next = 0

    def peek(self, *, operator: bool = False) -> tuple[_Token, str]:
        if self._next >= len(self._tokens):
            return _Token.END, ""
        token, text = self._tokens[self._next]
        return (token if operator or text not in _KEYWORDS else _Token.IDENTIFIER), text

    def take(self, *, operator: bool = False) -> tuple[_Token, str]:
        token = self.peek(operator=operator)
        self._next += 1
        return token


def parse_label_selector(text: str) -> tuple[Requirement, ...]:
    """Return the requirements of a label selector."""
    words = _Lexer(text)
    requirements: list[Requirement] = []
    while True:
        token, word = words.peek()
        if token is _Token.END:
            return tuple(requirements)
        if token not in (_Token.IDENTIFIER, _Token.NOT):
            raise SelectorSyntaxError(f"found '{word}', expected: !, identifier, or 'end of string'")
        try:
            requirements.append(_parse_requirement(words))
        except SelectorSyntaxError as fault:
            raise SelectorSyntaxError(f"unable to parse requirement: {fault}") from None
        token, word = words.take()
        if token is _Token.END:
            return tuple(requirements)
        if token is not _Token.COMMA:
            raise SelectorSyntaxError(f"found '{word}', expected: ',' or 'end of string'")
        token, word = words.peek()
        if token not in (_Token.IDENTIFIER, _Token.NOT):
            raise SelectorSyntaxError(f"found '{word}', expected: identifier after ','")


def _parse_requirement(words: _Lexer) -> Requirement:
    token, key = words.take()
    if negated := token is _Token.NOT:
        token, key = words.take()
    if token is not _Token.IDENTIFIER:
        raise SelectorSyntaxError(f"found '{key}', expected: identifier")
    if errors := name_validation.qualified_name(key):
        raise SelectorSyntaxError(f"key: Invalid value: {_quoted(key)}: {'; '.join(errors)}")
    if words.peek()[0] in (_Token.END, _Token.COMMA):
        return (lambda labels: key not in labels) if negated else (lambda labels: key in labels)
    token, text = words.take(operator=True)
    if token in (_Token.IN, _Token.NOT_IN):
        values = _parse_values(words)
        if not values:
            raise SelectorSyntaxError(
                "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty"
            )
    elif token in _SINGLE_VALUE_OPERATORS:
        values = {_parse_value(words)}
    else:
        raise SelectorSyntaxError(f"found '{text}', expected: {_OPERATORS}")
    return _comparison_requirement(key, token, values)


_SINGLE_VALUE_OPERATORS: Final = (_Token.EQUALS, _Token.DOUBLE_EQUALS, _Token.NOT_EQUALS, _Token.GREATER, _Token.LESS)


def _comparison_requirement(key: str, token: _Token, values: set[str]) -> Requirement:
    if token in (_Token.GREATER, _Token.LESS):
        (value,) = values
        bound = _parse_integer(value)
        if bound is None:
            shown = _quoted(value)
            raise SelectorSyntaxError(
                f"values[0]: Invalid value: {shown}: for 'Gt', 'Lt' operators, the value must be an integer"
            )
        return _numeric_requirement(key, bound, greater=token is _Token.GREATER)
    for index, value in enumerate(sorted(values)):
        if errors := name_validation.label_value(value):
            raise SelectorSyntaxError(f"values[{index}]: Invalid value: {_quoted(value)}: {'; '.join(errors)}")
    if token in (_Token.NOT_IN, _Token.NOT_EQUALS):
        return lambda labels: labels.get(key) not in values
    return lambda labels: labels.get(key) in values


def _numeric_requirement(key: str, bound: int, *, greater: bool) -> Requirement:
    def wanted(labels: Labels) -> bool:
        value = _parse_integer(labels.get(key, ""))
        return value is not None and (value > bound if greater else value < bound)

    return wanted


def _parse_integer(text: str) -> int | None:
    """Return the integer of a text like Go's ParseInt, None if the text is no integer."""
    return int(text) if re.fullmatch(r"[+-]?[0-9]{1,18}", text) else None


def _parse_values(words: _Lexer) -> set[str]:
    token, text = words.take()
    if token is not _Token.OPEN:
        raise SelectorSyntaxError(f"found '{text}' expected: '('")
    if words.peek()[0] is _Token.CLOSE:
        words.take()
        return set()
    values: set[str] = set()
    empty = True  # no identifier since the last comma: an empty value
    while True:
        token, text = words.take()
        match token:
            case _Token.IDENTIFIER if empty:
                values.add(text)
                empty = False
            case _Token.COMMA:
                if empty:
                    values.add("")
                empty = True
            case _Token.CLOSE:
                return values | {""} if empty else values
            case _:
                raise SelectorSyntaxError(f"found '{text}', expected: ',', ')' or identifier")


def _parse_value(words: _Lexer) -> str:
    token, text = words.peek()
    if token in (_Token.END, _Token.COMMA):
        return ""
    words.take()
    if token is not _Token.IDENTIFIER:
        raise SelectorSyntaxError(f"found '{text}', expected: identifier")
    return text


def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()
