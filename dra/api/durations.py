"""The durations of Go: parsed from ``24h``, ``1h30m``, ``1.5h`` or ``250ms``, formatted as ``24h0m0s``.

``spec.ttl`` is a duration. Values are nanoseconds, as in Go: parsing is exact, and texts of equal length of time have
equal values.
"""

import functools
import re
from fractions import Fraction
from typing import Final

SECOND: Final = 10**9
"""Nanoseconds of one second."""

_UNITS: Final = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": SECOND, "m": 60 * SECOND}
_HOUR: Final = 3600 * SECOND
_COMPONENT: Final = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_WHOLE: Final = re.compile(rf"([+-]?)((?:{_COMPONENT.pattern})+|0)")
_MAX_DURATION: Final = 2**63 - 1


class MalformedDurationError(ValueError):
    """A text cannot be parsed as a duration."""


@functools.lru_cache(maxsize=1024)  # a reservation is parsed once per version, with the same ttl each time
def parse_duration(text: str) -> int:
    """Return the nanoseconds of a duration: ``"1h30m"`` → 5400000000000. Raises MalformedDurationError."""
    match = _WHOLE.fullmatch(text) if len(text) <= 64 else None  # noqa: PLR2004 - no duration is longer in earnest
    if match is None:
        raise MalformedDurationError(f"{text[:64]!r} is not a duration, for example 24h, 90m, 1h30m or 0s")
    parts = (Fraction(number) * (_UNITS.get(unit) or _HOUR) for number, unit in _COMPONENT.findall(text))
    total = int(sum(parts)) * (-1 if match[1] == "-" else 1)
    if abs(total) > _MAX_DURATION:
        raise MalformedDurationError(f"{text!r} is longer than the longest duration, 2562047h47m16.854775807s")
    return total


def format_duration(nanoseconds: int) -> str:
    """Return the text that Go prints for a duration: ``5400000000000`` → ``"1h30m0s"``, 0 → ``"0s"``."""
    if nanoseconds < 0:
        return f"-{format_duration(-nanoseconds)}"
    if nanoseconds < SECOND:
        for unit in ("ms", "µs", "ns"):
            if nanoseconds >= _UNITS[unit]:
                return f"{_decimal(nanoseconds, _UNITS[unit])}{unit}"
        return "0s"
    minutes, rest = divmod(nanoseconds, _UNITS["m"])
    text = f"{_decimal(rest, SECOND)}s"
    if minutes:
        hours, minutes = divmod(minutes, 60)
        text = f"{f'{hours}h' if hours else ''}{minutes}m{text}"
    return text


def _decimal(amount: int, unit: int) -> str:
    whole, rest = divmod(amount, unit)
    fraction = str(rest + unit)[1:].rstrip("0") if unit > 1 else ""
    return f"{whole}.{fraction}" if fraction else str(whole)
