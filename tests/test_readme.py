"""What the documents tell people to type exists; what takes no time is run.

The pages of the examples are executed as they stand, on a real cluster: tests/scenarios/test_examples.py.
"""

import importlib.util
import itertools
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec
import pytest
from click.testing import CliRunner

from dra.cli.kubectl.main import main as kubectl_dra
from dra.cli.main import main
from dra.engine.claims.codes import Code
from dra.engine.colocation.reasons import ColocationReason
from dra.engine.cpus.node_policies import NodeLabelReason
from dra.engine.diagnosis.problem_codes import ProblemCode
from dra.engine.messages.impairments import ClaimImpairment, Impairment
from dra.engine.messages.object_sizes import ObjectSizeReason
from dra.engine.migration.reasons import MigrationReason
from dra.engine.resctrl.reasons import ResctrlCode
from dra.engine.reservations.rejections import RejectionReason
from dra.engine.reservations.reservation_reasons import ReservationReason
from dra.engine.suppression.notices import NoticeReason
from localplane.fault_injection import Fault, FaultRule
from localplane.plane.admin import FaultRules
from localplane.schemas.builtin_schemas import Dialect
from tests.localplane.threaded import served
from tests.violations import for_each

ROOT = Path(__file__).parents[1]
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("examples/*/*.md")), *sorted(ROOT.glob("docs/**/*.md"))]
MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = set(re.findall(r"^([a-z-]+):.*## ", MAKEFILE, re.MULTILINE))
DRA_RESERVE = Path(sys.executable).with_name("dra-reserve")

each_document = for_each(DOCUMENTS, name=lambda path: path.relative_to(ROOT))


def commands(document: Path) -> Iterator[list[str]]:
    """Yield the words of each command in the blocks of a document and in its text."""
    text = document.read_text()
    for block in re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            yield shlex.split(line, comments=True)
    for line in re.findall(r"^\$ (.*)$", text, re.MULTILINE):
        yield shlex.split(line)
    for words in re.findall(r"`((?:make|dra-reserve) [^`]*)`", text):
        yield shlex.split(words)


@each_document
def test_links_lead_somewhere(document: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", document.read_text())
    assert [link for link in links if not (document.parent / link).exists()] == []


def test_the_readme_is_read_aloud_in_two_minutes() -> None:
    """280 words, links' targets, blocks and pictures left out, take two minutes at 140 words a minute."""
    text = re.sub(r"```.*?```|!\[[^]]*\]\([^)]*\)", "", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    assert len(re.findall(r"[\w.-]*\w", re.sub(r"\]\([^)]*\)", "]", text))) <= 280


@pytest.mark.parametrize("document", ["README.md", "docs/index.md"])
def test_the_claim_that_is_shown_first_can_be_applied_as_it_stands(tmp_path: Path, document: str) -> None:
    """It had no apiVersion and no spec: whoever copied it read an error of kubectl first."""
    (shown,) = re.findall(r"```yaml\n(.*?)```", (ROOT / document).read_text(), re.DOTALL)
    with served(tmp_path, Dialect.STOCK) as kubeconfig:
        done = CliRunner().invoke(kubectl_dra, ["apply", f"--kubeconfig={kubeconfig}", "-f", "-"], input=shown)
    assert (done.exit_code, done.stdout) == (0, "resourceclaim.resource.k8s.io/train serverside-applied\n"), done.output


@each_document
def test_make_has_the_targets(document: Path) -> None:
    named = {
        word
        for words in commands(document)
        if words[:1] == ["make"]
        for word in words[1:]
        if not re.search("^-|=", word)
    }
    assert named <= TARGETS


@each_document
def test_dra_reserve_has_the_subcommands_and_options(document: Path) -> None:
    for program, *words in filter(None, commands(document)):
        if Path(program).name == "dra-reserve":
            arguments = words
            command: click.Command = main
            while isinstance(command, click.Group):
                if command.invoke_without_command and not command.commands.keys() & set(arguments[:1]):
                    break
                name, *arguments = arguments
                command = command.commands[name]
            known = {option for parameter in command.params for option in parameter.opts} | {"--help"}
            assert {word.partition("=")[0] for word in arguments if word.startswith("-")} <= known


@each_document
def test_modules_and_files_are_there(document: Path) -> None:
    for words in commands(document):
        for option, value in itertools.pairwise(words):
            if option == "-m":
                assert importlib.util.find_spec(value), value
            if option in {"-f", "-k"} and value != "-":  # - is the standard input
                assert (ROOT / value).exists(), value


def test_the_notes_name_modules_and_functions_that_exist() -> None:
    text = (ROOT / "KEP-notes.md").read_text()
    missing = []
    for path, function in re.findall(r"`([\w/]+\.py)`(?: \(`(\w+)`)?", text):
        found = [file for base in (ROOT, ROOT / "dra" / "engine") if (file := base / path).exists()]
        if not found or (function and f"def {function}(" not in found[0].read_text()):
            missing.append((path, function))
    assert missing == []


def named_in_table(document: str, head: str) -> set[str]:
    """Return the names in the first column of a table."""
    table = (ROOT / document).read_text().partition(head)[2].partition("\n\n")[0]
    return set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE))


