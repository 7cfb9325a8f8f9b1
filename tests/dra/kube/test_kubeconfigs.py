"""Kubeconfig files of the usual kind are read here; what is not that simple is left to the kubernetes package."""

import base64
import ssl
import subprocess
import sys
from datetime import UTC, datetime
from ipaddress import IPv4Address

import pytest
import yaml

from dra.kube.kubeconfigs import read_static_context
from localplane import certificates

CERTIFICATE = certificates.generate_self_signed(
    name="x", address=IPv4Address("127.0.0.1"), now=datetime(2026, 11, 21, tzinfo=UTC)
)


def written(tmp_path, user=None, *, cluster=None, contexts=("x",)):
    path = tmp_path / "config"
    document = {
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"} | (cluster or {})}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [{"name": each, "context": {"cluster": "c", "user": "u"}} for each in contexts],
        "current-context": "x",
    }
    path.write_text(yaml.safe_dump(document))
    return str(path)


def data(text):
    return base64.b64encode(text.encode()).decode()


def test_a_token_is_a_header_and_in_no_repr(tmp_path):
    found = read_static_context(written(tmp_path, {"token": "hush"}))
    assert (found.server, found.authorization, found.verify) == ("https://127.0.0.1:1", "Bearer hush", True)
    assert "hush" not in repr(found)


def test_certificates_may_be_in_the_file_or_beside_it(tmp_path):
    (tmp_path / "cert.pem").write_text(CERTIFICATE.certificate)
    (tmp_path / "key.pem").write_text(CERTIFICATE.key)
    beside = read_static_context(
        written(
            tmp_path,
            {"client-certificate": "cert.pem", "client-key": "key.pem"},
            cluster={"certificate-authority": "cert.pem"},
        )
    )
    inside = read_static_context(
        written(
            tmp_path,
            {"client-certificate-data": data(CERTIFICATE.certificate), "client-key-data": data(CERTIFICATE.key)},
            cluster={"certificate-authority-data": data(CERTIFICATE.certificate)},
        )
    )
    assert beside == inside
    assert inside.context().verify_mode == ssl.CERT_REQUIRED


def test_tls_that_need_not_be_checked_is_not(tmp_path):
    found = read_static_context(written(tmp_path, cluster={"insecure-skip-tls-verify": True}))
    assert found.context().verify_mode == ssl.CERT_NONE


@pytest.mark.parametrize(
    "user",
    [
        pytest.param({"exec": {"command": "login"}}, id="exec-plugin"),
        pytest.param({"tokenFile": "token"}, id="token-file"),
        pytest.param({"username": "u", "password": "p"}, id="password"),
        pytest.param({"token": "a", "as": "somebody"}, id="impersonation"),
        pytest.param({"client-certificate-data": "!"}, id="certificate-without-a-key"),
        pytest.param({"client-certificate": "nowhere", "client-key": "nowhere"}, id="files-that-are-not-there"),
    ],
)
def test_what_changes_or_is_not_right_is_left_to_others(tmp_path, user):
    assert read_static_context(written(tmp_path, user)) is None


@pytest.mark.parametrize(
    "cluster",
    [
        pytest.param({"proxy-url": "http://proxy:1"}, id="proxy"),
        pytest.param({"tls-server-name": "other"}, id="server-name"),
        pytest.param({"server": "127.0.0.1:1"}, id="no-scheme"),
    ],
)
def test_an_unusual_cluster_is_left_to_others(tmp_path, cluster):
    assert read_static_context(written(tmp_path, cluster=cluster)) is None


def test_a_context_that_is_not_there_or_there_twice_is_left_to_others(tmp_path):
    assert read_static_context(written(tmp_path), context="y") is None
    assert read_static_context(written(tmp_path, contexts=("x", "x"))) is None


def test_it_takes_no_kubernetes_package(tmp_path):
    path = written(tmp_path, {"token": "hush"}, cluster={"insecure-skip-tls-verify": True})
    code = (
        "import asyncio, sys; from dra.kube.credentials import KubeconfigCredentials; "
        f"asyncio.run(KubeconfigCredentials({path!r}).access()); sys.exit('kubernetes' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
