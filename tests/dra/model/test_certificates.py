"""When certificates expire, read from their DER."""

import ssl
import subprocess
from contextlib import suppress
from datetime import UTC, datetime
from ipaddress import IPv4Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.model.certificates import UnreadableCertificateError, expiry_times
from localplane.certificates import LIFETIME, generate_self_signed
from tests.controller.extender.authority import openssl

NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def made(now=NOON):
    return generate_self_signed(name="x", address=IPv4Address("127.0.0.1"), now=now).certificate.encode()


def test_each_certificate_of_a_file_is_read_among_other_text():
    later = datetime(2027, 3, 1, tzinfo=UTC)
    assert expiry_times(b"subject=x\n" + made() + b"\n# the old one\n" + made(later)) == (
        NOON + LIFETIME,
        later + LIFETIME,
    )
    assert expiry_times(b"no certificate") == ()


@pytest.mark.parametrize("days", [1, 40 * 365], ids=["two-digits-of-a-year", "four-digits-of-a-year"])
def test_both_forms_of_time_are_read(tmp_path, days):
    """Years from 2050 on are written with four digits."""
    key, certificate = tmp_path / "key", tmp_path / "crt"
    made = ("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    openssl(*made, "-days", days, "-subj", "/CN=x", "-keyout", key, "-out", certificate)
    command = ["openssl", "x509", "-in", str(certificate), "-noout", "-enddate"]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    (expires,) = expiry_times(certificate.read_bytes())
    assert expires.timestamp() == ssl.cert_time_to_seconds(told.removeprefix("notAfter="))


@given(cut=st.integers(60, 500), byte=st.integers(0, 255))
def test_what_is_no_certificate_is_refused_or_read_and_never_worse(cut, byte):
    spoiled = bytearray(PEM)
    spoiled[cut % len(spoiled)] = byte
    with suppress(UnreadableCertificateError):
        expiry_times(bytes(spoiled))


PEM = made()
