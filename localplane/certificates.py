"""Generates a self-signed serving certificate for the loopback address, a new one for each plane.

kubectl sends no token over plain HTTP: client-go ignores the user of a kubeconfig there. The plane therefore serves
TLS, and its kubeconfig carries this certificate as the certificate authority. Keys are on P-256, signatures are ECDSA
with SHA-256 (FIPS 186-5), the encoding is X.509 (RFC 5280) in DER. The arithmetic is neither fast nor protected against
timing attacks from the same machine, which is acceptable: this module signs only once with each key.
"""

import base64
import hashlib
import secrets
import textwrap
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from typing import Final, TypeAlias

LIFETIME: Final = timedelta(days=365)

_P: Final = 2**256 - 2**224 + 2**192 + 2**96 - 1
_A: Final = -3
_N: Final = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
_Point: TypeAlias = tuple[int, int] | None
_G: Final[_Point] = (
    0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
    0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5,
)

_ECDSA_SHA256: Final = (1, 2, 840, 10045, 4, 3, 2)
_EC_KEY: Final = (1, 2, 840, 10045, 2, 1)
_P256: Final = (1, 2, 840, 10045, 3, 1, 7)
_COMMON_NAME: Final = (2, 5, 4, 3)
_SUBJECT_KEY: Final = (2, 5, 29, 14)
_KEY_USAGE: Final = (2, 5, 29, 15)
_ALTERNATIVE_NAMES: Final = (2, 5, 29, 17)
_BASIC_CONSTRAINTS: Final = (2, 5, 29, 19)
_EXTENDED_USAGE: Final = (2, 5, 29, 37)
_SERVER: Final = (1, 3, 6, 1, 5, 5, 7, 3, 1)

_SEQUENCE, _SET, _INTEGER, _BITS, _OCTETS, _OID = 0x30, 0x31, 0x02, 0x03, 0x04, 0x06
_TRUE: Final = b"\x01\x01\xff"
_SIGN_AND_CERTIFY: Final = b"\x03\x02\x02\x84"
"""DER of the keyUsage bits digitalSignature and keyCertSign."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """A serving certificate and its private key, both in PEM."""

    certificate: str
    key: str


def generate_self_signed(*, name: str, address: IPv4Address, now: datetime) -> Certificate:
    """Return a new self-signed certificate for an address and for ``localhost``."""
    private = secrets.randbelow(_N - 1) + 1
    public = _encode_point(_multiply_point(private, _G))
    body = _tbs_certificate(public, name=name, address=address, now=now)
    signature = _der(_SEQUENCE, *(_der_integer(part) for part in _sign_ecdsa(private, hashlib.sha256(body).digest())))
    certificate = _der(_SEQUENCE, body, _der(_SEQUENCE, _der_oid(_ECDSA_SHA256)), _der(_BITS, b"\0", signature))
    key = _der(
        _SEQUENCE,
        _der_integer(1),
        _der(_OCTETS, private.to_bytes(32)),
        _der(0xA0, _der_oid(_P256)),
        _der(0xA1, _der(_BITS, b"\0", public)),
    )
    return Certificate(_pem("CERTIFICATE", certificate), _pem("EC PRIVATE KEY", key))


def _tbs_certificate(public: bytes, *, name: str, address: IPv4Address, now: datetime) -> bytes:
    common = _der(_SEQUENCE, _der(_SET, _der(_SEQUENCE, _der_oid(_COMMON_NAME), _der(0x0C, name.encode()))))
    names = _der(_SEQUENCE, _der(0x82, b"localhost"), _der(0x87, address.packed))
    extensions = (
        _extension(_BASIC_CONSTRAINTS, _der(_SEQUENCE, _TRUE), critical=True),
        _extension(_KEY_USAGE, _SIGN_AND_CERTIFY, critical=True),
        _extension(_EXTENDED_USAGE, _der(_SEQUENCE, _der_oid(_SERVER))),
        _extension(_SUBJECT_KEY, _der(_OCTETS, hashlib.sha256(public).digest()[:20])),
        _extension(_ALTERNATIVE_NAMES, names),
    )
    return _der(
        _SEQUENCE,
        _der(0xA0, _der_integer(2)),  # version 3
        _der_integer(secrets.randbits(120) + 1),
        _der(_SEQUENCE, _der_oid(_ECDSA_SHA256)),
        common,
        _der(_SEQUENCE, _der_utc_time(now - timedelta(hours=1)), _der_utc_time(now + LIFETIME)),
        common,
        _der(_SEQUENCE, _der(_SEQUENCE, _der_oid(_EC_KEY), _der_oid(_P256)), _der(_BITS, b"\0", public)),
        _der(0xA3, _der(_SEQUENCE, *extensions)),
    )


def _sign_ecdsa(private: int, digest: bytes) -> tuple[int, int]:
    while True:
        nonce = secrets.randbelow(_N - 1) + 1
        point = _multiply_point(nonce, _G)
        r = point[0] % _N if point else 0
        s = pow(nonce, -1, _N) * (int.from_bytes(digest) + r * private) % _N
        if r and s:
            return r, s


def _multiply_point(factor: int, point: _Point) -> _Point:
    total: _Point = None
    while factor:
        if factor & 1:
            total = _add_points(total, point)
        point, factor = _add_points(point, point), factor >> 1
    return total


def _add_points(one: _Point, other: _Point) -> _Point:
    if one is None or other is None:
        return one or other
    if one[0] == other[0] and (one[1] + other[1]) % _P == 0:
        return None
    if one == other:
        slope = (3 * one[0] * one[0] + _A) * pow(2 * one[1], -1, _P) % _P
    else:
        slope = (other[1] - one[1]) * pow(other[0] - one[0], -1, _P) % _P
    x = (slope * slope - one[0] - other[0]) % _P
    return x, (slope * (one[0] - x) - one[1]) % _P


def _encode_point(point: _Point) -> bytes:
    assert point is not None  # noqa: S101 - no key is a multiple of the order
    return b"\4" + point[0].to_bytes(32) + point[1].to_bytes(32)


def _der(tag: int, *parts: bytes) -> bytes:
    content = b"".join(parts)
    size = len(content)
    if size < 0x80:  # noqa: PLR2004 - the short form of DER
        return bytes((tag, size)) + content
    length = size.to_bytes((size.bit_length() + 7) // 8)
    return bytes((tag, 0x80 | len(length))) + length + content


def _der_integer(value: int) -> bytes:
    return _der(_INTEGER, value.to_bytes(value.bit_length() // 8 + 1))


def _der_oid(parts: tuple[int, ...]) -> bytes:
    first, second, *rest = parts
    return _der(_OID, b"".join(_base128(part) for part in (40 * first + second, *rest)))


def _base128(value: int) -> bytes:
    digits = [value & 0x7F]
    while value := value >> 7:
        digits.append(0x80 | value & 0x7F)
    return bytes(reversed(digits))


def _der_utc_time(moment: datetime) -> bytes:
    return _der(0x17, moment.astimezone(UTC).strftime("%y%m%d%H%M%SZ").encode())


def _extension(oid: tuple[int, ...], content: bytes, *, critical: bool = False) -> bytes:
    return _der(_SEQUENCE, _der_oid(oid), _TRUE if critical else b"", _der(_OCTETS, content))


def _pem(label: str, der: bytes) -> str:
    lines = "\n".join(textwrap.wrap(base64.b64encode(der).decode(), 64))
    return f"-----BEGIN {label}-----\n{lines}\n-----END {label}-----\n"
