"""The kind cluster without kind: what the script says and runs, and what the files agree on."""

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "deploy" / "kind" / "up.sh"
CLUSTER = yaml.safe_load((ROOT / "deploy" / "kind" / "cluster.yaml").read_text())


def arguments(patch):
    given = patch["controllerManager"]["extraArgs"]
    return given if isinstance(given, dict) else {each["name"]: each["value"] for each in given}


def test_every_kubeadm_leaves_the_claim_controller_out():
    patches = [yaml.safe_load(each) for each in CLUSTER["kubeadmConfigPatches"]]
    assert {each["apiVersion"] for each in patches} == {"kubeadm.k8s.io/v1beta3", "kubeadm.k8s.io/v1beta4"}
    flags = {"controllers": "*,bootstrapsigner,tokencleaner,-resourceclaim-controller"}
    assert [arguments(each) for each in patches] == [flags, flags]


def test_cluster_and_image_have_the_names_that_the_script_uses():
    names = dict(re.findall(r"\b(CLUSTER|IMAGE)=(\S+)", SCRIPT.read_text()))
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert names == {"CLUSTER": CLUSTER["name"], "IMAGE": f"dra-reserve:{version}"}


@pytest.fixture
def programs(tmp_path):
    """A PATH with nothing but what the script takes for granted."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("bash", "dirname", "mktemp", "rm", "grep"):
        (folder / name).symlink_to(shutil.which(name))
    return folder


def pretend(programs, name, *, says="", exits=0):
    """Put a program there that notes how it was called."""
    log = programs.parent / "calls"
    (programs / name).write_text(f'#!/bin/bash\necho "{name} $*" >> {log}\necho -n "{says}"\nexit {exits}\n')
    (programs / name).chmod(0o755)


def run(programs, *arguments):
    environment = {"PATH": str(programs), "TMPDIR": str(programs.parent), "HOME": os.devnull}
    return subprocess.run([SCRIPT, *arguments], env=environment, capture_output=True, text=True, check=False)


def calls(programs):
    log = programs.parent / "calls"
    return log.read_text().splitlines() if log.exists() else []


def test_everything_that_is_missing_is_said_at_once_and_nothing_is_done(programs):
    done = run(programs)
    assert done.returncode == 1
    assert "nothing has been done" in done.stderr
    assert [line.split(":")[0].strip() for line in done.stderr.splitlines()[1:]] == [
        "kind",
        "kubectl",
        "docker or podman",
    ]


def test_an_engine_that_does_not_run_is_missing_too(programs):
    for name in ("kind", "kubectl"):
        pretend(programs, name)
    pretend(programs, "docker", exits=1)
    done = run(programs)
    assert "a running docker: it is installed, but does not answer" in done.stderr
    assert calls(programs) == ["docker info"]


def test_checking_does_nothing(programs):
    for name in ("kind", "kubectl", "docker"):
        pretend(programs, name)
    assert run(programs, "--check").stdout == "everything needed is there\n"
    assert calls(programs) == ["docker info"]


@pytest.mark.parametrize("there", [False, True], ids=["new", "there-already"])
def test_it_builds_starts_loads_and_installs_in_this_order(programs, there):
    pretend(programs, "kind", says="other\ndra-reserve\n" if there else "other\n")
    pretend(programs, "kubectl")
    pretend(programs, "docker")
    done = run(programs)
    assert done.returncode == 0, done.stderr
    verbs = [" ".join(call.split()[:3]) for call in calls(programs)]
    create = [] if there else ["kind create cluster"]
    context = "kubectl --context kind-dra-reserve"
    assert verbs == [
        "docker info", "docker build --file", "kind get clusters", *create,
        "docker save --output", "kind load image-archive", context, context,
    ]  # fmt: skip
    for call in calls(programs):  # every file that it names is there
        for option in ("--file", "--config", "-k"):
            if f" {option} " in call:
                assert (ROOT / call.partition(f" {option} ")[2].split()[0]).exists()
