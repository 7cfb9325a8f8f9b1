"""The end of validity of X.509 certificates in PEM.

The standard library tells the validity of authorities and of peers, but of no certificate that a server is about to
serve. The field is the fifth of the signed part (RFC 5280, section 4.1), and is read here without a further package.
"""

import binascii
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

_BLOCK: Final = re.compile(rb"-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", re.DOTALL)
_VERSION, _UTC_TIME, _SEQUENCE = 0xA0, 0x17, 0x30
_UTC_CENTURY: Final = 50
"""A UTCTime with a year from 50 on is of the 20th century."""

BLOCKS_MAX: Final = 64
"""Maximum number of certificates that are read of one file."""


class UnreadableCertificateError(ValueError):
    """A certificate is no X.509 in DER."""


def expiry_times(pem: bytes) -> tuple[datetime, ...]:
    """Return when each certificate of a file expires; raise UnreadableCertificateError."""
    times = []
    for block in list(_BLOCK.finditer(pem))[:BLOCKS_MAX]:
        try:
            times.append(_not_after(binascii.a2b_base64(block.group(1))))
        except (ValueError, IndexError, StopIteration) as error:
            raise UnreadableCertificateError(f"no X.509 certificate: {error}") from error
    return tuple(times)


def _not_after(der: bytes) -> datetime:
    signed = next(_fields(next(_fields(der))[1]))[1]
    fields = [field for field in _fields(signed) if field[0] != _VERSION]
    tag, validity = fields[3]  # after serial number, signature algorithm and issuer
    if tag != _SEQUENCE:
        raise ValueError("no validity")
    _, (tag, text) = _fields(validity)
    return _to_time(tag, text.decode("ascii"))


def _to_time(tag: int, text: str) -> datetime:
    if tag == _UTC_TIME:
        text = f"{19 if int(text[:2]) >= _UTC_CENTURY else 20}{text}"
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)


def _fields(der: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield tag and content of each field of a DER sequence."""
    at = 0
    while at < len(der):
        tag, length, start = der[at], der[at + 1], at + 2
        if length & 0x80:
            size = length & 0x7F
            length, start = int.from_bytes(der[start : start + size]), start + size
        if start + length > len(der):
            raise ValueError("cut off")
        yield tag, der[start : start + length]
        at = start + length
