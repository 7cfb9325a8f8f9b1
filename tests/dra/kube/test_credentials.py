import asyncio
import os
import ssl
import stat
import subprocess
import sys
from datetime import timedelta

import pytest
import yaml

from dra.kube import credentials
from dra.kube.config_overrides import ConfigOverrides
from dra.kube.credentials import KubeconfigCredentials, RestConfig, ServiceAccountCredentials, StaticCredentials
from dra.kube.errors import Unreachable
from tests.dra.kube.virtual import NOON

REAL_TIME = True  # exec plugins are processes


class StoppedClock:
    def __init__(self):
        self.seconds = 0.0

    def now(self):
        return self.seconds

    def wall(self):
        return NOON + timedelta(seconds=self.seconds)


@pytest.fixture
def clock():
    return StoppedClock()


@pytest.fixture(scope="module")
def ca(tmp_path_factory):
    """Any certificate that this machine has will do as a CA."""
    context = ssl.create_default_context()
    context.load_default_certs()
    der = context.get_ca_certs(binary_form=True)
    if not der:
        pytest.skip("no CA certificate on this machine")
    path = tmp_path_factory.mktemp("ca") / "ca.crt"
    path.write_text(ssl.DER_cert_to_PEM_cert(der[0]))
    return path


def service_account(tmp_path, ca, clock, written="one"):
    (tmp_path / "token").write_text(f"{written}\n")
    (tmp_path / "ca.crt").write_bytes(ca.read_bytes())
    environment = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    return ServiceAccountCredentials(folder=tmp_path, environment=environment, clock=clock)


async def test_a_pod_has_its_own_token_and_ca(tmp_path, ca, clock):
    access = await service_account(tmp_path, ca, clock).access()
    assert (access.host, access.authorization) == ("https://10.0.0.1:443", "Bearer one")
    assert access.tls.verify_mode == ssl.CERT_REQUIRED


async def test_a_pod_uses_the_token_of_the_command_line_and_impersonates(tmp_path, ca, clock):
    service_account(tmp_path, ca, clock)
    environment = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    overrides = ConfigOverrides(token="other", impersonate_user="ann")  # noqa: S106 - of a test
    account = ServiceAccountCredentials(folder=tmp_path, environment=environment, overrides=overrides, clock=clock)
    access = await account.access()
    assert (access.authorization, access.impersonation) == ("Bearer other", (("Impersonate-User", "ann"),))


async def test_an_ipv6_service_gets_brackets(tmp_path, ca, clock):
    (tmp_path / "token").write_text("one")
    (tmp_path / "ca.crt").write_bytes(ca.read_bytes())
    environment = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    account = ServiceAccountCredentials(folder=tmp_path, environment=environment, clock=clock)
    assert (await account.access()).host == "https://[fd00::1]:443"


async def test_a_rotated_token_is_used_within_a_minute_and_the_connections_stay(tmp_path, ca, clock):
    account = service_account(tmp_path, ca, clock)
    old = await account.access()
    (tmp_path / "token").write_text("two")
    assert await account.access() is old
    clock.seconds = 60.0
    new = await account.access()
    assert new.authorization == "Bearer two"
    assert new.tls is old.tls  # connections are pooled by context


async def test_a_token_that_was_refused_is_read_again_at_once(tmp_path, ca, clock):
    account = service_account(tmp_path, ca, clock)
    old = await account.access()
    (tmp_path / "token").write_text("two")
    assert (await account.access(rejected=old)).authorization == "Bearer two"


async def test_a_missing_token_is_an_error_that_says_so(tmp_path, ca, clock):
    account = service_account(tmp_path, ca, clock)
    (tmp_path / "token").unlink()
    with pytest.raises(Unreachable, match=r"^service account: .*is its token mounted\?$"):
        await account.access()


async def test_secrets_are_in_no_repr(tmp_path, ca, clock):
    access = await service_account(tmp_path, ca, clock, written="secret").access()
    assert "secret" not in repr(access) + repr(StaticCredentials(access))


def kubeconfig(tmp_path, user, clock, *, server="https://127.0.0.1:1", context=""):
    path = tmp_path / "config"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": server, "insecure-skip-tls-verify": True}}],
        "users": [{"name": "u", "user": user}, {"name": "other", "user": {"token": "other"}}],
        "contexts": [
            {"name": "x", "context": {"cluster": "c", "user": "u"}},
            {"name": "y", "context": {"cluster": "c", "user": "other"}},
        ],
        "current-context": "x",
    }
    path.write_text(yaml.safe_dump(document))
    return KubeconfigCredentials(str(path), overrides=ConfigOverrides(context=context), clock=clock)


