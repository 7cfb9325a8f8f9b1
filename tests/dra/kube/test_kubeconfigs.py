"""Kubeconfig files of the usual kind are read here; what is not that simple is left to the kubernetes package."""

import base64
import ssl
import subprocess
import sys
from datetime import UTC, datetime
from ipaddress import IPv4Address

import pytest
import yaml

from dra.kube.config_overrides import ConfigOverrides
from dra.kube.kubeconfigs import MalformedKubeconfigError, read_kubeconfig, static_context
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


def read_static(paths):
    return static_context(read_kubeconfig(paths).resolve(ConfigOverrides()))


def data(text):
    return base64.b64encode(text.encode()).decode()


def test_a_token_is_a_header_and_in_no_repr(tmp_path):
    found = read_static(written(tmp_path, {"token": "hush"}))
    assert (found.server, found.authorization, found.verify) == ("https://127.0.0.1:1", "Bearer hush", True)
    assert "hush" not in repr(found)


def test_certificates_may_be_in_the_file_or_beside_it(tmp_path):
    (tmp_path / "cert.pem").write_text(CERTIFICATE.certificate)
    (tmp_path / "key.pem").write_text(CERTIFICATE.key)
    beside = read_static(
        written(
            tmp_path,
            {"client-certificate": "cert.pem", "client-key": "key.pem"},
            cluster={"certificate-authority": "cert.pem"},
        )
    )
    inside = read_static(
        written(
            tmp_path,
            {"client-certificate-data": data(CERTIFICATE.certificate), "client-key-data": data(CERTIFICATE.key)},
            cluster={"certificate-authority-data": data(CERTIFICATE.certificate)},
        )
    )
    assert beside == inside
    assert inside.context().verify_mode == ssl.CERT_REQUIRED


def test_tls_that_need_not_be_checked_is_not(tmp_path):
    found = read_static(written(tmp_path, cluster={"insecure-skip-tls-verify": True}))
    assert found.context().verify_mode == ssl.CERT_NONE


@pytest.mark.parametrize(
    "user",
    [
        pytest.param({"exec": {"command": "login"}}, id="exec-plugin"),
        pytest.param({"tokenFile": "token"}, id="token-file"),
        pytest.param({"username": "u", "password": "p"}, id="password"),
        pytest.param({"client-certificate-data": "!"}, id="certificate-without-a-key"),
        pytest.param({"client-certificate": "nowhere", "client-key": "nowhere"}, id="files-that-are-not-there"),
    ],
)
def test_what_changes_or_is_not_right_is_left_to_others(tmp_path, user):
    assert read_static(written(tmp_path, user)) is None


@pytest.mark.parametrize(
    "cluster",
    [
        pytest.param({"proxy-url": "http://proxy:1"}, id="proxy"),
    ],
)
def test_an_unusual_cluster_is_left_to_others(tmp_path, cluster):
    assert read_static(written(tmp_path, cluster=cluster)) is None


@pytest.mark.parametrize(
    ("contexts", "overrides", "text"),
    [
        pytest.param(("x",), {"context": "y"}, "context y does not exist", id="no-such-context"),
        pytest.param(("x", "x"), {}, "there are several contexts x", id="a-context-twice"),
        pytest.param(("x",), {"cluster": "y"}, "cluster y does not exist; use one of: c", id="no-such-cluster"),
        pytest.param(("x",), {"user": "y"}, "user y does not exist; use one of: u", id="no-such-user"),
        pytest.param(("x",), {"impersonate_groups": ("g",)}, "require a user: --as", id="groups-without-a-user"),
        pytest.param(("x",), {"impersonate_uid": "7"}, "require a user: --as", id="a-uid-without-a-user"),
    ],
)
def test_what_a_command_line_names_must_exist(tmp_path, contexts, overrides, text):
    path = written(tmp_path, contexts=contexts)
    with pytest.raises(MalformedKubeconfigError, match=text):
        read_kubeconfig(path).resolve(ConfigOverrides(**overrides))


def resolved(tmp_path, user=None, *, cluster=None, **overrides):
    found = read_kubeconfig(written(tmp_path, user, cluster=cluster)).resolve(ConfigOverrides(**overrides))
    return found.cluster, found.user


