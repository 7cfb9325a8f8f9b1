"""The commands in the head of deploy/policies/gate.yaml, run by kubectl on a server of ours."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from dra.kube.transport import Request
from localplane.objects import encode
from localplane.schemas.builtin_schemas import Dialect
from tests.localplane.threaded import served

pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl on PATH")

POLICY = Path(__file__).parents[2] / "deploy" / "policies" / "gate.yaml"
OURS, FOREIGN = {"name": "reserve.dra/claim"}, {"name": "example.com/other"}
GATES = {"ours": [OURS], "both": [FOREIGN, OURS], "theirs": [FOREIGN], "none": []}


async def pods(server):
    async def create(path, body):
        request = Request(method="POST", path=path, body=encode(body), content_type="application/json", timeout=5.0)
        assert (await server.handle(request)).status == 201

    await create("/api/v1/namespaces", {"metadata": {"name": "ml"}})
    await create("/api/v1/namespaces/ml/serviceaccounts", {"metadata": {"name": "default"}})
    for name, gates in GATES.items():
        spec = {"containers": [{"name": "main", "image": "x"}], "schedulingGates": gates}
        await create("/api/v1/namespaces/ml/pods", {"metadata": {"name": name}, "spec": spec})


def test_the_commands_that_stop_the_gate_leave_gates_of_other_controllers(tmp_path):
    """They removed all gates, also Kueue's: its pods started without quota."""
    head = re.search(r"To stop using the gate.*?\n((?:#.*\n)+)", POLICY.read_text())[1]
    commands = re.sub(r"^# ?", "", head, flags=re.MULTILINE).replace("NAMESPACE", "ml")
    commands = "\n".join(line for line in commands.splitlines() if line.startswith("  "))
    with served(tmp_path, Dialect.STOCK, prepare=pods) as kubeconfig:
        environment = os.environ | {"KUBECONFIG": str(kubeconfig), "KUBECACHEDIR": str(tmp_path / "cache")}

        def shell(script):
            command = ["/bin/bash", "-euo", "pipefail", "-c", script]
            return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

        shell(commands)
        found = yaml.safe_load(shell("kubectl get pods -n ml -o yaml"))["items"]
    assert {each["metadata"]["name"]: each["spec"].get("schedulingGates", []) for each in found} == {
        "ours": [],
        "both": [FOREIGN],
        "theirs": [FOREIGN],
        "none": [],
    }