async def test_a_kubeconfig_has_host_token_and_tls(tmp_path, clock):
    access = await kubeconfig(tmp_path, {"token": "one"}, clock).access()
    assert (access.host, access.authorization) == ("https://127.0.0.1:1", "Bearer one")
    assert access.tls.verify_mode == ssl.CERT_NONE


async def test_another_context_can_be_chosen(tmp_path, clock):
    access = await kubeconfig(tmp_path, {"token": "one"}, clock, context="y").access()
    assert access.authorization == "Bearer other"


async def test_a_name_and_password_work_as_well(tmp_path, clock):
    access = await kubeconfig(tmp_path, {"username": "u", "password": "p"}, clock).access()
    assert access.authorization == "Basic dTpw"


async def test_a_static_token_is_not_read_again_unless_refused(tmp_path, clock):
    config = kubeconfig(tmp_path, {"token": "one"}, clock)
    old = await config.access()
    kubeconfig(tmp_path, {"token": "two"}, clock)
    clock.seconds = 1e6
    assert await config.access() is old
    assert (await config.access(rejected=old)).authorization == "Bearer two"


async def test_a_token_file_is_read_again_every_minute(tmp_path, clock):
    (tmp_path / "token").write_text("one")
    config = kubeconfig(tmp_path, {"tokenFile": "token"}, clock)
    assert (await config.access()).authorization == "Bearer one"
    (tmp_path / "token").write_text("two")
    clock.seconds = 60.0
    assert (await config.access()).authorization == "Bearer two"


def plugin(tmp_path, *, expires="", body=None):
    """Write an exec plugin that gives out token-1, token-2, …; `expires` goes into its answer."""
    script = tmp_path / "plugin.sh"
    expiry = f', "expirationTimestamp": "{expires}"' if expires else ""
    answer = (
        '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",'
        f' "status": {{"token": "token-%s"{expiry}}}}}'
    )
    script.write_text(
        body or f"#!/bin/sh\necho x >> {tmp_path}/runs\nprintf '{answer}' \"$(wc -l < {tmp_path}/runs | tr -d ' ')\"\n"
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(script)}}


async def test_an_exec_plugin_runs_once_and_again_after_a_refusal(tmp_path, clock):
    config = kubeconfig(tmp_path, plugin(tmp_path), clock)
    old = await config.access()
    assert old.authorization == "Bearer token-1"
    clock.seconds = 1e6
    assert await config.access() is old
    assert (await config.access(rejected=old)).authorization == "Bearer token-2"


async def test_fifty_refused_at_once_run_the_plugin_once(tmp_path, clock):
    config = kubeconfig(tmp_path, plugin(tmp_path), clock)
    old = await config.access()
    fresh = await asyncio.gather(*(config.access(rejected=old) for _ in range(50)))
    assert {each.authorization for each in fresh} == {"Bearer token-2"}


async def test_an_exec_token_is_replaced_before_it_expires(tmp_path, clock):
    expires = (NOON + timedelta(seconds=600)).strftime("%Y-%m-%dT%H:%M:%SZ")
    config = kubeconfig(tmp_path, plugin(tmp_path, expires=expires), clock)
    assert (await config.access()).authorization == "Bearer token-1"
    clock.seconds = 530.0
    assert (await config.access()).authorization == "Bearer token-1"
    clock.seconds = 541.0
    assert (await config.access()).authorization == "Bearer token-2"


async def test_a_plugin_that_fails_is_not_taken_for_no_credentials(tmp_path, clock):
    config = kubeconfig(tmp_path, plugin(tmp_path, body="#!/bin/sh\nexit 1\n"), clock)
    with pytest.raises(Unreachable, match=r"the exec plugin .*plugin\.sh returned no credentials"):
        await config.access()


@pytest.mark.parametrize(
    ("content", "text"),
    [
        pytest.param("current-context: nope\ncontexts: []\nclusters: []\nusers: []\n", "nope", id="unknown-context"),
        pytest.param("{", "while parsing", id="no-yaml"),
        pytest.param("", "", id="empty"),
        pytest.param(
            "{current-context: x, clusters: [{name: c, cluster: {}}], users: [],"
            " contexts: [{name: x, context: {cluster: c}}]}",
            "its cluster has no server",
            id="no-server",
        ),
    ],
)
async def test_a_file_that_is_no_kubeconfig_is_named(tmp_path, clock, content, text):
    path = tmp_path / "config"
    path.write_text(content)
    with pytest.raises(Unreachable, match=rf"^kubeconfig {path}: .*{text}") as caught:
        await KubeconfigCredentials(str(path), clock=clock).access()
    assert not caught.value.is_outcome_unknown