@pytest.mark.parametrize(
    ("cluster", "overrides", "expected"),
    [
        pytest.param(
            {"tls-server-name": "a"}, {"server": "https://b"}, {"server": "https://b"}, id="server-clears-the-name"
        ),
        pytest.param({}, {"tls_server_name": "b"}, {"tls-server-name": "b"}, id="server-name"),
        pytest.param(
            {"certificate-authority-data": "x"},
            {"insecure_skip_tls_verify": True},
            {"insecure-skip-tls-verify": True},
            id="insecure-clears-the-authority",
        ),
        pytest.param(
            {"insecure-skip-tls-verify": True, "certificate-authority-data": "x"},
            {"certificate_authority": "ca.pem"},
            {"certificate-authority": "ca.pem"},
            id="authority-clears-insecure-and-data",
        ),
        pytest.param({"server": "h:1"}, {}, {"server": "http://h:1"}, id="no-scheme"),
    ],
)
def test_flags_replace_the_settings_of_the_cluster_as_for_kubectl(tmp_path, cluster, overrides, expected):
    found, _ = resolved(tmp_path, cluster=cluster, **overrides)
    assert found == {"server": "https://127.0.0.1:1"} | expected


@pytest.mark.parametrize(
    ("user", "overrides", "expected"),
    [
        pytest.param({"tokenFile": "/t"}, {"token": "a"}, {"token": "a"}, id="token-over-a-file"),
        pytest.param({"exec": {"command": "p"}}, {"token": "a"}, {"token": "a"}, id="token-over-a-plugin"),
        pytest.param({"username": "u", "password": "p"}, {"token": "a"}, {"token": "a"}, id="token-over-a-password"),
        pytest.param(
            {"client-certificate-data": "x", "client-key-data": "y"},
            {"client_certificate": "c.pem", "client_key": "k.pem"},
            {"client-certificate": "c.pem", "client-key": "k.pem"},
            id="certificate-and-key",
        ),
        pytest.param({"token": "a"}, {"server": "http://h"}, {}, id="no-credentials-without-tls"),
    ],
)
def test_flags_replace_the_credentials_of_the_user_as_for_kubectl(tmp_path, user, overrides, expected):
    _, found = resolved(tmp_path, user, **overrides)
    assert found == expected


@pytest.mark.parametrize(
    ("user", "overrides", "headers"),
    [
        pytest.param(
            {"as": "ann", "as-groups": ["a", "b"], "as-user-extra": {"example.com/Team": ["x"]}},
            {},
            [
                ("Impersonate-User", "ann"),
                ("Impersonate-Group", "a"),
                ("Impersonate-Group", "b"),
                ("Impersonate-Extra-example.com%2FTeam", "x"),
            ],
            id="of-the-kubeconfig",
        ),
        pytest.param(
            {"as": "ann"},
            {"impersonate_user": "bob", "impersonate_uid": "7", "impersonate_groups": ("g",)},
            [("Impersonate-User", "bob"), ("Impersonate-Uid", "7"), ("Impersonate-Group", "g")],
            id="of-the-command-line",
        ),
    ],
)
def test_impersonation_becomes_headers_and_is_no_credential(tmp_path, user, overrides, headers):
    found = read_kubeconfig(written(tmp_path, user)).resolve(ConfigOverrides(**overrides))
    assert (list(found.impersonation), found.user) == (headers, {})


def test_of_several_files_the_first_wins_and_paths_are_relative_to_their_file(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
        (folder / "ca.pem").write_text(folder.name)
        written(folder, {"token": folder.name}, cluster={"certificate-authority": "ca.pem"})
    (first / "config").write_text(
        "clusters: [{name: c, cluster: {server: 'https://a', certificate-authority: ca.pem}}]"
    )
    found = read_static(f"/nowhere:{first}/config:{second}/config")
    assert (found.server, found.ca, found.token) == ("https://a", b"first", "second")


def test_the_namespace_is_that_of_the_selected_context(tmp_path):
    path = tmp_path / "config"
    contexts = [{"name": each, "context": {"cluster": "c", "namespace": f"of-{each}"}} for each in ("x", "y")]
    path.write_text(yaml.safe_dump({"current-context": "x", "contexts": contexts}))
    config = read_kubeconfig(str(path))
    assert (config.namespace(), config.namespace(ConfigOverrides(context="y"))) == ("of-x", "of-y")


def test_it_takes_no_kubernetes_package(tmp_path):
    path = written(tmp_path, {"token": "hush"}, cluster={"insecure-skip-tls-verify": True})
    code = (
        "import asyncio, sys; from dra.kube.credentials import KubeconfigCredentials; "
        f"asyncio.run(KubeconfigCredentials({path!r}).access()); sys.exit('kubernetes' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