def test_the_reasons_to_know_first_exist() -> None:
    assert named_in_table("docs/how-to/troubleshooting.md", "| reason | meaning |") < set(Code)


@each_document
def test_reasons_that_are_mentioned_exist(document: Path) -> None:
    told = set(re.findall(r"\(?Events?\)? `([A-Z][A-Za-z]+)`|\(`([A-Z][a-z]+[A-Z][A-Za-z]+)`\)", document.read_text()))
    known = {*Code, *Impairment, *ClaimImpairment, *NodeLabelReason, *ProblemCode, *ReservationReason, *RejectionReason}
    known |= {*ObjectSizeReason, *ColocationReason, *NoticeReason, *ResctrlCode, *MigrationReason}
    assert {word for words in told for word in words if word} <= known


def test_make_help_lists_every_target() -> None:
    shown = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout  # noqa: S607
    assert set(re.findall(r"^  make ([a-z-]+) ", shown, re.MULTILINE)) == TARGETS
    assert set(re.findall(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)) == TARGETS


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["--version"], ["controller", "--help"], ["local", "up", "--help"], ["demo", "--help"]],
    ids=" ".join,
)
def test_the_command_explains_itself(arguments: list[str]) -> None:
    assert subprocess.run([DRA_RESERVE, *arguments], capture_output=True, text=True, check=True).stdout


def test_the_rules_of_the_example_are_rules() -> None:
    raw = (ROOT / "examples/local-plane/faults.json").read_bytes()
    rules = msgspec.json.decode(raw, type=FaultRules).rules
    shown = (ROOT / "docs/how-to/local-plane.md").read_text().partition("```json\n")[2].partition("```")[0]
    assert msgspec.json.decode(shown, type=FaultRule) in rules


def test_each_fault_is_explained() -> None:
    table = (ROOT / "docs/how-to/local-plane.md").read_text().partition("| fault |")[2].partition("\n\n")[0]
    named = {
        name for head in re.findall(r"^\| (`[^|]*) \|", table, re.MULTILINE) for name in re.findall(r"`(\w+)`", head)
    }
    assert named == set(Fault)


def test_ci_runs_the_commands_of_the_readme_as_they_stand() -> None:
    run = (ROOT / ".ci/run").read_text()
    typed = {
        " ".join(words) for words in commands(ROOT / "README.md") if words[:1] == ["make"] and "=" not in words[-1]
    }
    assert {"make demo", "make test", "make lint contracts types", "make test-cluster"} <= typed
    own_machine = {"make image", "make help"}  # an image needs docker; the list of targets is read by a test above
    assert [
        each
        for each in sorted(typed - own_machine)
        if not re.search(rf"^ *(beside \w+ )?step .*{each}\b", run, re.MULTILINE)
    ] == []