async def test_a_file_that_is_not_there_is_named(clock, caplog):
    with pytest.raises(Unreachable, match=r"^kubeconfig /nowhere/config: no such file$"):
        await KubeconfigCredentials("/nowhere/config", clock=clock).access()
    assert not caplog.records, "each attempt would be a line in the log"


async def test_of_several_files_one_is_enough(tmp_path, clock):
    path = tmp_path / "config"
    kubeconfig(tmp_path, {"token": "one"}, clock)
    assert (await KubeconfigCredentials(f"/nowhere/config:{path}", clock=clock).access()).host


class TestFind:
    @pytest.fixture(autouse=True)
    def home(self, tmp_path, monkeypatch):
        monkeypatch.setenv("HOME", str(tmp_path))
        for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
            monkeypatch.delenv(name, raising=False)
        return tmp_path

    @staticmethod
    def in_a_pod(monkeypatch):
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")

    def test_a_file_that_is_named_wins(self, home, monkeypatch):
        self.in_a_pod(monkeypatch)
        given, env = home / "given", home / "env"
        for path in (given, env):
            path.touch()
        monkeypatch.setenv("KUBECONFIG", str(env))
        assert credentials.find(str(given))._path == str(given)
        assert credentials.find()._path == str(env)

    def test_a_file_that_is_named_and_not_there_is_an_error_at_once(self, home, monkeypatch):
        self.in_a_pod(monkeypatch)
        monkeypatch.setenv("KUBECONFIG", f"{home}/config")
        with pytest.raises(Unreachable, match=rf"^kubeconfig {home}/config: no such file$"):
            credentials.find()

    def test_then_the_file_in_the_home(self, home, monkeypatch):
        self.in_a_pod(monkeypatch)
        (home / ".kube").mkdir()
        (home / ".kube" / "config").write_text("")
        assert credentials.find()._path == str(home / ".kube" / "config")

    def test_then_the_pods_own(self, monkeypatch):
        self.in_a_pod(monkeypatch)
        assert isinstance(credentials.find(), ServiceAccountCredentials)

    def test_a_user_without_a_home_is_no_obstacle(self, monkeypatch):
        self.in_a_pod(monkeypatch)
        monkeypatch.delenv("HOME")
        monkeypatch.setattr(os, "getuid", lambda: 2**31 - 2)
        assert isinstance(credentials.find(), ServiceAccountCredentials)

    async def test_a_server_of_the_command_line_needs_no_file(self, monkeypatch):
        self.in_a_pod(monkeypatch)
        overrides = ConfigOverrides(server="https://10.0.0.9:6443", token="t")  # noqa: S106 - as above
        access = await credentials.find(overrides=overrides).access()
        assert (access.host, access.authorization) == ("https://10.0.0.9:6443", "Bearer t")

    def test_and_else_it_says_where_it_looked(self):
        with pytest.raises(
            Unreachable,
            match=r"^API server: no kubeconfig \(.*, \$KUBECONFIG\), and this process does not run "
            r"in a pod; use --kubeconfig, or for a local plane: eval \"\$\(dra-reserve local env\)\"$",
        ):
            credentials.find()


def test_reading_a_kubeconfig_is_the_only_thing_that_imports_the_kubernetes_package(tmp_path):
    code = "import sys, dra.kube.http, dra.kube.client; sys.exit('kubernetes' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path.parent)


def test_access_that_is_equal_is_no_news():
    assert RestConfig("h", "a") == RestConfig("h", "a")
    assert RestConfig("h", "a") != RestConfig("h", "b")


def test_a_context_that_is_not_there_is_told_with_those_that_are(tmp_path, clock):
    kubeconfig(tmp_path, {"token": "one"}, clock)
    (path,) = tmp_path.iterdir()
    with pytest.raises(Unreachable, match=r"^context z: is not in kubeconfig .*; use one of: x, y$"):
        credentials.find(str(path), overrides=ConfigOverrides(context="z"))


async def test_a_token_of_the_command_line_wins_over_an_exec_plugin_which_does_not_run(tmp_path, clock):
    kubeconfig(tmp_path, plugin(tmp_path), clock)
    overrides = ConfigOverrides(token="mine")  # noqa: S106 - as above
    access = await KubeconfigCredentials(str(tmp_path / "config"), overrides=overrides, clock=clock).access()
    assert (access.authorization, (tmp_path / "runs").exists()) == ("Bearer mine", False)


async def test_an_exec_plugin_beside_its_file_may_have_a_relative_path(tmp_path, clock, monkeypatch):
    user = plugin(tmp_path)
    user["exec"]["command"] = "./plugin.sh"
    config = kubeconfig(tmp_path, user, clock)
    monkeypatch.chdir("/")
    assert (await config.access()).authorization == "Bearer token-1"
