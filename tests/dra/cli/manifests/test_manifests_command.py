"""`dra-reserve manifests` and `dra-reserve examples`: listed, printed, and written without losing a file."""

import os
import re
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from dra.cli.main import main
from dra.cli.manifests.components import COMPONENTS

ROOT = Path(__file__).parents[4]
PRINTED = [each.name for each in COMPONENTS if each.name != "chart"]


@pytest.fixture
def run():
    return lambda *arguments: CliRunner().invoke(main, arguments)


def test_the_list_names_each_component_with_its_purpose(run):
    lines = run("manifests").stdout.splitlines()
    assert [line.partition(" ")[0] for line in lines] == [each.name for each in COMPONENTS]
    assert all(line.partition(" ")[2].strip() for line in lines)


def test_each_kustomization_of_the_tree_has_a_name():
    found = {path.parent for path in (ROOT / "deploy").glob("**/kustomization.yaml") if "helm" not in path.parts}
    used = {"deploy/policies", "deploy/kustomize", "deploy/kustomize/base", "deploy/kustomize/kind"}
    named = {each.path for each in COMPONENTS}
    assert {str(path.relative_to(ROOT)) for path in found} - used <= named


@pytest.mark.parametrize("name", PRINTED)
def test_each_component_is_printed(run, name):
    done = run("manifests", name)
    assert done.exit_code == 0, done.output
    if not name.startswith("downgrade"):
        assert all(isinstance(each, dict) for each in yaml.safe_load_all(done.stdout))


@pytest.mark.parametrize("name", [each.name for each in COMPONENTS if each.is_kustomization])
def test_a_component_without_its_namespace_is_told_before_kubectl_creates_a_part(run, name):
    """Applied alone, ClusterRoles and policies were created, and the objects of the missing namespace were not."""
    done = run("manifests", name)
    objects = list(yaml.safe_load_all(done.stdout))
    made = {each["metadata"]["name"] for each in objects if each["kind"] == "Namespace"}
    absent = {each["metadata"].get("namespace") for each in objects} - made - {None}
    assert all(f"{name}: needs namespace {each}: apply alongside or replace first" in done.stderr for each in absent)
    assert bool(done.stderr) == bool(absent)


def test_a_file_of_a_component_is_printed_by_its_path(run):
    path = "deploy/kustomize/base/config.yaml"
    assert run("manifests", path).stdout == (ROOT / path).read_text()


def test_the_image_is_set_where_it_is_printed(run):
    assert (
        "image: registry.example.com/x:1\n" in run("manifests", "alongside", "--image=registry.example.com/x:1").stdout
    )
    assert run("manifests", "alongside", "--image=x", "--to=y").exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["manifests", "along"], "along: no such manifests; there are alongside, replace", id="manifests"),
        pytest.param(["manifests", "../pyproject.toml"], "no such manifests", id="outside"),
        pytest.param(["manifests", "chart"], "write it with --to FOLDER", id="chart"),
        pytest.param(["examples", "drian"], "drian: no such example; there are colocation, cpus, desch", id="examples"),
        pytest.param(["examples", "../dra"], "no such example", id="outside-of-the-examples"),
    ],
)
def test_a_name_that_does_not_exist_is_told_with_those_that_do(run, arguments, said):
    done = run(*arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert said in done.stderr


def test_a_component_is_written_with_all_that_it_uses(run, tmp_path):
    assert run("manifests", "reservations", "--to", str(tmp_path)).exit_code == 0
    written = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert {"crds/kustomization.yaml", "deploy/reservations/scheduler-configuration.yaml"} <= written
    assert not any(path.startswith("deploy/kustomize") for path in written)


def test_all_are_written_and_a_script_can_be_run(run, tmp_path):
    assert run("manifests", "--to", str(tmp_path)).exit_code == 0
    assert os.access(tmp_path / "deploy/downgrade-checklist.sh", os.X_OK)
    assert (tmp_path / "deploy/policies/gate.yaml").exists()


def test_a_file_that_was_edited_is_kept(run, tmp_path):
    command = ("manifests", "alongside", "--to", str(tmp_path))
    run(*command)
    edited = tmp_path / "deploy/kustomize/base/config.yaml"
    edited.write_text("mode: replace\n")
    (tmp_path / "deploy/kustomize/base/rights.yaml").unlink()
    refused = run(*command)
    assert refused.exit_code == 1
    assert f"{edited}: a file with another content exists; nothing was written" in refused.stderr
    assert not (tmp_path / "deploy/kustomize/base/rights.yaml").exists()
    assert run(*command, "--overwrite").exit_code == 0
    assert edited.read_text() != "mode: replace\n"


def test_examples_are_listed_by_their_titles(run):
    lines = dict(line.split(maxsplit=1) for line in run("examples").stdout.splitlines())
    assert lines["shared-claim"] == "One claim, a thousand pods"
    assert set(lines) == {path.name for path in (ROOT / "examples").iterdir() if path.is_dir()}


def test_an_example_is_printed_with_its_files_and_each_file_as_it_is(run):
    page = run("examples", "shared-claim").stdout
    assert page.startswith("# One claim, a thousand pods")
    assert "  shared-claim/job.yaml\n" in page
    text = (ROOT / "examples/shared-claim/job.yaml").read_text()
    assert run("examples", "shared-claim/job.yaml").stdout == text
    assert run("examples", "migrations/drain-a-node").stdout.startswith("# ")


def test_pages_have_no_link_to_a_file_that_a_package_does_not_have(run, tmp_path):
    assert run("examples", "--to", str(tmp_path)).exit_code == 0
    for page in tmp_path.rglob("*.md"):
        links = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text())
        assert [link for link in links if not (page.parent / link).exists()] == [], page
