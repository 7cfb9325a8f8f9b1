import os
import shutil
import socket
import subprocess
import sys

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from dra.cli.main import main
from tests.violations import for_each_case


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Run `dra-reserve` where no cluster can be found by accident."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    return lambda *arguments: CliRunner().invoke(main, arguments)


@pytest.fixture
def configuration(tmp_path):
    def write(text):
        path = tmp_path / "configuration.yaml"
        path.write_text(text)
        return str(path)

    return write


@pytest.mark.parametrize("arguments", [["-h"], ["--help"], ["controller", "-h"]], ids=" ".join)
def test_help_tells_what_there_is(run, arguments):
    shown = run(*arguments)
    assert shown.exit_code == 0
    assert "Usage: " in shown.stdout
    assert ("--mode" if "controller" in arguments else "controller") in shown.stdout


def test_without_a_command_help_is_shown(run):
    assert "controller" in run().output


def test_the_version_is_that_of_the_package(run):
    shown = run("--version")
    assert shown.exit_code == 0
    assert "dra-reserve" in shown.stdout or "main" in shown.stdout


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("mod: replace", "mod: unknown field; did you mean mode?", id="unknown-field"),
        pytest.param(
            "placeholders: yielding",
            "configuration.yaml: placeholders: yielding requires reservations: true",
            id="together",
        ),
        pytest.param("mode: both", "mode: Input should be 'replace' or 'alongside'", id="no-such-mode"),
        pytest.param("leaderElection: {leaseSecond: 3}", "leaderElection.leaseSecond", id="unknown-field-inside"),
        pytest.param("- a\n- b", "must be a mapping", id="a-list"),
        pytest.param("mode: [", "not valid YAML", id="no-yaml"),
        pytest.param(
            "releaseRules: [{resource: jobs.batch, expression: 'object.status =='}]",
            "releaseRules: jobs.batch: 'object.status =='",
            id="no-cel",
        ),
        pytest.param(
            "releaseRules: [{resource: batch/v1/jobs, expression: 'true'}]",
            "releaseRules: batch/v1/jobs",
            id="no-resource",
        ),
        pytest.param(
            "leaderElection: {leaseSeconds: 10, renewSeconds: 10}", "leaderElection: ", id="a-lease-that-cannot-be-kept"
        ),
    ],
)
def test_a_bad_configuration_is_refused_in_one_line(run, configuration, tmp_path, text, expected):
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text("{}")
    refused = run("controller", "--config", configuration(text), "--kubeconfig", str(kubeconfig))
    assert refused.exit_code == 1, refused.exception
    assert expected in refused.stderr
    assert "Traceback" not in refused.output


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param(["--config", "/nowhere.yaml"], "'/nowhere.yaml' does not exist", id="no-such-file"),
        pytest.param(["--mode", "both"], "'both' is not one of", id="no-such-mode"),
        pytest.param(["--fast"], "No such option", id="no-such-option"),
    ],
)
def test_a_bad_command_line_is_refused_as_a_usage_error(run, arguments, expected):
    refused = run("controller", *arguments)
    assert refused.exit_code == 2
    assert expected in refused.stderr


def test_without_a_cluster_it_says_where_it_has_looked(run):
    refused = run("controller")
    assert refused.exit_code == 1
    assert "no kubeconfig" in refused.stderr


def test_a_kubeconfig_that_is_not_there_is_told_at_once(run):
    refused = run("controller", "--kubeconfig", "/nowhere/config")
    assert refused.exit_code == 2
    assert "'/nowhere/config' does not exist" in refused.stderr


def test_a_kubeconfig_of_the_environment_that_is_not_there_is_told_at_once(run, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", "/nowhere/config")
    refused = run("controller")
    assert refused.exit_code == 1
    assert refused.stderr == "Error: kubeconfig /nowhere/config: no such file\n"


@pytest.mark.parametrize("endpoint", ["probes", "metrics"])
def test_a_port_that_is_taken_is_told(run, configuration, tmp_path, endpoint):
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text("{}")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ports = {"probes": 0, "metrics": 0, endpoint: taken.getsockname()[1]}
        text = "\n".join(f"{name}: {{port: {port}}}" for name, port in ports.items())
        refused = run("controller", "--config", configuration(text), "--kubeconfig", str(kubeconfig))
    assert refused.exit_code == 1, refused.exception
    assert "address already in use" in refused.stderr


@for_each_case(
    [
        ("lo", ["local"]),
        ("demo --p", ["--pods"]),
        ("local u", ["up"]),
        ("completion b", ["bash"]),
        ("local up --api s", ["stock"]),
        ("manifests annotate", ["annotate-nodes"]),
        ("examples dr", ["drain"]),
        ("examples drain/s", ["drain/service.yaml"]),
    ]
)
def test_a_shell_completes_commands_options_and_names(words, offered):
    *typed, last = words.split()
    found = ShellComplete(main, {}, "dra-reserve", "_").get_completions(typed, last)
    assert [each.value for each in found] == offered


BASH = r"""
source <(dra-reserve completion bash)
complete -p dra-reserve >/dev/null || exit 1
COMP_WORDS=({line}) COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
_dra_reserve_completion dra-reserve
printf '%s\n' "${{COMPREPLY[@]}}"
"""


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not on PATH")
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("dra-reserve compl", ["completion"]),
        ("dra-reserve local up --ap", ["--api"]),
        ("dra-reserve completion z", ["zsh"]),
    ],
)
def test_bash_loads_the_printed_script_and_offers_what_can_follow(tmp_path, line, offered):
    program = tmp_path / "dra-reserve"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m dra.cli.main "$@"\n')
    program.chmod(0o755)
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        [shutil.which("bash"), "--norc", "-c", BASH.format(line=line)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.split() == offered


@pytest.mark.parametrize(("shell", "line"), [("zsh", "#compdef dra-reserve"), ("fish", "complete --no-files")])
def test_other_shells_get_a_script_of_their_own(run, shell, line):
    assert line in run("completion", shell).stdout


@pytest.mark.parametrize("command", ["controller", "scheduler-extender", "descheduler", "demo", "completion"])
def test_help_imports_nothing_that_talks_to_a_server(command):
    heavy = ("aiohttp", "asyncio", "pydantic", "ssl", "dra.kube.client")
    code = (
        "import sys; from dra.cli.main import main; "
        f"main([{command!r}, '--help'], standalone_mode=False); "
        f"sys.stderr.write(' '.join(name for name in {heavy!r} if name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert (done.stderr, "Usage: " in done.stdout) == ("", True)
