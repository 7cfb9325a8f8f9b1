"""`kubectl dra` as people use it: manifests as the KEP writes them are applied, and lists are watched."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from tests.cluster.kubectl import kubectl
from tests.scenarios import objects, plugin_of_kubectl, steps
from tests.scenarios.eventually import eventually
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import PodShape
from tests.scenarios.resources import CLAIMS, JOBS, PODS
from tests.scenarios.target import Mode, Target

pytestmark = pytest.mark.modes(Mode.REPLACE)

Json = dict[str, Any]

INTERRUPTED: Final = 130


def _manifests(devices: str) -> list[Json]:
    claim = objects.claim("train", device_class=devices)
    claim["spec"]["reservedFor"] = {"apiGroup": "batch", "resource": "jobs", "name": "train"}
    return [claim, objects.job("train", PodShape(claim="train"), parallelism=2)]


async def _apply(target: Target, namespace: Namespace, manifests: list[Json], folder: Path, *options: str) -> str:
    path = folder / "manifests.json"
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests})
    await asyncio.to_thread(path.write_text, text, encoding="utf-8")
    arguments = ("apply", f"--filename={path}", f"--namespace={namespace.name}", *options)
    _, told = await plugin_of_kubectl.dra(target.admin, *arguments)
    return told


@pytest.mark.usefixtures("controller")
async def test_a_claim_as_the_kep_writes_it_is_reserved_for_its_job(
    target: Target, namespace: Namespace, tmp_path: Path
) -> None:
    manifests = _manifests(await namespace.offer_devices())
    for kind in ("client", "server"):
        await _apply(target, namespace, manifests, tmp_path, f"--dry-run={kind}")
        assert await namespace.find(CLAIMS, "train") is None
        assert await namespace.find(JOBS, "train") is None

    told = await _apply(target, namespace, manifests, tmp_path)
    assert told.splitlines() == [
        "resourceclaim.resource.k8s.io/train serverside-applied",
        "job.batch/train serverside-applied",
    ]
    await steps.claim_is(
        namespace,
        "train",
        lambda claim: any(each["resource"] == "jobs" for each in claim["status"].get("reservedFor", ())),
        saying="it lists the Job",
    )
    before = await namespace.get(CLAIMS, "train")
    await _apply(target, namespace, manifests, tmp_path)
    assert (await namespace.get(CLAIMS, "train"))["metadata"]["uid"] == before["metadata"]["uid"]

    # kubectl itself goes on with the same fields, and without a conflict.
    there = kubectl(
        "apply",
        "--server-side",
        f"--namespace={namespace.name}",
        "--filename=-",
        kubeconfig=target.admin,
        stdin=json.dumps(manifests[1]),
    )
    assert "serverside-applied" in there


@asynccontextmanager
async def _watching(target: Target, *arguments: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, list[str]]]:
    """Run a command that goes on; yield it, and the lines that it has printed so far."""
    environment = os.environ | {"KUBECONFIG": str(target.admin), "PYTHONUNBUFFERED": "1"}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "dra.cli.kubectl.main", *arguments),
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # what a shell starts with & ignores it
    )
    lines: list[str] = []

    async def read() -> None:
        assert process.stdout is not None
        while line := await process.stdout.readline():
            lines.append(line.decode().rstrip("\n"))

    reading = asyncio.create_task(read())
    try:
        yield process, lines
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        await reading


async def test_a_watch_prints_what_changes_and_ends_with_ctrl_c(target: Target, namespace: Namespace) -> None:
    devices = await namespace.offer_devices()
    await namespace.create(objects.claim("a", device_class=devices))
    arguments = ("get", "claims", f"--namespace={namespace.name}", "--watch")
    async with _watching(target, *arguments) as (process, lines):
        await eventually(lambda: len(lines) == 2, within=60, saying="the list is printed")
        await namespace.create(objects.pod("p", PodShape(claim="a")))
        await eventually(lambda: "InUse" in lines[-1], within=60, saying="the change is printed")
        await namespace.delete(PODS, "p", grace_seconds=1)
        await namespace.create(objects.claim("b", device_class=devices))
        await eventually(lambda: lines[-1].split()[0] == "b", within=60, saying="the new one is printed")
        await namespace.delete(CLAIMS, "b")
        await eventually(lambda: lines[-1].split()[-1] == "Gone", within=60, saying="that it is gone is printed")
        process.send_signal(signal.SIGINT)
        assert await asyncio.wait_for(process.wait(), 20) == INTERRUPTED
    assert lines[0].split()[0] == "NAME"
    assert sum(line.startswith("NAME") for line in lines) == 1
