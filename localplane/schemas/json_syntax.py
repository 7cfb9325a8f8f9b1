"""Explains syntax errors in JSON with the messages of Go's scanner.

The scanner runs only after a fast parser has refused a text; it does not recurse, so deep nesting is harmless.
"""

import re
from typing import Final

UNEXPECTED_END: Final = "unexpected end of JSON input"
MAX_DEPTH: Final = 10_000

_SPACE: Final = re.compile(r"[ \t\r\n]*")
_NUMBER: Final = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")
_STRING: Final = re.compile(r'"(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*"')
_CLOSING_BRACKETS: Final = {"{": "}", "[": "]"}


def syntax_error(text: str) -> str:
    """Return Go's syntax error for a text; empty if the text is JSON."""
    return _Scanner(text).run()


class _Scanner:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._open: list[str] = []

    def run(self) -> str:
        expecting = "value"
        while True:
            self._at = self._skip()
            if self._at == len(self._text):
                return "" if expecting == "end" else UNEXPECTED_END
            character = self._text[self._at]
            wrong, expecting = getattr(self, f"_{expecting}")(character)
            if wrong:
                return str(wrong)

    def _skip(self) -> int:
        space = _SPACE.match(self._text, self._at)
        assert space is not None  # noqa: S101 - matches nothing at least
        return space.end()

    def _value(self, character: str) -> tuple[str, str]:
        if character in _CLOSING_BRACKETS:
            if len(self._open) == MAX_DEPTH:
                return _invalid_character(character, "exceeded max depth"), ""
            self._open.append(character)
            self._at += 1
            return "", "first_key" if character == "{" else "first_element"
        return self._scalar(character), self._after()

    def _first_element(self, character: str) -> tuple[str, str]:
        return self._close() if character == "]" else self._value(character)

    def _first_key(self, character: str) -> tuple[str, str]:
        return self._close() if character == "}" else self._key(character)

    def _key(self, character: str) -> tuple[str, str]:
        if character != '"':
            return _invalid_character(character, "looking for beginning of object key string"), ""
        return self._string(), "colon"

    def _colon(self, character: str) -> tuple[str, str]:
        self._at += 1
        return ("", "value") if character == ":" else (_invalid_character(character, "after object key"), "")

    def _more(self, character: str) -> tuple[str, str]:
        outer = self._open[-1]
        if character == ",":
            self._at += 1
            return "", "key" if outer == "{" else "value"
        if character == _CLOSING_BRACKETS[outer]:
            return self._close()
        return _invalid_character(
            character, "after object key:value pair" if outer == "{" else "after array element"
        ), ""

    def _end(self, character: str) -> tuple[str, str]:
        return _invalid_character(character, "after top-level value"), ""

    def _close(self) -> tuple[str, str]:
        self._open.pop()
        self._at += 1
        return "", self._after()

    def _after(self) -> str:
        return "more" if self._open else "end"

    def _scalar(self, character: str) -> str:
        if character == '"':
            return self._string()
        if character in "-0123456789":
            return self._number()
        for literal in ("true", "false", "null"):
            if character == literal[0]:
                return self._literal(literal)
        return _invalid_character(character, "looking for beginning of value")

    def _literal(self, literal: str) -> str:
        for expected in literal:
            if self._at == len(self._text):
                return UNEXPECTED_END
            if self._text[self._at] != expected:
                return _invalid_character(self._text[self._at], f"in literal {literal} (expecting '{expected}')")
            self._at += 1
        return ""

    def _number(self) -> str:
        whole = _NUMBER.match(self._text, self._at)
        if whole is None:  # a minus sign without digits
            return self._error_at(self._at + 1, "in numeric literal")
        self._at = whole.end()
        rest = self._text[self._at : self._at + 2]
        if rest[:1] == "." and whole[2] is None and whole[3] is None:
            return self._error_at(self._at + 1, "after decimal point in numeric literal")
        if rest[:1] in ("e", "E") and whole[3] is None:
            behind = self._at + (2 if rest[1:] in ("+", "-") else 1)
            return self._error_at(behind, "in exponent of numeric literal")
        return ""

    def _string(self) -> str:
        whole = _STRING.match(self._text, self._at)
        if whole is not None:
            self._at = whole.end()
            return ""
        at = self._at + 1
        while at < len(self._text):
            character = self._text[at]
            if character < " ":
                return _invalid_character(character, "in string literal")
            if character == "\\":
                at += 1
                if self._text[at : at + 1] == "u":
                    for at in range(at + 1, at + 5):  # noqa: B020 - goes on behind it
                        if not re.match("[0-9a-fA-F]", self._text[at : at + 1]):
                            return self._error_at(at, "in \\u hexadecimal character escape")
                elif self._text[at : at + 1] not in tuple('"\\/bfnrt'):
                    return self._error_at(at, "in string escape code")
            at += 1
        return UNEXPECTED_END

    def _error_at(self, at: int, what: str) -> str:
        return _invalid_character(self._text[at], what) if at < len(self._text) else UNEXPECTED_END


def _invalid_character(character: str, what: str) -> str:
    shown = {"'": "\\'", '"': '"', "\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\"}.get(character, character)
    if len(shown) == 1 and shown < " ":
        shown = f"\\x{ord(shown):02x}"
    return f"invalid character '{shown}' {what}"
