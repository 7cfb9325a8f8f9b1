"""Checks the ``format`` keyword of schemas for strings and numbers; unknown formats are ignored, as upstream."""

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from datetime import date
from ipaddress import AddressValueError, IPv4Address, IPv6Address, ip_network
from typing import Final
from urllib.parse import urlsplit


def supported_format(name: str, kind: str) -> str:
    """Return the format if it is supported for a type, else an empty string."""
    if kind == "integer":
        return name if name in ("int32", "int64") else ""
    if kind == "number":
        return name if name in ("float", "double") else ""
    return name if kind in ("", "string") and name.replace("-", "") in _CHECKS else ""


def has_format(name: str, text: str) -> bool:
    """Return whether a text has a format; the format must come from `supported_format`."""
    return _CHECKS[name.replace("-", "")](text)


def _parses_with(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            parse(text)
        except (ValueError, AddressValueError, binascii.Error):
            return False
        return True

    return check


def _matches_pattern(pattern: str, flags: re.RegexFlag = re.NOFLAG) -> Callable[[str], bool]:
    compiled = re.compile(pattern, flags)
    return lambda text: compiled.fullmatch(text) is not None


def _full_date(text: str) -> date:
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", text, re.ASCII):
        raise ValueError(text)
    return date.fromisoformat(text)


_TIME: Final = re.compile(r"([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?(z|[+-]\d\d:?\d\d)", re.IGNORECASE | re.ASCII)


def _date_time(text: str) -> None:
    day, _, time = text.partition("T" if "T" in text else "t")
    _full_date(day)
    if not _TIME.fullmatch(time):
        raise ValueError(text)


def _uri(text: str) -> None:
    parts = urlsplit(text)
    if not (parts.scheme or text.startswith("/")) or re.search(r"[\x00-\x20\x7f]", text):
        raise ValueError(text)


def _cidr(text: str) -> None:
    if "/" not in text:
        raise ValueError(text)
    ip_network(text, strict=False)


def _isbn(text: str) -> bool:
    digits = re.sub(r"[\s-]", "", text)
    if re.fullmatch(r"\d{9}[\dX]", digits):
        return sum((10 - i) * (10 if d == "X" else int(d)) for i, d in enumerate(digits)) % 11 == 0
    return bool(re.fullmatch(r"\d{13}", digits)) and sum(int(d) * (1, 3)[i % 2] for i, d in enumerate(digits)) % 10 == 0


_HEX: Final = "[0-9a-f]"
_LABEL: Final = "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"


def _uuid(version: str = _HEX, variant: str = _HEX) -> Callable[[str], bool]:
    middle = f"{version}{_HEX}{{3}}-?{variant}{_HEX}{{3}}"
    return _matches_pattern(f"{_HEX}{{8}}-?{_HEX}{{4}}-?{middle}-?{_HEX}{{12}}", re.IGNORECASE)


_CHECKS: Final[Mapping[str, Callable[[str], bool]]] = {
    "bsonobjectid": _matches_pattern(r"[0-9a-fA-F]{24}"),
    "uri": _parses_with(_uri),
    "email": _matches_pattern(r'([^<>]*<)?[^\s@<>"]+@[^\s@<>]+>?'),
    "hostname": _matches_pattern(rf"(?=.{{,253}}$){_LABEL}(\.{_LABEL})*\.?", re.IGNORECASE),
    "ipv4": _parses_with(IPv4Address),
    "ipv6": _parses_with(IPv6Address),
    "cidr": _parses_with(_cidr),
    "mac": _matches_pattern(r"([0-9a-fA-F]{2}([:-]))([0-9a-fA-F]{2}\2){4}([0-9a-fA-F]{2}\2){0,2}[0-9a-fA-F]{2}"),
    "uuid": _uuid(),
    "uuid3": _uuid("3"),
    "uuid4": _uuid("4", "[89ab]"),
    "uuid5": _uuid("5", "[89ab]"),
    "isbn": _isbn,
    "isbn10": lambda text: _isbn(text) and "978" not in text[:3],
    "isbn13": lambda text: _isbn(text) and text[:3] in ("978", "979"),
    "creditcard": _matches_pattern(r"(\D*\d){13,16}\D*"),
    "ssn": _matches_pattern(r"\d{3}[- ]?\d{2}[- ]?\d{4}"),
    "hexcolor": _matches_pattern(r"#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "rgbcolor": _matches_pattern(r"rgb\((\s*\d{1,3}\s*,){2}\s*\d{1,3}\s*\)"),
    "byte": _parses_with(lambda text: base64.b64decode(text, validate=True)),
    "password": lambda _: True,
    "date": _parses_with(_full_date),
    "duration": _matches_pattern(
        r"[+-]?(\d+(\.\d*)?|\.\d+)\s*(ns|nano\w*|us|µs|μs|micro\w*|ms|milli\w*|s|sec\w*|m|min\w*|h|hour\w*|d|day\w*|w|week\w*)"
        r"((\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))*|0"
    ),
    "datetime": _parses_with(_date_time),
    "k8sshortname": _matches_pattern(_LABEL),
    "k8slongname": _matches_pattern(r"(?=.{,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"),
}
