"""The contracts of the house hold for every package, and can fail."""

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

NOT_OURS_TO_SHIP = {"tests", "bench"}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the packages and their contracts."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def lint(tree: Path) -> tuple[int, str]:
    done = subprocess.run([LINT_IMPORTS, "--no-cache"], cwd=tree, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


@pytest.mark.parametrize(
    ("file", "line", "contract"),
    [
        pytest.param("dra/engine/x.py", "import time", "Purity", id="the-engine-keeps-time"),
        pytest.param("dra/engine/claims/x.py", "from concurrent import futures", "Purity", id="deep-in-the-engine"),
        pytest.param("dra/api/x.py", "import yaml", "Purity", id="the-api-reads-files"),
        pytest.param("dra/cel/x.py", "from random import Random", "Purity", id="cel-draws-chance"),
        pytest.param("dra/model/x.py", "import os.path", "Purity", id="the-model-asks-the-system"),
        pytest.param("dra/engine/x.py", "import dra.kube.clock", "Layers", id="the-engine-reaches-across"),
        pytest.param("dra/model/x.py", "import dra.engine.world", "Layers", id="upwards"),
        pytest.param("dra/kube/x.py", "import controller.claims", "Layers", id="from-below-the-controller"),
        pytest.param("kubeletplugin/x.py", "import controller.claims", "Layers", id="node-side-to-cluster-side"),
        pytest.param("dra/escaped/__init__.py", "", "House", id="a-package-without-a-layer"),
    ],
)
def test_a_violation_is_caught(tree: Path, file: str, line: str, contract: str) -> None:
    path = tree / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"{line}\n")

    code, output = lint(tree)

    assert code != 0
    broken = [row.partition(":")[0] for row in output.splitlines() if row.endswith(" BROKEN")]
    assert contract in broken, output


def test_the_contracts_speak_of_every_package_that_is_shipped() -> None:
    found = {path.parent.name for path in ROOT.glob("*/__init__.py")} - NOT_OURS_TO_SHIP
    assert found == set(PACKAGES)
    assert found == set(PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"])
    assert found | {"bench"} == set(PROJECT["tool"]["mypy"]["packages"])
