"""docs/how-to/install.md is followed to the letter: installed, seen to work, removed, and the cluster is as it was.

A command that cannot be run here says why, in a comment ``# not run here: …``; which those are is written below, so
that nobody gets rid of a failing command that way. One that ends in & runs until the end of its block, and must stop
cleanly.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import shlex
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.cluster import binaries, snapshots
from tests.cluster.fake_nodes import FAKE
from tests.cluster.kubectl import kubectl
from tests.cluster.options import ALL_CONTROLLERS, WITHOUT_CLAIM_CONTROLLER
from tests.cluster.waiting import until
from tests.scenarios import installation
from tests.scenarios.conftest import CONTROLLERS
from tests.scenarios.controller import Controller, Settings
from tests.scenarios.target import Capability, Mode, Target

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "how-to" / "install.md"
MOST: Final = 5
"""Commands that a way of installing may take."""

_NOT_HERE: Final = re.compile(r"  # not run here: (.+)$")

NOT_RUN: Final = {
    "make image",
    "docker push",
    "sed -i",
    "deploy/kind/up.sh --check",
    "deploy/kind/up.sh",
    "kubectl --context",
    "kind delete",
    "make venv",
    "pip install",
    "kubectl krew",
    "kubectl dra preflight  #",
    "helm install dra-reserve oci://",
    "sha256sum --check",
    "gh attestation",
}
"""The beginnings of the commands that are not run."""


NO_WAYS: Final = {"The image", "After the first release"}
"""Sections that install nothing: tests/release/test_pages.py has the second."""


@dataclass(frozen=True)
class Way:
    """One section of the page: how to install, and how to remove."""

    name: str
    install: tuple[str, ...]
    remove: tuple[str, ...]


def ways() -> list[Way]:
    """Read the page."""
    found = []
    for section in re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        name = section.splitlines()[0]
        blocks = re.findall(r"^```sh\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
        if name not in NO_WAYS:
            install, remove = (tuple(block.replace("\\\n", "").splitlines()) for block in blocks)
            found.append(Way(name, install, remove))
    return found


FLAG: Final = re.compile(r"sed .*resourceclaim-controller").match

WAYS: Final = {way.name: way for way in ways()}


def runnable(commands: tuple[str, ...]) -> list[str]:
    return [command for command in commands if not _NOT_HERE.search(command)]


@pytest.mark.parametrize("way", WAYS.values(), ids=lambda way: way.name)
def test_no_way_takes_more_than_five_commands(way: Way) -> None:
    assert 0 < len(way.install) <= MOST
    assert len(way.remove) <= MOST


def test_what_is_not_run_is_known_and_says_why() -> None:
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if "not run here" in line]
    told = {line: _NOT_HERE.search(line) for line in lines}
    assert all(told.values())
    begins = {
        next((known for known in sorted(NOT_RUN, reverse=True) if line.startswith(known)), line) for line in lines
    }
    assert begins == NOT_RUN


def test_the_readme_installs_as_the_page_does() -> None:
    section = (ROOT / "README.md").read_text(encoding="utf-8").partition("\n## Install\n")[2].partition("\n## ")[0]
    (block,) = re.findall(r"^```sh\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    assert f"```sh\n{block}```" in PAGE.read_text(encoding="utf-8")


def test_the_flag_is_set_and_taken_away_as_the_page_says(tmp_path: Path) -> None:
    way = WAYS["kustomize, replace"]
    manifest = tmp_path / "kube-controller-manager.yaml"
    before = "    - kube-controller-manager\n    - --controllers=*,bootstrapsigner,tokencleaner\n    - --v=2\n"
    manifest.write_text(before)
    seen = []
    for line in (*way.install, *way.remove):
        if FLAG(line):
            *command, file = shlex.split(line, comments=True)
            assert Path(file).name == manifest.name
            subprocess.run([*command, str(manifest)], check=True)
            seen.append(manifest.read_text())
    without = "- --controllers=*,bootstrapsigner,tokencleaner,-resourceclaim-controller\n"
    assert without in seen[0]
    assert seen[1:] == [before]


@pytest.fixture
def empty(target: Target) -> Iterator[Target]:
    """The cluster without us, with nodes for our pods; afterwards it has again what the scenarios need."""
    installation.remove(target.admin)
    installation.unguard(target.admin)
    kubectl("delete", "namespace", installation.NAMESPACE, kubeconfig=target.admin)
    kubectl("taint", "nodes", "--all", f"{FAKE}-", kubeconfig=target.admin)
    try:
        yield target
    finally:
        target.cluster.run_controllers(CONTROLLERS[target.mode])
        kubectl("taint", "nodes", "--all", "--overwrite", f"{FAKE}=true:NoSchedule", kubeconfig=target.admin)
        installation.change_over(target.admin, mode=target.mode, way=installation.way(target.mode))
        installation.controller_kubeconfig(target.admin, target.folder.path)
        installation.guard(target.admin)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked wheel: a test of its own installs the wheel, what the wheel needs is here."""
    folder = tmp_path_factory.mktemp("package")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=300)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "packages")
    return folder / "packages"


