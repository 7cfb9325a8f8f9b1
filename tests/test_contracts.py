"""The contracts of the house hold for every package, and can fail."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PACKAGES = PROJECT["tool"]["importlinter"]["root_packages"]
LINT_IMPORTS = Path(sys.executable).with_name("lint-imports")

NOT_OURS_TO_SHIP = {"release", "tests", "bench"}


VIOLATIONS = {
    "the-engine-keeps-time": ("dra.engine", "import time", "time", "Purity"),
    "deep-in-the-engine": ("dra.engine.claims", "from concurrent import futures", "concurrent", "Purity"),
    "the-api-reads-files": ("dra.api", "import yaml", "yaml", "Purity"),
    "cel-draws-chance": ("dra.cel", "from random import Random", "random", "Purity"),
    "the-model-asks-the-system": ("dra.model", "import os.path", "os", "Purity"),
    "the-engine-reaches-across": ("dra.engine", "import dra.kube.clock", "dra.kube.clock", "Layers"),
    "upwards": ("dra.model", "import dra.engine.claims.claim_cache", "dra.engine.claims.claim_cache", "Layers"),
    "from-below-the-controller": ("dra.kube", "import controller.claims", "controller.claims", "Layers"),
    "node-side-to-cluster-side": ("kubeletplugin", "import controller.claims", "controller.claims", "Layers"),
    "a-circle": (
        "dra.cli.kubectl.snapshots",
        "import dra.cli.kubectl.apply",
        "dra.cli.kubectl.apply",
        "Plugin",
    ),
    "a-check-knows-reservations": (
        "dra.engine.kube_scheduler",
        "import dra.engine.reservations.view",
        "dra.engine.reservations.view",
        "Scheduling",
    ),
    "a-command-asks-a-loop": (
        "dra.cli.manifests",
        "import controller.reconciler",
        "controller.reconciler",
        "Commands",
    ),
    "a-command-loads-the-page": ("dra.cli.kubectl.diagnosis", "import dra.cli.page", "dra.cli.page", "Page"),
}
"""Name → package, a line in a module of its own there, what that line imports, and the contract that it breaks."""


def module(name: str) -> str:
    """Return the module of a violation."""
    return f"{VIOLATIONS[name][0]}.{name.replace('-', '_')}"


@pytest.fixture(scope="module")
def complaints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What is said of each contract, in a copy of the packages with all violations at once."""
    tree = tmp_path_factory.mktemp("tree")
    shutil.copy(ROOT / "pyproject.toml", tree)
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tree / package, ignore=shutil.ignore_patterns("__pycache__"))
    for name, (_, line, *_) in VIOLATIONS.items():
        (tree / module(name).replace(".", "/")).with_suffix(".py").write_text(f"{line}\n")
    escaped = tree / "dra" / "escaped" / "__init__.py"
    escaped.parent.mkdir()
    escaped.touch()
    wide = os.environ | {"COLUMNS": "200"}  # a row each, however long the names
    done = subprocess.run([LINT_IMPORTS, "--no-cache"], cwd=tree, env=wide, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    _, _, said = done.stdout.partition("Broken contracts\n")
    headings = re.split(r"^(\w+): .*\n-+\n", said, flags=re.MULTILINE)
    return dict(zip(headings[1::2], headings[2::2], strict=True))


@pytest.mark.parametrize("name", VIOLATIONS)
def test_a_violation_is_caught(complaints: dict[str, str], name: str) -> None:
    _, _, imported, contract = VIOLATIONS[name]
    caught = rf"^- +{re.escape(module(name))} -> {re.escape(imported)} \(l\.1\)$"
    assert re.search(caught, complaints[contract], re.MULTILINE), complaints[contract]


def test_a_package_without_a_layer_is_caught(complaints: dict[str, str]) -> None:
    assert "\n- dra.escaped\n" in complaints["House"]


def test_the_contracts_speak_of_every_package_that_is_shipped() -> None:
    found = {path.parent.name for path in ROOT.glob("*/__init__.py")} - NOT_OURS_TO_SHIP
    assert found == set(PACKAGES)
    assert found == set(PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"])
    assert found | {"bench"} == set(PROJECT["tool"]["mypy"]["packages"])
