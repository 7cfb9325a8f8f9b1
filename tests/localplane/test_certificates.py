"""The certificate that a plane makes for itself."""

import shutil
import ssl
import subprocess
from datetime import timedelta
from ipaddress import IPv4Address

import pytest

from dra.kube.clock import SYSTEM
from localplane import certificates

LOOPBACK = IPv4Address("127.0.0.1")


@pytest.fixture
def made():
    return certificates.generate_self_signed(name="dra-reserve", address=LOOPBACK, now=SYSTEM.wall())


def test_certificate_and_key_belong_together(made, tmp_path):
    (tmp_path / "both").write_text(made.key + made.certificate)
    ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(tmp_path / "both")


def test_it_is_for_the_loopback_address_and_its_own_authority(made):
    context = ssl.create_default_context(cadata=made.certificate)
    [found] = context.get_ca_certs()

    assert found["subject"] == found["issuer"] == ((("commonName", "dra-reserve"),),)
    assert found["subjectAltName"] == (("DNS", "localhost"), ("IP Address", "127.0.0.1"))
    lasts = ssl.cert_time_to_seconds(found["notAfter"]) - ssl.cert_time_to_seconds(found["notBefore"])
    assert lasts == (certificates.LIFETIME + timedelta(hours=1)).total_seconds()


def test_no_two_are_alike(made):
    assert certificates.generate_self_signed(name="dra-reserve", address=LOOPBACK, now=SYSTEM.wall()).key != made.key


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl to ask")
def test_openssl_finds_no_fault_in_it(made, tmp_path):
    file = tmp_path / "certificate"
    file.write_text(made.certificate)
    command = ["openssl", "verify", "-x509_strict", "-verify_ip", "127.0.0.1", "-CAfile", str(file), str(file)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.stdout.strip().endswith("OK"), answer.stdout + answer.stderr
