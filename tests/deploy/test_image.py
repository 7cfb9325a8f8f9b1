"""The image without an image builder: what goes into it is there, locked and the same each time."""

import fnmatch
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from release import sbom

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "deploy" / "Containerfile").read_text()
LOCKED = sbom.locked()
VENDORED = [
    f"pkg:npm/{each['package']}@{each['version']}" for each in json.loads(sbom.VENDORED.read_text())["packages"]
]


def copied():
    """What is copied out of the tree: the sources of each COPY that is not from another stage."""
    for line in re.findall(r"^COPY (?!--from)(.*)$", TEXT, re.MULTILINE):
        yield from line.split()[:-1]


def test_what_is_copied_is_there_and_not_ignored():
    kept = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    for source in copied():
        assert (ROOT / source).exists(), source
        assert any(fnmatch.fnmatch(source, keep) or source.startswith(f"{keep}/") for keep in kept), source


def test_every_package_is_installed_by_its_hash():
    assert TEXT.count("--require-hashes") == len(re.findall(r"-r requirements/\S+", TEXT)) == 2
    assert "--no-index" in TEXT[TEXT.index("--find-links") - 60 :]
    assert "@sha256" not in re.findall(r"^ARG BASE=.*", TEXT, re.MULTILINE)[0]  # a made-up digest would be worse


def test_it_runs_as_nobody_and_starts_the_command():
    _, _, last = TEXT.rpartition("\nFROM ")
    assert "\nUSER 65532:65532\n" in last
    assert re.findall(r'^ENTRYPOINT \["(.*)"\]$', last, re.MULTILINE) == ["/opt/dra-reserve/bin/dra-reserve"]


def wheel(tree, into):
    """Build the wheel as the image does, in the environment of the tests: from what is copied and from nothing else."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    environment = os.environ | {"SOURCE_DATE_EPOCH": "1700000000", "PYTHONHASHSEED": "0"}
    subprocess.run([*command, f"--wheel-dir={into}", str(tree)], check=True, env=environment)
    (found,) = into.glob("*.whl")
    return found


@pytest.fixture
def tree(tmp_path):
    place = tmp_path / "tree"
    ignored = shutil.ignore_patterns("__pycache__")
    for source in copied():
        destination = place / source
        destination.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / source).is_dir():
            shutil.copytree(ROOT / source, destination, ignore=ignored)
        else:
            shutil.copy(ROOT / source, destination)
    return place


@pytest.mark.slow
def test_what_is_copied_is_enough_and_makes_the_same_wheel_each_time(tree, tmp_path):
    first, second = (wheel(tree, tmp_path / name) for name in ("first", "second"))
    assert first.read_bytes() == second.read_bytes()
    packages = {name.partition("/")[0] for name in zipfile.ZipFile(first).namelist()}
    assert packages >= {"dra", "localplane", "controller", "kubeletplugin"}
    assert not packages & {"tests", "bench", "deploy"}


def test_the_bill_of_materials_is_that_of_the_locked_packages():
    assert sbom.SBOM.read_text() == sbom.text(), "run: make sbom"


def test_it_names_every_package_once_with_a_licence_and_who_needs_it():
    content = json.loads(sbom.SBOM.read_text())
    lines = (ROOT / "requirements" / "runtime.txt").read_text().splitlines()
    assert len(LOCKED) == len([line for line in lines if re.match(r"\S+==", line)])
    found = [each["purl"] for each in content["components"]]
    assert found == [*(package.purl for package in LOCKED), *VENDORED]
    assert all(each["licenses"] for each in content["components"])
    needed = {ref for each in content["dependencies"] for ref in each["dependsOn"]}
    assert needed == set(found)


def test_it_names_each_vendored_script_with_its_hash():
    content = json.loads(sbom.SBOM.read_text())
    files = [file for each in content["components"] for file in each.get("components", ())]
    hashes = {each["name"]: each["hashes"][0]["content"] for each in files}
    folder = sbom.VENDORED.parent
    assert hashes == {
        each.name: hashlib.sha256(each.read_bytes()).hexdigest()
        for each in folder.iterdir()
        if each.name != "lock.json"
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("a==1 \\\n    --hash=sha256:0\n    # via b\n", [("a", "1", ("b",))], id="one"),
        pytest.param(
            "A-b==1.2 \\\n    --hash=sha256:0 \\\n    --hash=sha256:1\n    # via\n    #   c\n"
            "    #   d (pyproject.toml)\nc==2 \\\n    --hash=sha256:2\n    # via d (pyproject.toml)\n",
            [("a-b", "1.2", ("c", "d (pyproject.toml)")), ("c", "2", ("d (pyproject.toml)",))],
            id="two",
        ),
        pytest.param("# nothing\n", [], id="none"),
    ],
)
def test_locked_packages_are_read(text, expected):
    assert [(each.name, each.version, each.needed_by) for each in sbom.pinned(text)] == expected


def test_an_environment_that_is_not_as_locked_is_refused():
    (package,) = (each for each in LOCKED if each.name == "click")
    other = sbom.Pinned(name="click", version="0.1", needed_by=package.needed_by)
    with pytest.raises(sbom.StaleEnvironmentError, match=r"click: .* is installed, 0.1 is locked"):
        sbom.sbom((other,), project={"name": "x", "version": "1", "license": "MIT"})
