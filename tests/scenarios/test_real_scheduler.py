"""The real kube-scheduler, unmodified, places pods with claims on our control plane, in the place of our own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from dra.engine.allocator import allocator_release
from dra.model.releases import NEWEST, Release
from localplane.https_server import ServerEndpoint, serve_https
from localplane.plane.components import SCHEDULER
from localplane.plane.local_plane import LocalPlane
from localplane.plane.options import PlaneOptions
from localplane.schemas.builtin_schemas import Dialect
from tests.allocator import cases, judge, placing
from tests.allocator.differences import known
from tests.allocator.objects import device_classes
from tests.cluster import binaries
from tests.cluster.binaries import Program
from tests.cluster.kubectl import kubectl
from tests.cluster.ports import LOOPBACK, free
from tests.cluster.run_folder import RunFolder
from tests.scenarios import objects
from tests.scenarios.api import connect
from tests.scenarios.eventually import eventually
from tests.scenarios.target import Capability

pytestmark = [pytest.mark.cluster, pytest.mark.needs(Capability.COMPONENTS)]

DEVICES: Final = "gpu.example.com"

JSON: Final = "--output=json"

SEEDS: Final = 100


@dataclass(frozen=True)
class Scheduler:
    """A kube-scheduler, and the release that the plane is to emulate for it."""

    release: Release
    program: Program
    role: tuple[str, ...] = ()


SCHEDULERS: Final = (
    pytest.param(Scheduler(NEWEST, binaries.controlplane(), ("scheduler",)), id="of-the-control-plane"),
    pytest.param(Scheduler(Release.V1_38, binaries.kube_scheduler()), id="1.38"),
)


@asynccontextmanager
async def plane_without_scheduler(folder: Path, release: Release, *, nodes: int = 2) -> AsyncIterator[ServerEndpoint]:
    plane = LocalPlane(PlaneOptions(api=Dialect.STOCK, nodes=nodes, devices=1, release=release))
    plane.remove_component(SCHEDULER)
    async with serve_https(plane.handle, folder=folder) as endpoint, asyncio.TaskGroup() as group:
        running = group.create_task(plane.run())
        await plane.wait_ready()
        yield endpoint
        running.cancel()


def skip_unless_built(scheduler: Scheduler) -> None:
    if scheduler.release is not NEWEST and not scheduler.program.path.is_file():
        pytest.skip(f"there is no {scheduler.program.path.name}: GOTOOLCHAIN=go1.27.3 make kube-scheduler builds it")


def command(scheduler: Scheduler, folder: RunFolder, *, kubeconfig: Path) -> list[str]:
    """Return kube-scheduler's command line."""
    (port,) = free(1)
    configuration = folder.path / "scheduler.json"
    configured = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(kubeconfig)},
    }
    configuration.write_text(json.dumps(configured), encoding="utf-8")
    return [
        *(str(binaries.build(scheduler.program)), *scheduler.role),
        f"--config={configuration}",
        f"--bind-address={LOOPBACK}",
        f"--secure-port={port}",
        f"--cert-dir={folder.path / 'certificates'}",
    ]


def pod(name: str) -> dict[str, Any]:
    container = {"name": "main", "image": objects.IMAGE, "resources": {"claims": [{"name": "gpu"}]}}
    claims = [{"name": "gpu", "resourceClaimName": "shared"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container], "resourceClaims": claims},
    }


@pytest.mark.parametrize("scheduler", SCHEDULERS)
async def test_it_allocates_a_claim_and_binds_the_pods_that_share_it(tmp_path: Path, scheduler: Scheduler) -> None:
    skip_unless_built(scheduler)
    wanted = [
        objects.device_class(DEVICES, driver=DEVICES),
        objects.claim("shared", device_class=DEVICES),
        pod("one"),
        pod("two"),
    ]
    with RunFolder() as folder:
        async with plane_without_scheduler(tmp_path, scheduler.release) as endpoint:

            async def ask(*arguments: str, stdin: str = "") -> Any:
                told = await asyncio.to_thread(kubectl, *arguments, kubeconfig=endpoint.kubeconfig, stdin=stdin)
                return told if stdin else json.loads(told)

            async def phases() -> list[str]:
                return [each["status"]["phase"] for each in (await ask("get", "pods", JSON))["items"]]

            process = folder.process("kube-scheduler", command(scheduler, folder, kubeconfig=endpoint.kubeconfig))
            await asyncio.to_thread(process.start)
            await ask("create", "--filename=-", stdin="\n".join(map(json.dumps, wanted)))
            await eventually(phases, until=lambda found: found == ["Running"] * 2, within=60, saying="both pods run")
            claim, pods = await ask("get", "resourceclaim", "shared", JSON), (await ask("get", "pods", JSON))["items"]

    assert {each["uid"] for each in claim["status"]["reservedFor"]} == {each["metadata"]["uid"] for each in pods}
    assert claim["status"]["allocation"]["devices"]["results"][0]["driver"] == DEVICES
    assert len({each["spec"]["nodeName"] for each in pods}) == 1


@pytest.mark.parametrize("scheduler", SCHEDULERS[1:])
async def test_it_chooses_the_devices_that_the_engine_chooses(tmp_path: Path, scheduler: Scheduler) -> None:
    """The first of the questions of `make allocator`, as objects; each has a node of its own."""
    skip_unless_built(scheduler)
    generated = {f"q{seed}": cases.question(seed) for seed in range(SEEDS)}
    questions = {name: asked for name, asked in generated.items() if not (asked["lists"] or known(asked))}
    with RunFolder() as folder:
        async with plane_without_scheduler(tmp_path, scheduler.release, nodes=0) as endpoint:
            process = folder.process("kube-scheduler", command(scheduler, folder, kubeconfig=endpoint.kubeconfig))
            await asyncio.to_thread(process.start)
            async with connect(endpoint.kubeconfig) as api:
                metadata = {"name": placing.NAMESPACE, "labels": {placing.ADMIN_ACCESS: "true"}}
                await api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
                for device_class in device_classes(next(iter(questions.values()))["classes"]):
                    await api.create(device_class)
                asked = placing.ask(api, questions, namespace=placing.NAMESPACE)
                answered = {name: (question, theirs) async for name, question, theirs in asked}

    release = allocator_release(scheduler.release)
    assert {name: theirs for name, (_, theirs) in answered.items()} == {
        name: judge.ours(question, release) for name, (question, _) in answered.items()
    }
