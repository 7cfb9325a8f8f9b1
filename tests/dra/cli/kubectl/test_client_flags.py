"""kubectl's flags for requests."""

import asyncio
import dataclasses
import re

import click
import pytest
import yaml
from click.testing import CliRunner

from dra.cli.kubectl.client_flags import client_options, flags_of
from dra.cli.kubectl.completion import completions
from dra.cli.kubectl.main import COMMANDS, main
from tests.violations import for_each_case


@click.command()
@client_options
def command(cluster_flags):
    shown = {name: value for name, value in dataclasses.asdict(cluster_flags.overrides).items() if value}
    click.echo(f"{shown} {cluster_flags.request_timeout}")


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        pytest.param([], "{} None", id="none"),
        pytest.param(
            ["--as=ann", "--as-group=a", "--as-group=b", "--as-uid=7"],
            "{'impersonate_user': 'ann', 'impersonate_uid': '7', 'impersonate_groups': ('a', 'b')} None",
            id="impersonation",
        ),
        pytest.param(
            ["--context=x", "--cluster=c", "--user=u", "--token=t"],
            "{'context': 'x', 'cluster': 'c', 'user': 'u', 'token': 't'} None",
            id="names",
        ),
        pytest.param(
            ["-s", "https://h:1", "--tls-server-name=n", "--insecure-skip-tls-verify"],
            "{'server': 'https://h:1', 'tls_server_name': 'n', 'insecure_skip_tls_verify': True} None",
            id="server",
        ),
        pytest.param(["--request-timeout=1m30s"], "{} 90.0", id="timeout"),
        pytest.param(["--request-timeout=0"], "{} None", id="no-timeout-of-its-own"),
    ],
)
def test_flags_become_overrides_and_a_limit(arguments, shown):
    assert CliRunner().invoke(command, arguments).output.strip() == shown


@pytest.mark.parametrize("option", ["--certificate-authority", "--client-certificate", "--client-key"])
def test_files_of_certificates_must_exist(tmp_path, option):
    path = tmp_path / "pem"
    assert CliRunner().invoke(command, [option, str(path)]).exit_code == 2
    path.touch()
    assert str(path) in CliRunner().invoke(command, [option, str(path)]).output


KUBECTL_FLAGS = ("as", "as-group", "as-uid", "certificate-authority", "client-certificate", "client-key", "cluster")
KUBECTL_FLAGS += ("context", "insecure-skip-tls-verify", "kubeconfig", "request-timeout", "server", "tls-server-name")


@for_each_case(sorted(set(COMMANDS) - {"preflight"}))
def test_each_command_of_the_plugin_has_the_flags_of_kubectl(name):
    command = main.commands[name]
    for leaf in command.commands.values() if isinstance(command, click.Group) else [command]:
        names = {text for option in leaf.params for text in option.opts}
        assert {f"--{each}" for each in (*KUBECTL_FLAGS, "token", "user")} <= names, leaf.name


@for_each_case(sorted(COMMANDS))
def test_in_the_help_the_options_of_the_command_come_before_those_of_all_commands(name):
    shown = CliRunner().invoke(main, [name, "--help"]).output
    options = re.findall(r"^  (?:-\w, )?--([a-z-]+)", shown.partition("Options:")[2], re.MULTILINE)
    of_all = [each in (*KUBECTL_FLAGS, "token", "user") and (name, each) != ("preflight", "as") for each in options]
    assert of_all[:-1] == sorted(of_all[:-1])
    assert options[-1] == "help"


def test_a_flag_of_the_command_line_selects_the_server_and_the_user(tmp_path):
    path = tmp_path / "config"
    path.write_text(
        yaml.safe_dump(
            {
                "current-context": "x",
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", "namespace": "ml"}}],
                "clusters": [{"name": each, "cluster": {"server": f"https://{each}"}} for each in ("c", "d")],
                "users": [{"name": each, "user": {"token": each}} for each in ("u", "v")],
            }
        )
    )
    flags = flags_of({"kubeconfig": str(path), "cluster": "d", "user": "v", "impersonate_user": "ann"})
    access = asyncio.run(flags.find_credentials().access())
    assert (access.host, access.authorization) == ("https://d", "Bearer v")
    assert (access.impersonation, flags.current_namespace()) == ((("Impersonate-User", "ann"),), "ml")


@pytest.mark.parametrize(("option", "offered"), [("--context", ["x", "xy"]), ("--cluster", ["x"]), ("--user", ["xu"])])
def test_names_of_the_kubeconfig_are_completed(tmp_path, monkeypatch, option, offered):
    path = tmp_path / "config"
    entries = {"contexts": ["x", "xy", "z"], "clusters": ["x", "y"], "users": ["xu", "y"]}
    path.write_text(yaml.safe_dump({kind: [{"name": each} for each in names] for kind, names in entries.items()}))
    monkeypatch.setenv("KUBECONFIG", str(path))
    assert completions(["get", "claims", option, "x"])[0] == offered
