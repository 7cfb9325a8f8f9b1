"""The examples run as they stand, but for their size, their names and the nodes they run on."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import pytest
import yaml

from dra.kube.client import WRITE_TIMEOUT
from tests.cluster.fake_nodes import FAKE
from tests.cluster.kubectl import kubectl
from tests.scenarios import objects
from tests.scenarios.api import Json
from tests.scenarios.claims import allocated, condition, listed, started
from tests.scenarios.controller import Controller
from tests.scenarios.eventually import eventually
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import PodShape
from tests.scenarios.resources import CLAIMS, JOBS, PODS
from tests.scenarios.target import Capability, Mode, Target

ROOT: Final = Path(__file__).parents[2]
SHARED_CLAIM: Final = ROOT / "examples" / "shared-claim"
DEMO: Final = "fabric.example.com"
PODS_AT_ONCE: Final = 40

MORE_THAN_A_LIST: Final = 260
"""Of so many pods some have started before the last can be listed: the guard is there when all are ready."""

QUIET: Final = WRITE_TIMEOUT
"""Seconds for which a new leader frees nothing: writes of the one before, of the last test, may still arrive."""

StartController = Callable[..., Awaitable[Controller]]


@pytest.mark.parametrize("variant", ["job-gated.yaml", "job.yaml"])
async def test_shared_claim(namespace: Namespace, start_controller: StartController, variant: str) -> None:
    await start_controller()
    for file in ("devices.yaml", "claim.yaml", variant):
        await _create(namespace, file)
    claim = await eventually(
        lambda: namespace.get(CLAIMS, "train"),
        until=lambda claim: listed(claim, "jobs"),
        saying="the claim is reserved for the Job",
    )
    assert allocated(claim)
    await _create(namespace, "next.yaml")
    await eventually(
        lambda: namespace.get(JOBS, "train"),
        until=lambda job: condition(job, "Complete") == "True",
        within=60,
        saying="the Job is complete",
    )
    await eventually(
        lambda: namespace.get(CLAIMS, "train"),
        until=lambda claim: not allocated(claim),
        within=QUIET + 5,
        saying="its claim is free, the Job is still there",
    )
    await eventually(lambda: namespace.get(PODS, "next"), until=started, saying="the next one has the device")


@pytest.mark.modes(Mode.REPLACE)
@pytest.mark.needs(Capability.COMPONENTS)
async def test_the_page_can_be_followed_to_the_letter(
    target: Target, start_controller: StartController, tmp_path: Path
) -> None:
    await start_controller()
    _copy_smaller(SHARED_CLAIM, tmp_path / SHARED_CLAIM.relative_to(ROOT))
    page = (tmp_path / SHARED_CLAIM.relative_to(ROOT) / "README.md").read_text()
    script = "".join(re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL))
    try:
        shown = await asyncio.to_thread(_run, script, cwd=tmp_path, kubeconfig=target.admin)
    finally:
        taint = ("taint", "nodes", "--all", "--overwrite", f"{FAKE}=true:NoSchedule")
        await asyncio.to_thread(kubectl, *taint, kubeconfig=target.admin)
    assert "\njobs/train\nguards/train\n" in shown
    for reason in re.findall(r"Normal +([A-Za-z]+) +ResourceClaim", page):
        assert reason in shown


def test_the_page_about_a_real_cluster_starts_as_the_page_does() -> None:
    text = (ROOT / "docs/how-to/real-cluster.md").read_text()
    *typed, last, asked = "".join(re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)).splitlines()
    page = (SHARED_CLAIM / "README.md").read_text().replace("\n$ ", "\n")
    assert [line for line in typed if f"\n{line}\n" not in page] == []
    ends = "claim train -n shared-claim"
    assert [last, asked] == [f"kubectl describe resource{ends}", f"kubectl dra explain {ends}"]


def test_the_variants_differ_by_the_gate_only() -> None:
    gated, plain = (yaml.safe_load((SHARED_CLAIM / name).read_text()) for name in ("job-gated.yaml", "job.yaml"))
    assert gated["spec"]["template"]["spec"].pop("schedulingGates") == [{"name": objects.GATE}]
    assert gated == plain


def _copy_smaller(source: Path, destination: Path) -> None:
    """Copy an example; where it says 1,000 pods, make it fewer."""
    destination.mkdir(parents=True)
    for file in source.iterdir():
        (destination / file.name).write_text(file.read_text().replace("1000", str(MORE_THAN_A_LIST)))


def _run(script: str, *, cwd: Path, kubeconfig: Path) -> str:
    """Run a script with bash, which stops at the first failure, and return what it printed."""
    done = subprocess.run(
        ["bash", "-euxo", "pipefail", "-c", script],  # noqa: S607
        cwd=cwd,
        env=os.environ | {"KUBECONFIG": str(kubeconfig)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


async def _create(namespace: Namespace, file: str) -> None:
    text = (SHARED_CLAIM / file).read_text().replace(DEMO, f"{namespace.name}.scenario.dra")
    for obj in yaml.safe_load_all(text):
        if obj["kind"] != "Namespace":
            await namespace.create(_fitted(obj))


def _fitted(obj: Json) -> Json:
    """Return the object without its namespace; pods of it run on fake nodes, and for a second."""
    obj["metadata"].pop("namespace", None)
    template = obj
    if obj["kind"] == "Job":
        obj["spec"] |= {"parallelism": PODS_AT_ONCE, "completions": PODS_AT_ONCE}
        template = obj["spec"]["template"]
    if "containers" in template["spec"]:
        shape = objects.pod("any", PodShape(run_seconds=1))
        template.setdefault("metadata", {})["labels"] = shape["metadata"]["labels"]
        template["spec"] |= {key: shape["spec"][key] for key in ("nodeSelector", "tolerations")}
    return obj
