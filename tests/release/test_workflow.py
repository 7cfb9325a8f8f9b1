"""The release workflow runs the steps of the plan, with the fewest permissions and actions that cannot change."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from release.plan import steps
from release.project import read_project
from tests.cluster import binaries

ROOT = Path(__file__).parents[2]
WORKFLOWS = ROOT / ".github" / "workflows"
TEXT = (WORKFLOWS / "release.yaml").read_text()
WORKFLOW = yaml.safe_load(TEXT)
JOBS = WORKFLOW["jobs"]
PROJECT = read_project()
PLAN = steps(PROJECT, base="b@sha256:0", commit="c", commit_time="1")
RUNS = {name: "\n".join(each.get("run", "") for each in job["steps"]) for name, job in JOBS.items()}


@pytest.mark.parametrize("workflow", sorted(WORKFLOWS.iterdir()), ids=lambda path: path.name)
def test_each_action_is_pinned_by_its_commit_and_says_which_version_that_is(workflow):
    used = re.findall(r"uses: (.*)", workflow.read_text())
    assert used
    assert [each for each in used if not re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", each)] == []


def test_a_tag_starts_it_and_nothing_else():
    assert WORKFLOW[True] == {"push": {"tags": ["v*"]}}  # YAML reads `on` as a boolean


def test_each_job_has_permissions_and_a_time_limit_of_its_own():
    assert WORKFLOW["permissions"] == {}
    assert [name for name, job in JOBS.items() if not {"permissions", "timeout-minutes"} <= set(job)] == []


def test_what_builds_can_neither_sign_nor_upload():
    for name in ("build", "try"):
        assert set(JOBS[name]["permissions"].values()) <= {"read"}


def test_what_signs_or_uploads_runs_no_code_of_dependencies():
    trusted = [name for name, job in JOBS.items() if "write" in job["permissions"].values()]
    assert trusted == ["attest", "images", "package", "release"]
    for name in trusted:
        assert not re.search(r"\b(pip|make|venv|go)\b", RUNS[name]), name


def test_all_that_uploads_waits_for_what_was_tried_and_approved():
    assert JOBS["attest"]["needs"] == ["build", "try"]
    assert JOBS["attest"]["environment"] == "release"
    assert [JOBS[name]["needs"] for name in ("images", "package", "release")] == [
        "attest",
        "attest",
        ["images", "package"],
    ]


def test_each_step_that_uploads_is_run_and_all_others_by_one_command():
    uploads = {each.name for each in PLAN if each.publishes and each.commands}
    run = {word for text in RUNS.values() for word in re.findall(r"publish-\w+", text)}
    assert run == uploads
    assert 'make release BASE="$BASE"' in RUNS["build"]


def test_actions_do_what_the_plan_leaves_to_actions():
    left = " ".join(each.without_commands for each in PLAN)
    for action in ("actions/attest", "pypa/gh-action-pypi-publish"):
        assert action in left
        assert f"uses: {action}@" in TEXT


def test_the_registry_is_that_of_the_image_and_the_charts():
    registry = WORKFLOW["env"]["REGISTRY"]
    assert PROJECT.image.startswith(f"{registry}/")
    assert PROJECT.charts.startswith(f"{registry}/")


def test_no_expression_is_pasted_into_a_script():
    assert [name for name, text in RUNS.items() if "${{" in text] == []


@pytest.mark.slow
def test_actionlint_finds_nothing():
    files = sorted(WORKFLOWS.glob("*.yaml"))
    command = [binaries.build(binaries.actionlint()), "-shellcheck=", "-pyflakes=", *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
