"""The real kube-scheduler, unmodified, places pods with claims on our control plane, in the place of our own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from localplane.https_server import ServerEndpoint, serve_https
from localplane.plane.components import SCHEDULER
from localplane.plane.local_plane import LocalPlane
from localplane.plane.options import PlaneOptions
from localplane.schemas.builtin_schemas import Dialect
from tests.cluster import binaries
from tests.cluster.kubectl import kubectl
from tests.cluster.ports import LOOPBACK, free
from tests.cluster.run_folder import RunFolder
from tests.scenarios import objects
from tests.scenarios.eventually import eventually
from tests.scenarios.target import Capability

pytestmark = [pytest.mark.cluster, pytest.mark.needs(Capability.COMPONENTS)]

DEVICES: Final = "gpu.example.com"

JSON: Final = "--output=json"


@asynccontextmanager
async def plane_without_scheduler(folder: Path) -> AsyncIterator[ServerEndpoint]:
    plane = LocalPlane(PlaneOptions(api=Dialect.STOCK, nodes=2, devices=1))
    plane.remove_component(SCHEDULER)
    async with serve_https(plane.handle, folder=folder) as endpoint, asyncio.TaskGroup() as group:
        running = group.create_task(plane.run())
        await plane.wait_ready()
        yield endpoint
        running.cancel()


def scheduler(folder: RunFolder, *, kubeconfig: Path) -> list[str]:
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
        *(str(binaries.build(binaries.controlplane())), "scheduler"),
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


async def test_it_allocates_a_claim_and_binds_the_pods_that_share_it(tmp_path: Path) -> None:
    wanted = [
        objects.device_class(DEVICES, driver=DEVICES),
        objects.claim("shared", device_class=DEVICES),
        pod("one"),
        pod("two"),
    ]
    with RunFolder() as folder:
        async with plane_without_scheduler(tmp_path) as endpoint:

            async def ask(*arguments: str, stdin: str = "") -> Any:
                told = await asyncio.to_thread(kubectl, *arguments, kubeconfig=endpoint.kubeconfig, stdin=stdin)
                return told if stdin else json.loads(told)

            async def phases() -> list[str]:
                return [each["status"]["phase"] for each in (await ask("get", "pods", JSON))["items"]]

            process = folder.process("kube-scheduler", scheduler(folder, kubeconfig=endpoint.kubeconfig))
            await asyncio.to_thread(process.start)
            await ask("create", "--filename=-", stdin="\n".join(map(json.dumps, wanted)))
            await eventually(phases, until=lambda found: found == ["Running"] * 2, within=60, saying="both pods run")
            claim, pods = await ask("get", "resourceclaim", "shared", JSON), (await ask("get", "pods", JSON))["items"]

    assert {each["uid"] for each in claim["status"]["reservedFor"]} == {each["metadata"]["uid"] for each in pods}
    assert claim["status"]["allocation"]["devices"]["results"][0]["driver"] == DEVICES
    assert len({each["spec"]["nodeName"] for each in pods}) == 1
