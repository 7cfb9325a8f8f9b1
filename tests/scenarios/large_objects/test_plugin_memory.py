"""One pod names as many claims as a node has devices, each as large as an API server stores; the plugin lives on.

The plugin runs with a simulated inventory, in a cgroup with the limit that it ships with; a test plays the kubelet.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest

from tests.cluster import memory
from tests.cluster.memory import Limited, NoCgroupError, limited
from tests.cluster.processes import Process
from tests.kubeletplugin.kubelet import Connection, Kubelet
from tests.scenarios import installation, namespaces
from tests.scenarios.api import Api, Json
from tests.scenarios.large_objects import fat
from tests.scenarios.large_objects.conftest import NODES, Installed
from tests.scenarios.namespaces import Namespace
from tests.scenarios.real_node.plugin import COMMAND, DRIVER, INVENTORY
from tests.scenarios.resources import CLAIMS
from tests.scenarios.target import Capability, Target

pytestmark = [pytest.mark.needs(Capability.COMPONENTS), pytest.mark.long]

GPUS: Final = 40
FAT: Final = GPUS - 1
"""Claims of the pod; the last device is somebody else's."""

SERVED_WITHIN: Final = 10.0
"""Seconds until the claim of somebody else is prepared.

Far more than on a machine that is free.
"""

NODE: Final = NODES[0]


@asynccontextmanager
async def plugin(installed: Installed, cgroup: Limited) -> AsyncIterator[tuple[Process, Any]]:
    """Run the plugin; yield it with the connection of a kubelet."""
    folder = installed.cluster.folder.path
    inventory = folder / "gpus.yaml"
    inventory.write_text(INVENTORY.format(count=GPUS), encoding="utf-8")
    directories = {name: folder / name for name in ("plugins", "registry", "cdi")}
    for path in directories.values():
        path.mkdir(exist_ok=True)
    admin = installed.cluster.admin_kubeconfig
    command = [
        *COMMAND,
        "--drivers=gpu",
        f"--inventory=simulated:{inventory}",
        f"--node-name={NODE}",
        f"--kubeconfig={installation.plugin_kubeconfig(admin, folder, node=NODE)}",
        *(f"--{name}={path}" for name, path in directories.items()),
        "--log-format=text",
    ]
    process = installed.cluster.folder.process("plugin", cgroup.within(command))
    process.spawn()
    try:
        async with Kubelet(directories["registry"]) as kubelet:
            yield process, await kubelet.register(DRIVER)
    finally:
        process.stop()


async def allocated(namespace: Namespace, name: str, *, device: int, config: list[Json]) -> Json:
    """Create a claim with these parameters that has a device of the node."""
    request = {"name": "d", "exactly": {"deviceClassName": DRIVER}}
    await namespace.create(
        {
            "apiVersion": CLAIMS.api_version,
            "kind": CLAIMS.kind,
            "metadata": {"name": name},
            "spec": {"devices": {"requests": [request], "config": config}},
        }
    )
    result = {"request": "d", "driver": DRIVER, "pool": NODE, "device": f"gpu-{device}"}
    given = [{**each, "source": "FromClaim"} for each in config]
    return await namespace.patch_status(
        CLAIMS, name, {"allocation": {"devices": {"results": [result], "config": given}}}
    )


@pytest.mark.parametrize(
    ("driver", "refusal"),
    [
        pytest.param(DRIVER, "its opaque parameters for driver gpu.reserve.dra have", id="for-the-driver"),
        pytest.param("x.example.com", "", id="for-another-driver"),
    ],
)
async def test_the_claims_of_one_pod_do_not_end_the_plugin(
    installed: Installed, target: Target, api: Api, driver: str, refusal: str, remark: Callable[[str], None]
) -> None:
    del target
    try:
        with limited("kubelet-plugin", mebibytes=memory.installed("kubelet-plugin")) as cgroup:
            async with (
                namespaces.temporary(api, purpose="fat claims") as namespace,
                plugin(installed, cgroup) as (process, kubelet),
            ):
                pid = process.pid
                large = [
                    await allocated(namespace, f"fat-{n}", device=n, config=fat.parameters(driver)) for n in range(FAT)
                ]
                answers = await prepared(kubelet, *large)
                assert {type(each) for each in answers} == {str if refusal else list}
                assert all(refusal in each for each in answers if refusal)
                small = await allocated(namespace, "small", device=FAT, config=[])
                began = time.monotonic()
                (devices,) = await prepared(kubelet, small)
                took = time.monotonic() - began
                remark(
                    f"plugin, {FAT} claims with parameters for {driver}: peak {cgroup.peak >> 20} of "
                    f"{memory.installed('kubelet-plugin')} MiB; the next claim took {took:.2f} s"
                )
                assert [each.device_name for each in devices] == [f"gpu-{FAT}"]
                assert took < SERVED_WITHIN
                assert process.alive
                assert (process.pid, cgroup.kills) == (pid, 0)
                await kubelet.unprepare(*large, small)
    except NoCgroupError as error:
        pytest.skip(f"no memory limit can be set here: {error}")


async def prepared(kubelet: Connection, *claims: Json) -> list[Any]:
    """Return the answer for each claim: a list of devices, or an error."""
    answers = await kubelet.prepare(*claims)
    return [answers[each["metadata"]["uid"]] for each in claims]
