"""Decodes scalars that have their own JSON decoding in Go: quantities, times, bytes.

Each function returns the value as a server would encode it again, and raises `ScalarDecodeError` with Go's message.
"""

import binascii
import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from math import ceil
from typing import Any, Final

from dra.model.quantities import MalformedQuantityError, parse


class ScalarDecodeError(Exception):
    """The error of a value that Go's decoder of its type refuses; the message does not name the field."""


INT32: Final = range(-(2**31), 2**31)
INT64: Final = range(-(2**63), 2**63)

_QUANTITY_FORMAT_ERROR: Final = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"  # Go's words
)
_QUANTITY_SUFFIX_ERROR: Final = "unable to parse quantity's suffix"
_QUANTITY_PATTERN: Final = re.compile(r"[+-]?(\d*)(\.?)(\d*)([eEinumkKMGTP]*[-+]?[0-9]*)", re.ASCII)
_BINARY_SUFFIXES: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL_SUFFIXES: Final = {-9: "n", -6: "u", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P", 18: "E"}
_NANO: Final = 10**9
_KIBI: Final = 1024
_KILO: Final = 1000


def decode_quantity(value: Any) -> str:  # noqa: ANN401 - JSON
    """Return a quantity as Go encodes it again: unchanged, except for fractions, nano and micro suffixes, and zero."""
    text = _quantity_text(value)
    parts = _QUANTITY_PATTERN.fullmatch(text)
    if parts is None or parts[3] or parts[4] in ("n", "u"):
        return canonicalize_quantity(text)
    canonical = canonicalize_quantity(text)
    return canonical if canonical == "0" else text


def decode_resource_quantity(value: Any) -> str:  # noqa: ANN401 - JSON
    """Return a quantity of a ResourceList, which Go rounds and therefore makes canonical: ``1024Mi`` is 1Gi."""
    return canonicalize_quantity(_quantity_text(value))


def _quantity_text(value: Any) -> str:  # noqa: ANN401 - JSON
    if type(value) is str:
        return value.strip()
    if type(value) in (int, float):
        return str(value)
    raise ScalarDecodeError(_QUANTITY_FORMAT_ERROR)


@lru_cache(maxsize=4096)
def canonicalize_quantity(text: str) -> str:
    """Return the shortest exact form of a quantity with a suffix of the same family."""
    parts = _QUANTITY_PATTERN.fullmatch(text)
    if not text or parts is None or (parts[4] and not (parts[1] or parts[3])):
        raise ScalarDecodeError(_QUANTITY_FORMAT_ERROR)
    if not (parts[1] or parts[3]):  # only a sign or a decimal point
        return "0"
    try:
        amount = parse(text)
    except MalformedQuantityError:
        raise ScalarDecodeError(_QUANTITY_SUFFIX_ERROR) from None
    if amount == 0:
        return "0"
    if text.endswith("i") and abs(amount) >= _KIBI:
        return _format_binary(ceil(amount))
    nanos, exponent = ceil(amount * _NANO), -9
    while nanos % _KILO == 0 and exponent < max(_DECIMAL_SUFFIXES):
        nanos, exponent = nanos // _KILO, exponent + 3
    if re.search(r"[eE][+-]?\d", text):
        return f"{nanos}e{exponent}" if exponent else str(nanos)
    return f"{nanos}{_DECIMAL_SUFFIXES[exponent]}"


def _format_binary(amount: int) -> str:
    power = 0
    while amount % _KIBI == 0 and power < len(_BINARY_SUFFIXES) - 1:
        amount, power = amount // _KIBI, power + 1
    return f"{amount}{_BINARY_SUFFIXES[power]}"


_TIME_LAYOUT: Final = (
    ("2006", r"\d{4}"),
    ("-", "-"),
    ("01", r"\d\d"),
    ("-", "-"),
    ("02", r"\d\d"),
    ("T", "T"),
    ("15", r"\d\d?"),
    (":", ":"),
    ("04", r"\d\d"),
    (":", ":"),
    ("05", r"\d\d"),
)
_ZONE_LAYOUT: Final = ("Z07:00", r"Z|[+-]\d\d:\d\d")
_TIME_PATTERN: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d?):(\d\d):(\d\d)(?:[.,](\d+))?(Z|[+-]\d\d:\d\d)", re.ASCII
)
_CANONICAL_MICRO_TIME: Final = re.compile(r"[1-9]\d{3}-\d\d-\d\dT(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d\.\d{6}Z", re.ASCII)
_TIME_FIELDS: Final = ("year", "month", "day", "hour", "minute", "second")
_TIME_LIMITS: Final = ((0, 9999), (1, 12), (1, 31), (0, 23), (0, 59), (0, 59))


