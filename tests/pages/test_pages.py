"""Tutorial and examples are followed to the letter on the local plane, and print what the pages show."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.pages.following import ROOT, alike, follow, programs, steps

FOLLOWED = ("training-job", "shared-gpu", "raycluster", "jobset", "cpus", "drain")
"""Folders of examples/; the others need nodes, plugins or a scheduler of a kind that the plane has not."""

needs_kubectl = pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl on PATH")


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    path = f"{programs(folder / 'bin')}:{os.environ['PATH']}"
    return {"PATH": path, "STATE": str(folder / "state"), "HOME": str(folder), "NO_COLOR": "1"}


@pytest.fixture(scope="module")
def plane(environment, tmp_path_factory):
    """One for all examples: each has a namespace of its own, and leaves nothing behind."""
    folder = tmp_path_factory.mktemp("plane")
    options = ["--api", "stock", "--nodes", "3", "--devices", "4", "--folder", str(folder)]
    program = Path(environment["PATH"].partition(":")[0]) / "dra-reserve"
    subprocess.run([program, "local", "up", "--detach", *options], check=True, capture_output=True, timeout=60)
    yield {"KUBECONFIG": str(folder / "kubeconfig")}
    subprocess.run([program, "local", "down", "--folder", str(folder)], check=True, capture_output=True, timeout=60)


@needs_kubectl
@pytest.mark.parametrize("name", FOLLOWED)
def test_an_example_can_be_followed_to_the_letter(name, plane, environment):
    page = ROOT / "examples" / name / "README.md"
    assert len(steps(page)) > 2
    assert list(follow(page, environment | plane)) == []


@needs_kubectl
def test_the_tutorial_can_be_followed_to_the_letter(environment, tmp_path):
    page = ROOT / "docs/tutorial/first-claim.md"
    folder = tmp_path / "tutorial"
    own = {"make venv": ":", 'export PATH="$PWD/.venv/bin:$PATH"': ":"}  # the programs of this tree are on PATH
    own |= {'"$PWD/.dra-tutorial/kubeconfig"': f'"{folder}/kubeconfig"', ".dra-tutorial": str(folder)}
    try:
        assert list(follow(page, environment, replacing=own)) == []
    finally:
        program = Path(environment["PATH"].partition(":")[0]) / "dra-reserve"
        subprocess.run(
            [program, "local", "down", "--folder", str(folder)], capture_output=True, timeout=60, check=False
        )
    assert not (folder / "kubeconfig").exists()


@pytest.mark.parametrize("name", FOLLOWED)
def test_each_manifest_of_an_example_is_in_its_page(name):
    folder = ROOT / "examples" / name
    named = set(re.findall(r"[\w-]+\.yaml", (folder / "README.md").read_text()))
    assert named == {path.name for path in folder.glob("*.yaml")}


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        pytest.param("NAME   AGE\na      1s\n", "NAME  AGE\na     2m5s\n", True, id="ages"),
        pytest.param("pod web-7d4b8c9f6d-x2x4z\n", "pod web-5c6d7f8b9d-b2c4d\n", True, id="made-up-names"),
        pytest.param("a\n…\nc\n", "a\nb\nb\nc\n", True, id="left-out"),
        pytest.param("a\nc\n", "a\nb\nc\n", False, id="a-line-too-few"),
        pytest.param("40 pods\n", "41 pods\n", False, id="another-number"),
    ],
)
def test_what_changes_from_run_to_run_is_not_compared(shown, printed, same):
    assert alike(shown, printed) is same
