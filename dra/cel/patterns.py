"""Regular expressions with the syntax that Kubernetes uses: RE2, the engine of CEL's ``matches``.

Python's `re` is not an alternative: its syntax differs, and it takes exponential time on patterns that any user may put
into a schema.
"""

import re
from functools import lru_cache
from typing import Any, Final

from cel_expr_python import cel

_ENVIRONMENT: Final = cel.NewEnv(variables={"text": cel.Type.STRING, "pattern": cel.Type.STRING})
_MATCHES: Final[Any] = _ENVIRONMENT.compile("text.matches(pattern)")


class Pattern:
    """A regular expression in RE2's syntax."""

    __slots__ = ("error", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        answer = _MATCHES.eval(data={"text": "", "pattern": text})
        self.error: str = _error_as_go(str(answer.value())) if answer.type() == cel.Type.ERROR else ""
        """Error of an invalid pattern, in the words of Go's regexp; empty for a valid pattern."""

    @staticmethod
    @lru_cache(maxsize=1024)
    def cached(text: str) -> "Pattern":
        """Return the pattern for a text, from a cache."""
        return Pattern(text)

    def search(self, text: str) -> bool:
        """Report whether a part of the text matches; false for an invalid pattern."""
        answer = _MATCHES.eval(data={"text": text, "pattern": self.text})
        return bool(answer.type() == cel.Type.BOOL and answer.value())


_RE2: Final = re.compile(r"(?:[A-Z_]+: )?(?:invalid regular expression: )?(?P<what>.*?): (?P<where>.*)", re.DOTALL)
_WORDS: Final = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid character class range": "invalid character class range",
}


def _error_as_go(error: str) -> str:
    """Return an error of RE2 for C++ in the words of Go's regexp."""
    parts = _RE2.fullmatch(error)
    if parts is None:
        return f"error parsing regexp: {error}"
    return f"error parsing regexp: {_WORDS.get(parts['what'], parts['what'])}: `{parts['where']}`"