@lru_cache(maxsize=4096)
def decode_time(value: str) -> str:
    """Return a Time as Go encodes it: UTC, whole seconds."""
    layout = "2006-01-02T15:04:05Z07:00"
    _check_layout(value, layout, (*_TIME_LAYOUT, ("", r"([.,]\d+)?"), _ZONE_LAYOUT))
    return _parse_instant(value).strftime("%Y-%m-%dT%H:%M:%SZ")


@lru_cache(maxsize=4096)
def decode_micro_time(value: str) -> str:
    """Return a MicroTime as Go encodes it: UTC, microseconds."""
    if _CANONICAL_MICRO_TIME.fullmatch(value):  # all but unusual ones, and each is another one
        with suppress(ValueError):  # the day may not exist
            datetime.fromisoformat(value)
            return value
    layout = "2006-01-02T15:04:05.000000Z07:00"
    _check_layout(value, layout, (*_TIME_LAYOUT, (".000000", r"\.\d{6}"), _ZONE_LAYOUT))
    return _parse_instant(value).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _check_layout(value: str, layout: str, parts: tuple[tuple[str, str], ...]) -> None:
    rest = value
    for name, pattern in parts:
        matched = re.match(pattern, rest, re.ASCII)
        if matched is None:
            what = rest if name != "2006" else value
            raise ScalarDecodeError(f'parsing time "{value}" as "{layout}": cannot parse "{what}" as "{name}"')
        rest = rest[matched.end() :]
    if rest:
        raise ScalarDecodeError(f'parsing time "{value}": extra text: "{rest}"')


def _parse_instant(value: str) -> datetime:
    """Return the instant of a timestamp of valid layout; only numbers can be out of range."""
    matched = _TIME_PATTERN.fullmatch(value)
    assert matched is not None  # noqa: S101 - scanned before
    numbers = [int(digits) for digits in matched.groups()[:6]]
    for name, number, (least, most) in zip(_TIME_FIELDS, numbers, _TIME_LIMITS, strict=True):
        if not least <= number <= most:
            raise ScalarDecodeError(f'parsing time "{value}": {name} out of range')
    zone = timedelta(0)
    if matched[8] != "Z":
        hours, minutes = int(matched[8][1:3]), int(matched[8][4:])
        for name, number, most in (("hour", hours, 24), ("minute", minutes, 60)):
            if number > most:
                raise ScalarDecodeError(f'parsing time "{value}": time zone offset {name} out of range')
        zone = timedelta(hours=hours, minutes=minutes) * (-1 if matched[8][0] == "-" else 1)
    try:
        there = datetime(*numbers[:3], *numbers[3:], int((matched[7] or "0").ljust(6, "0")[:6]), tzinfo=UTC)  # type: ignore[misc, arg-type]
        return there - zone
    except (ValueError, OverflowError):
        raise ScalarDecodeError(f'parsing time "{value}": day out of range') from None


_BASE64: Final = re.compile(r"[A-Za-z0-9+/]*")


def decode_base64(value: str) -> str:
    """Return a base64 text unchanged; raises `ScalarDecodeError` if it is not in Go's strict alphabet."""
    text = value.replace("\n", "").replace("\r", "")
    body = text.rstrip("=")
    clean = _BASE64.match(body)
    assert clean is not None  # noqa: S101 - matches nothing at least
    if clean.end() != len(body):
        raise ScalarDecodeError(f"illegal base64 data at input byte {clean.end()}")
    try:
        binascii.a2b_base64(text, strict_mode=True)
    except binascii.Error:
        raise ScalarDecodeError(f"illegal base64 data at input byte {len(body) - len(body) % 4}") from None
    return text
