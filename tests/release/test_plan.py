"""The steps of a release: what they make fits together, and nothing is uploaded by accident."""

import re
import subprocess
from pathlib import Path

import pytest

from release import __main__ as shell
from release.plan import Artefacts, describe, steps
from release.project import Project
from tests.commands import shell_environment

ROOT = Path(__file__).parents[2]
DIGEST = "sha256:" + "a" * 64
BASE = f"python:3.13@{DIGEST}"
PROJECT = Project(name="dra-reserve", version="1.2.3", source="https://a/b", image="r/i", charts="r/c")
PLAN = steps(PROJECT, base=BASE, commit="c" * 40, commit_time="17")
NAMES = [each.name for each in PLAN]
MADE = Artefacts(version="1.2.3")


def words(name):
    (step,) = (each for each in PLAN if each.name == name)
    return [word for command in step.commands for word in command]


def test_everything_is_checked_and_tried_before_anything_is_uploaded():
    uploads = [each.publishes for each in PLAN]
    assert uploads == sorted(uploads)
    assert NAMES[0] == "check"
    assert NAMES.index("try") == uploads.index(True) - 1


def test_each_file_of_the_release_is_written_by_one_step():
    written = [name for each in PLAN for name in each.writes]
    assert len(written) == len(set(written))
    assert set(written) == {*MADE.uploaded, MADE.image}


def test_each_step_says_what_it_runs_or_who_does_it():
    assert [each.name for each in PLAN if bool(each.commands) == bool(each.without_commands)] == []


def test_the_image_is_for_two_platforms_and_labelled_with_its_commit():
    command = words("image")
    assert "linux/amd64,linux/arm64" in command
    assert f"BASE={BASE}" in command
    labels = dict(word.split("=", 1) for word in command if word.startswith("org.opencontainers.image."))
    assert labels["org.opencontainers.image.revision"] == "c" * 40
    assert labels["org.opencontainers.image.version"] == "1.2.3"
    assert labels["org.opencontainers.image.base.digest"] == DIGEST


def test_modules_that_steps_run_exist():
    modules = {command[2] for each in PLAN for command in each.commands if command[:2] == ("python", "-m")}
    assert modules
    assert [name for name in modules if not (ROOT / f"{name.replace('.', '/')}.py").is_file()] == []


def test_targets_that_steps_make_exist():
    targets = {command[1] for each in PLAN for command in each.commands if command[0] == "make"}
    makefile = (ROOT / "Makefile").read_text()
    assert [target for target in targets if not re.search(rf"^{target}:", makefile, re.MULTILINE)] == []


def test_a_description_has_every_command_and_file():
    text = "".join(describe(each) for each in PLAN)
    assert "    $ helm push dist/dra-reserve-1.2.3.tgz oci://r/c\n" in text
    assert [name for name in MADE.uploaded if name not in text] == []
    assert "'org.opencontainers.image.licenses=Apache-2.0 AND MIT'" in text


def test_without_names_all_steps_run_but_those_that_upload():
    found = shell.chosen(PLAN, [], publish=True)
    assert [each.name for each in found] == NAMES[: NAMES.index("try") + 1]


def test_named_steps_run_in_the_order_of_the_plan():
    assert [each.name for each in shell.chosen(PLAN, ["krew", "dist"], publish=False)] == ["dist", "krew"]


@pytest.mark.parametrize(
    ("names", "text"),
    [
        pytest.param(["nothing"], "step nothing: unknown; steps: check, dist", id="unknown"),
        pytest.param(["publish-chart"], "step publish-chart: uploads", id="uploads"),
        pytest.param(["dist", "attest"], "step attest: uploads", id="uploads-beside-others"),
    ],
)
def test_what_must_not_run_is_refused(names, text):
    with pytest.raises(shell.UsageError, match=re.escape(text)):
        shell.chosen(PLAN, names, publish=False)


def test_an_upload_is_allowed_by_a_flag():
    assert [each.name for each in shell.chosen(PLAN, ["publish-chart"], publish=True)] == ["publish-chart"]


def test_a_base_without_a_digest_is_refused_with_the_command_that_finds_one():
    plan = steps(PROJECT, base="python:3", commit="c", commit_time="17")
    with pytest.raises(shell.UsageError, match=r"step image: base image python:3 has no digest"):
        shell.require_base(plan, "python:3")
    shell.require_base([each for each in plan if each.name == "krew"], "python:3")
    shell.require_base(PLAN, BASE)


def test_a_step_ends_with_its_first_failing_command(capfd):
    failing = type(PLAN[0])(
        name="x", purpose="", commands=(("python", "-c", "raise SystemExit(3)"), ("python", "-c", "print('ran')"))
    )
    assert shell.run(failing) == 3
    told = capfd.readouterr()
    assert "step x: exit code 3" in told.err
    assert "ran" not in told.out


def test_a_missing_program_is_named(capsys):
    assert shell.run(type(PLAN[0])(name="x", purpose="", commands=(("no-such-program",),))) == 1
    assert "step x: needs no-such-program on PATH" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--dry-run"], ["DRY_RUN=1"]], ids=["option-of-make", "variable"])
def test_make_prints_the_plan_and_runs_none_of_it(words):
    command = ["make", "--old-file=.venv/.installed", "release", *words, "PYTHON=false"]
    done = subprocess.run(
        command, cwd=ROOT, env=shell_environment(), capture_output=True, text=True, timeout=60, check=True
    )
    assert [name for name in NAMES if f"\n{name}: " not in done.stdout] == []
    assert "SHA256SUMS" in done.stdout
    assert done.stderr == ""
