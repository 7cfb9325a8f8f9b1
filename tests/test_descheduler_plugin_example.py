"""``examples/descheduler-plugin``: its tests pass, one pip command installs it, and the descheduler finds it.

The commands are those of its page.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from dra.engine.descheduling.cluster_objects import ClusterObjects
from dra.engine.descheduling.plugin_view import PluginView
from dra.engine.descheduling.snapshot import Snapshot
from dra.engine.instants import WallTime
from tests.dra.cli.kubectl.descheduling.bundles import bundle, node, pod, snapshot

ROOT = Path(__file__).parents[1]
PAGE = "examples/descheduler-plugin/README.md"
EXAMPLE = (ROOT / PAGE).parent
COMMANDS = (ROOT / PAGE).read_text().splitlines()

FIND = """
import sys, yaml
from controller.descheduling.user_plugins import load_user_plugins
from dra.engine.descheduling.plugin_catalog import BUILT_IN_NAMES
loaded = load_user_plugins(built_in=BUILT_IN_NAMES)
print(loaded.faults, list(loaded.plugins), {name: len(triggers) for name, triggers in loaded.triggers.items()})
args = yaml.safe_load(open(sys.argv[1]))["profiles"][0]["pluginConfig"][0]["args"]
print(loaded.plugins["LeaveSpotNodes"].Args.model_validate(args).at_most)
"""


def run(*command, path):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, path)), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=120, check=False, cwd=path[0]
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_its_tests_need_no_cluster():
    assert "PYTHONPATH=. pytest" in COMMANDS
    command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir=.", "tests")
    assert "6 passed" in run(*command, path=[EXAMPLE, ROOT])


@pytest.fixture
def installed(tmp_path):
    assert "pip install ./examples/descheduler-plugin" in COMMANDS
    source = shutil.copytree(EXAMPLE, tmp_path / "source")
    target = tmp_path / "site"
    target.mkdir()
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index")
    run(*pip, "--disable-pip-version-check", "--target", str(target), str(source), path=[target])
    return target


@pytest.mark.slow
def test_one_pip_command_installs_it_and_the_descheduler_finds_it(installed):
    told = run(sys.executable, "-c", FIND, str(EXAMPLE / "configuration.yaml"), path=[installed, ROOT])
    assert told.splitlines() == ["() ['LeaveSpotNodes'] {'LeaveSpotNodes': 1}", "20"]


@pytest.mark.slow
def test_the_dry_run_knows_the_plugin_that_is_installed_beside_it(installed, tmp_path):
    leaving = node("n1", taints=[{"key": "example.com/spot-node-ends", "effect": "NoSchedule"}])
    taken = bundle(tmp_path, snapshot(nodes=[leaving, node("n2")], pods=[pod("web-1", "n1")], replicas={"web": 3}))
    command = ("-c", "from dra.cli.kubectl.main import main; main()", "deschedule", "--dry-run", "-o", "name")
    files = ("-f", str(EXAMPLE / "configuration.yaml"), "--from", taken)
    assert run(sys.executable, *command, *files, path=[installed, ROOT]) == "pod/web-1\n"


def test_the_deployment_gets_the_image_that_the_page_builds():
    page = (ROOT / PAGE).read_text()
    (override,) = yaml.safe_load(re.findall(r"```yaml\n(.*?)```", page, flags=re.DOTALL)[0])["images"]
    folder = ROOT / "deploy/descheduler"
    (replaced,) = yaml.safe_load((folder / "kustomization.yaml").read_text())["images"]
    deployment = next(yaml.safe_load_all((folder / "descheduler.yaml").read_text()))
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert override["name"] == replaced["name"] == container["image"]
    assert f"docker push {override['newName']}:{override['newTag']}" in page
    values = yaml.safe_load((ROOT / "deploy/helm/dra-reserve/values.yaml").read_text())
    flags = dict(re.findall(r"--set image\.(\w+)=([^\s`]+)", page))
    assert flags == {"repository": override["newName"], "tag": override["newTag"]}
    assert flags.keys() <= values["image"].keys()


@pytest.mark.parametrize("page", [PAGE, "docs/how-to/descheduler-plugins.md"])
def test_a_page_names_only_what_a_plugin_can_read_of_the_snapshot(page):
    names = set(re.findall(r"\bsnapshot\.([a-z_]+)", (ROOT / page).read_text()))
    assert "own_memory" in names
    view = PluginView(Snapshot(ClusterObjects(nodes=(), pods=()), now=WallTime(0)))
    assert not [name for name in names if not hasattr(view, name)]
