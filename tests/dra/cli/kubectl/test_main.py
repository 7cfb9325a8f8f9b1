"""The kubectl plugin as a command: fast help, errors on stderr, exit codes."""

import io
import json
import shlex
import subprocess
import sys
import textwrap

import pytest
from click.testing import CliRunner

from dra.cli.kubectl.main import COMMANDS, SECTIONS, PrintableStream, main, printable_streams
from dra.cli.kubectl.snapshots.bundle_file import write_bundle
from tests.dra.engine.diagnosis.cluster_states import claim, snapshot


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Run `kubectl dra` where no cluster can be found by accident."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    return lambda *arguments: CliRunner().invoke(main, arguments)


@pytest.mark.parametrize("arguments", [[], ["-h"], ["--help"]], ids=" ".join)
def test_help_lists_the_commands(run, arguments):
    shown = run(*arguments)
    assert all(name in shown.output for name in COMMANDS)


@pytest.mark.parametrize("arguments", ["audit -w", "tree --watch", "explain claim c -w", "simulate -w"])
def test_what_cannot_be_watched_says_what_can(run, arguments):
    shown = run(*arguments.split())
    assert shown.exit_code == 2
    assert "does not support --watch. Commands that do: kubectl dra get claims" in " ".join(shown.stderr.split())


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_help_and_its_first_sentence_is_that_of_the_list(run, name):
    shown = run(name, "--help")
    assert shown.exit_code == 0
    assert f"Usage: dra {name}" in shown.output or f" {name} " in shown.output
    assert COMMANDS[name][1] in " ".join(shown.output.split())


SLOW_IMPORTS = ("aiohttp", "asyncio", "grpc", "kubernetes", "pydantic", "yaml", "dra.engine.claims", "dra.kube.client")


@pytest.mark.parametrize(
    ("arguments", "without"),
    [
        pytest.param(["--help"], (*SLOW_IMPORTS, "msgspec"), id="list-of-commands"),
        pytest.param(["explain", "--help"], SLOW_IMPORTS, id="explain"),
    ],
)
def test_help_imports_nothing_that_is_slow(arguments, without):
    code = textwrap.dedent(f"""
        import sys
        from click.testing import CliRunner
        from dra.cli.kubectl.main import main
        before = set(sys.modules)
        assert CliRunner().invoke(main, {arguments}).exit_code == 0
        print([name for name in {without} if name in set(sys.modules) - before])
    """)
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout == "[]\n"


@pytest.mark.parametrize(
    "arguments", [["get", "claims"], ["explain", "claim", "c"], ["audit"], ["tree"], ["usage"]], ids=" ".join
)
def test_a_command_that_reads_loads_no_server_of_the_page(arguments, tmp_path):
    bundle = tmp_path / "bundle.tgz"
    write_bundle(snapshot(claim("c")), bundle)
    code = textwrap.dedent(f"""
        import sys
        from click.testing import CliRunner
        from dra.cli.kubectl.main import main
        outcome = CliRunner().invoke(main, [*{arguments}, "-n", "ml", "--from", {str(bundle)!r}])
        assert outcome.exit_code == 0, outcome.output
        server = ("dra.cli.page", "dra.cli.kubectl.ui", "aiohttp", "dra.httpserver")
        print([name for name in server if name in sys.modules])
    """)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout, done.stderr) == ("[]\n", "")


ARGUMENTS = {
    "explain": ["claim", "c"],
    "why": ["pod/p"],
    "get": ["claims"],
    "simulate": ["-f", "/dev/null"],
    "apply": ["-f", "examples/shared-claim/claim.yaml"],
    "colocation": ["apply"],
    "release": ["claim", "c"],
    "reserve": ["r", "--cpu=1", "--owner=pod/p"],
    "wait": ["claim/c"],
    "migrate": ["pod/p"],
    "deschedule": ["--dry-run"],
    "approve": ["--all"],
    "reject": ["j"],
    "ungate": ["ml"],
}
"""What a command cannot do without."""