@pytest.fixture
def path(package: Path, tmp_path: Path) -> str:
    """A PATH that begins with what a user would have installed."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "helm").symlink_to(binaries.build(binaries.helm()))
    plugin = folder / "kubectl-dra"
    alone = f'PYTHONSAFEPATH=1 PYTHONPATH="{package}"'
    plugin.write_text(f'#!/bin/sh\n{alone} exec "{sys.executable}" -m dra.cli.kubectl.main "$@"\n')
    plugin.chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


needs = pytest.mark.needs(Capability.COMPONENTS, Capability.RIGHTS)


@needs
@pytest.mark.long
@pytest.mark.modes(Mode.ALONGSIDE)
@pytest.mark.parametrize(
    "name",
    [
        "Helm",
        "From the package alone",
        "kustomize, alongside",
        "With Reservations and migrations",
        "Out of the cluster",
    ],
)
async def test_the_way_can_be_followed_to_the_letter(empty: Target, path: str, name: str) -> None:
    await _follow(WAYS[name], empty, path=path)


@needs
@pytest.mark.long
@pytest.mark.modes(Mode.REPLACE)
async def test_the_way_of_mode_replace_can_be_followed_to_the_letter(empty: Target, path: str) -> None:
    await _follow(WAYS["kustomize, replace"], empty, path=path)


IMAGE: Final = "registry.example.com/dra-reserve:0.1.0"

PLUGIN_INSTALLS: Final = ("install", "--mode=replace", "--with=reservations,descheduler", f"--image={IMAGE}")

OF_OTHERS: Final = (
    {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "extender-tls", "namespace": installation.NAMESPACE}},
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "dra-reserve-of-others"},
    },
)


MAY_STAY: Final = frozenset(
    {
        "Namespace",
        "ConfigMap",
        "ServiceAccount",
        "Secret",
        "ClusterRole",
        "CustomResourceDefinition",
    }  # as the plan says
    | {"Lease", "Event", "APIService", "ReplicaSet", "Pod"}  # what Kubernetes and the controllers make of these
)


@needs
@pytest.mark.long
@pytest.mark.modes(Mode.REPLACE)
async def test_the_package_installs_what_it_has_shown_and_removes_that_alone(empty: Target, path: str) -> None:
    before = await asyncio.to_thread(snapshots.settled, empty.admin)
    dra = partial(_dra, path=path, kubeconfig=empty.admin)
    asked = dra(*PLUGIN_INSTALLS, code=1, answer="n")
    assert "clusterrole.rbac.authorization.k8s.io/dra-reserve-generation" in asked
    assert "Install? [y/N]" in asked
    assert "no terminal that could confirm" in dra(*PLUGIN_INSTALLS, code=2)
    assert not snapshots.difference(before, snapshots.taken(empty.admin))

    assert "deployment.apps/dra-reserve-descheduler -n dra-reserve created" in dra(*PLUGIN_INSTALLS, "--yes")
    again = dra(*PLUGIN_INSTALLS, "--yes")
    assert re.search(r"^\d+ unchanged$", again, re.MULTILINE), again
    kubectl("apply", "--filename=-", kubeconfig=empty.admin, stdin=yaml.safe_dump_all(OF_OTHERS))

    empty.cluster.run_controllers(WITHOUT_CLAIM_CONTROLLER)
    account = installation.controller_kubeconfig(empty.admin, empty.folder.path)
    controller = Controller(empty.folder, Settings(kubeconfig=account, mode=empty.mode), name="installed")
    await controller.start()
    refused = await asyncio.to_thread(dra, "uninstall", "--yes", code=1)
    assert "steps of the downgrade remain, nothing was deleted" in refused

    empty.cluster.run_controllers(ALL_CONTROLLERS)
    await asyncio.to_thread(dra, "downgrade", "--apply")
    controller.crash()
    removed = await asyncio.to_thread(dra, "uninstall", "--yes")
    assert re.search(r"^namespace/dra-reserve +kept +also contains secret/extender-tls$", removed, re.MULTILINE), (
        removed
    )
    left = {kind for kind, _, _ in snapshots.difference(before, snapshots.taken(empty.admin))}
    assert left <= MAY_STAY

    kubectl("delete", "--filename=-", kubeconfig=empty.admin, stdin=yaml.safe_dump_all(OF_OTHERS))
    await asyncio.to_thread(dra, "uninstall", "--yes", "--crds")
    await asyncio.to_thread(until, partial(_nothing_left, before, empty), within=60, saying="nothing of it is left")


def _dra(*words: str, path: str, kubeconfig: Path, code: int = 0, answer: str = "") -> str:
    """Run the plugin in an empty folder, on a terminal that answers if an answer is given; return what it prints."""
    ours, theirs = os.openpty()
    try:
        os.write(ours, f"{answer}\n".encode())
        done = subprocess.run(
            ["kubectl", "dra", *words],  # noqa: S607
            cwd=Path(path.partition(":")[0]),
            env=os.environ | {"KUBECONFIG": str(kubeconfig), "PATH": path},
            stdin=theirs if answer else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=180,
        )
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.returncode == code, done.stdout
    print(done.stdout)
    return done.stdout


async def _follow(way: Way, target: Target, *, path: str) -> None:
    """Install as it says, have a controller act with the rights that this gives, remove as it says."""
    before = await asyncio.to_thread(snapshots.settled, target.admin)
    run = partial(_run, target=target, path=path)
    shown = await asyncio.to_thread(run, way.install)
    print(shown)
    installed = "rollout status" in shown
    if installed:
        assert 'deployment "dra-reserve-controller" successfully rolled out' in shown
        account = installation.controller_kubeconfig(target.admin, target.folder.path)
        controller = Controller(target.folder, Settings(kubeconfig=account, mode=target.mode), name="installed")
        await controller.start()  # the nodes are fake, and so are the pods
    print(await asyncio.to_thread(run, way.remove))
    if installed:
        controller.crash()
    gone = partial(_nothing_left, before, target)
    await asyncio.to_thread(until, gone, within=30, saying="nothing of it is left")


def _nothing_left(before: snapshots.Snapshot, target: Target) -> bool:
    left = snapshots.difference(before, snapshots.taken(target.admin))
    print(f"left: {sorted(left)}")
    return not left


def _run(commands: tuple[str, ...], *, target: Target, path: str) -> str:
    """Run a block; where it sets the flag of kube-controller-manager or takes it away, the cluster here gets it so."""
    shown = ""
    for flag, part in itertools.groupby(commands, key=lambda line: bool(FLAG(line))):
        if flag:
            (line,) = part
            without = ",-resourceclaim-controller/'" in line
            target.cluster.run_controllers(WITHOUT_CLAIM_CONTROLLER if without else ALL_CONTROLLERS)
        else:
            shown += _typed(tuple(part), path=path, kubeconfig=target.admin)
    return shown


def _typed(commands: tuple[str, ...], *, path: str, kubeconfig: Path) -> str:
    """Run commands with bash, which stops at the first failure, and return what they printed."""
    script = "\n".join(runnable(commands))
    left = "\nfor job in $(jobs -p); do kill -INT $job; wait $job; done\n"
    done = subprocess.run(
        ["bash", "-euxmo", "pipefail", "-c", script + left],  # noqa: S607
        cwd=ROOT,
        env=os.environ | {"KUBECONFIG": str(kubeconfig), "PATH": path, "HELM_CACHE_HOME": f"{kubeconfig}.helm"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout
