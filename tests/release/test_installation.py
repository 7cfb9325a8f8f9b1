"""What was built for a release is installed as users install it: ``make try-release`` names the folder.

krew installs kubectl dra from its archive, and the command answers on a local plane, where the kubeconfig has a static
user or an exec plugin: the second is what imports the kubernetes package, of which the archive has a part.
"""

import json
import os
import platform
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml

from release import krew
from release.plan import KREW_PLATFORMS, Artefacts
from release.project import read_project
from tests.cluster import binaries

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif("DRA_RELEASE" not in os.environ, reason="needs a release that was built: make try-release"),
]

FOLDER = Path(os.environ.get("DRA_RELEASE", ""))
MADE = Artefacts(version=read_project().version)
HERE = f"linux-{ {'x86_64': 'amd64', 'aarch64': 'arm64'}.get(platform.machine(), platform.machine()) }"

HEADERS = {
    "linux-amd64": (b"\x7fELF\x02\x01", 18, b"\x3e\x00"),
    "linux-arm64": (b"\x7fELF\x02\x01", 18, b"\xb7\x00"),
    "darwin-arm64": (b"\xcf\xfa\xed\xfe", 4, b"\x0c\x00\x00\x01"),
}
"""Platform → first bytes of a compiled module; place and value of the field with the machine."""

UNIVERSAL = b"\xca\xfe\xba\xbe"
"""First bytes of a module of macOS for several machines."""


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """The variables of a user who has krew and has installed kubectl dra."""
    home = tmp_path_factory.mktemp("home")
    variables = {
        "HOME": str(home),
        "KREW_ROOT": str(home / "krew"),
        "PATH": f"{home}/krew/bin:{Path(sys.executable).resolve().parent}:/usr/local/bin:/usr/bin:/bin",
    }
    manifest, archive = FOLDER / MADE.krew_manifest, FOLDER / MADE.krew_archive(HERE)
    command = [binaries.build(binaries.krew()), "install", f"--manifest={manifest}", f"--archive={archive}"]
    subprocess.run(command, env=variables, stdin=subprocess.DEVNULL, check=True, timeout=300)
    return variables


@pytest.fixture
def run(environment, tmp_path):
    """Run a command in an empty folder and return what it printed."""

    def run(*words, code=0):
        done = subprocess.run(
            words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    return run


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory):
    """The kubeconfig of a local plane."""
    folder = tmp_path_factory.mktemp("plane")
    command = [sys.executable, "-m", "dra.cli.main", "local"]
    subprocess.run([*command, "up", "--detach", "--api=stock", "--devices=1"], cwd=folder, check=True, timeout=120)
    try:
        yield folder / ".dra" / "kubeconfig"
    finally:
        subprocess.run([*command, "down"], cwd=folder, check=True, timeout=120)


@pytest.fixture
def exec_kubeconfig(kubeconfig, tmp_path):
    """The kubeconfig of the plane whose credentials come from an exec plugin."""
    content = yaml.safe_load(kubeconfig.read_text())
    (user,) = content["users"]
    status = {"token": user["user"].get("token", "none")}
    credential = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
    (tmp_path / "credential.json").write_text(json.dumps(credential))
    user["user"] = {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "cat",
            "args": [str(tmp_path / "credential.json")],
            "interactiveMode": "Never",
        }
    }
    path = tmp_path / "exec.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


def test_the_index_of_krew_would_accept_the_manifest():
    command = [binaries.build(binaries.krew_validator()), "-manifest", FOLDER / MADE.krew_manifest, "-skip-install"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_kubectl_finds_the_command_and_its_version(run):
    assert "Inspect, check and manage device claims" in run("kubectl", "dra", "--help")
    assert run("kubectl", "dra", "--version").strip().endswith(f"version {MADE.version}")


@pytest.mark.parametrize("user", ["kubeconfig", "exec_kubeconfig"], ids=["static", "exec-plugin"])
def test_the_command_answers_about_a_cluster(run, request, user):
    path = request.getfixturevalue(user)
    answer = json.loads(run("kubectl", "dra", "get", "devices", "-o", "json", f"--kubeconfig={path}"))
    assert answer["items"]


def test_expressions_are_evaluated(run, kubeconfig, tmp_path):
    selector = {"cel": {"expression": "device.attributes.size() >= 0"}}
    request = {"name": "r", "exactly": {"deviceClassName": "x", "selectors": [selector]}}
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "one"},
        "spec": {"devices": {"requests": [request]}},
    }
    (tmp_path / "claim.yaml").write_text(yaml.safe_dump(claim))
    run("kubectl", "dra", "simulate", f"--kubeconfig={kubeconfig}", "-f", "claim.yaml")


def test_the_installation_needs_nothing_of_this_tree(run):
    assert "dra-reserve" in run("kubectl", "dra", "install", "--help")


@pytest.mark.parametrize("platform", KREW_PLATFORMS)
def test_compiled_modules_are_for_their_platform_and_python(platform):
    head, place, machine = HEADERS[platform]
    versions = set()
    with tarfile.open(FOLDER / MADE.krew_archive(platform)) as archive:
        for each in archive:
            if each.name.endswith(".so"):
                with archive.extractfile(each) as module:
                    first = module.read(place + len(machine))
                universal = platform.startswith("darwin") and first.startswith(UNIVERSAL)
                assert universal or (first.startswith(head) and first[place:] == machine), each.name
                folder = each.name.split("/")[1]
                versions.add(folder)
                if named := re.search(r"\.cpython-(\d+)-", each.name):
                    assert folder == f"cp{named[1]}", each.name
    assert versions - {"any"} == {f"cp{each.replace('.', '')}" for each in krew.PYTHONS}
