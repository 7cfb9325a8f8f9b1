"""docs/how-to/kubelet-plugin.md says what is so: its commands run, texts are ours, API servers take the examples."""

import ast
import re
import shlex
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from dra.cli.main import main
from dra.kube.clock import SYSTEM
from localplane.server import ApiServer
from tests.dra.kube.virtual import seeded
from tests.localplane.components import User
from tests.violations import for_each_case

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/how-to/kubelet-plugin.md").read_text()
INSPECTIONS = [
    shlex.split(line)[1:] for line in re.findall(r"^dra-reserve kubelet-plugin inspect .*$", PAGE, re.MULTILINE)
]
MANIFESTS = [
    path
    for path in sorted((ROOT / "examples").glob("[cg]pus/*.yaml"))
    if "NodeInventory" not in path.read_text()  # no object, a file of the plugin's
]
OF_THE_KUBELET = {"DRA driver … is not registered"}


def texts():
    """Every string of the plugin and of its ledger, with … for what is filled in."""
    for path in (*(ROOT / "kubeletplugin").rglob("*.py"), ROOT / "dra/engine/devices/ledger.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                yield "".join(part.value if isinstance(part, ast.Constant) else "…" for part in node.values)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def told():
    """What the table quotes."""
    table = PAGE.partition("| the text says |")[2].partition("\n\n")[0]
    first = [row.split("|")[1] for row in table.splitlines()[2:]]
    return [text for cell in first for text in re.findall(r"`([^`]*)`", cell) if not text.startswith("GpuConfig")]


@for_each_case(told())
def test_each_text_of_the_table_is_one_that_the_plugin_says(text):
    assert text in OF_THE_KUBELET or any(text in each for each in texts())


@pytest.mark.parametrize("arguments", INSPECTIONS, ids=" ".join)
def test_inspections_run_as_they_stand(arguments, monkeypatch):
    monkeypatch.chdir(ROOT)
    shown = CliRunner().invoke(main, arguments)
    assert shown.exit_code == 0, shown.output
    assert "reserve.dra" in shown.output


def test_there_are_inspections_to_run():
    assert len(INSPECTIONS) == 3


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: str(path.relative_to(ROOT)))
async def test_an_api_server_takes_the_examples(path):
    user = User(ApiServer(clock=SYSTEM, random=seeded(1)))
    for each in yaml.safe_load_all(path.read_text()):
        group = each["apiVersion"] if "/" in each["apiVersion"] else f"core/{each['apiVersion']}"
        prefix = "/api/v1" if group == "core/v1" else f"/apis/{group}"
        plural = {"DeviceClass": "deviceclasses"}.get(each["kind"], f"{each['kind'].lower()}s")
        namespace = "" if each["kind"] in {"DeviceClass", "ResourceSlice"} else "/namespaces/default"
        made = await user.request("POST", f"{prefix}{namespace}/{plural}", body=each, content_type="application/json")
        assert made["metadata"]["uid"]