@pytest.mark.parametrize("name", COMMANDS)
def test_without_a_cluster_a_command_fails_with_code_2_and_says_so_on_stderr(run, name):
    refused = run(name, *ARGUMENTS.get(name, ()))
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "no kubeconfig" in refused.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_a_wrong_option_is_a_usage_error(run, name):
    refused = run(name, "--fast")
    assert refused.exit_code == 2
    assert "No such option" in refused.stderr


def test_a_reason_is_explained_without_a_cluster(run):
    shown = run("explain", "reason", "workloadgone")
    assert shown.exit_code == 0
    assert shown.output.startswith("reason WorkloadGone: ")
    assert "  do        To reserve the claim for another object, correct reserve.dra/reserved" in shown.output
    assert json.loads(run("explain", "reason/WorkloadGone", "-o", "json").output)["reason"] == "WorkloadGone"


@pytest.mark.parametrize("words", [("rule", "7"), ("rule/7",), ("rules", "release"), ("rule", "07")], ids=" ".join)
def test_a_rule_is_explained_without_a_cluster(run, words):
    shown = run("explain", *words)
    assert (shown.exit_code, shown.output.partition(",")[0]) == (
        0,
        "rule 7 Release: The workload entry is removed when its owner removes it",
    )
    assert "  code      dra/engine/claims/workload_entry.py" in shown.output
    assert json.loads(run("explain", *words, "-o", "json").output)["rule"] == 7


def test_a_rule_that_does_not_exist_is_an_error_with_all_rules(run):
    shown = run("explain", "rule", "15")
    assert shown.exit_code == 2
    assert "rule 15: not found; the rules are 1 List, 2 Enter, " in shown.stderr


def test_a_reason_that_does_not_exist_is_an_error_with_those_that_are_like_it(run):
    shown = run("explain", "reason", "WorkloadGne")
    assert shown.exit_code == 2
    assert "reason WorkloadGne: not found. Did you mean WorkloadGone or " in shown.output


def test_without_arguments_it_prints_its_help_as_kubectl_does(run):
    shown, asked = run(), run("--help")
    assert (shown.exit_code, shown.stdout, shown.stderr) == (0, asked.stdout, "")


@pytest.mark.parametrize("arguments", [["help", "audit"], ["help", "audit", "-h"]], ids=" ".join)
def test_help_is_a_command_too(run, arguments):
    assert run(*arguments).output == run("audit", "--help").output


def test_each_command_is_in_one_section_of_the_list():
    assert sorted(name for names in SECTIONS.values() for name in names) == sorted(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_each_help_ends_with_examples_that_the_command_understands(run, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for file in ("cluster.tgz", "job.yaml", "claim.yaml", "policy.yaml"):
        (tmp_path / file).touch()
    _, _, examples = run(name, "--help").output.partition("  Examples:\n")
    lines = [line.strip() for line in examples.strip().splitlines()]
    assert lines
    for line in lines:
        done = run(*shlex.split(line.partition(" | ")[0])[2:])
        assert "Usage:" not in done.stderr, f"{line}: {done.stderr}"


def test_a_format_that_is_almost_one_is_told_which(run):
    assert "Did you mean yaml?" in run("get", "claims", "-o", "yml").stderr


def test_usage_is_what_people_type_and_a_typo_gets_an_answer(run):
    refused = run("explian", "claim")
    assert refused.exit_code == 2
    assert refused.stderr.startswith("Usage: kubectl dra [OPTIONS] COMMAND")
    assert "Did you mean 'explain'?" in refused.stderr


def test_everything_on_the_way_out_is_made_printable(monkeypatch):
    out, err = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    with printable_streams():
        sys.stdout.write("claim ml/\x1b[2Jtrain\n")
        sys.stderr.write("\x9b2J\n")
    assert out.getvalue() == "claim ml/\\u001b[2Jtrain\n"
    assert err.getvalue() == "\\u009b2J\n"
    assert sys.stdout is out, "for a while"


def test_all_else_is_the_streams_own():
    stream = PrintableStream(io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    assert stream.encoding == "ascii"
    assert stream.write("a\x1b") == 2
