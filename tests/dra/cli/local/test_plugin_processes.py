"""``dra-reserve local up --plugins`` and ``--processes``: a plugin of the test's own at the sockets of a plane."""

import json
import os
import re
import shlex
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from dra.cli.local import plugin_processes
from dra.cli.local.plane_folder import PlaneFolder
from dra.kube import credentials
from dra.kube.client import Client
from dra.kube.clock import SYSTEM
from dra.kube.http import HttpTransport
from dra.kube.rate_limiter import RateLimiter
from dra.kube.resources import CLAIMS, PODS, SLICES, Resource
from dra.model.meta import PartialObjectMetadata, UnstructuredObject
from kubeletplugin.inventory.node_file import parse_node_inventory
from localplane.nodes.plugins.node_folders import NodeFolders
from tests.localplane.components import pod
from tests.localplane.nodes.plugins.socket_plugin import DRIVER, SocketPlugin
from tests.localplane.nodes.plugins.test_pods import eventually, with_devices

pytestmark = pytest.mark.slow

CLASSES = Resource("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", namespaced=False)
ROOT = Path(__file__).parents[4]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


def local(tmp_path, *arguments, code=0):
    command = [sys.executable, "-m", "dra.cli.main", "local", *arguments]
    done = subprocess.run(
        command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def up(tmp_path):
    """Start a plane with options; returns its folder."""

    def up(*options):
        told = local(tmp_path, "up", "--detach", "--no-controller", "--nodes=1", *options)
        assert "A plane runs at" in told
        return PlaneFolder(tmp_path / ".dra")

    yield up
    local(tmp_path, "down")


@pytest.fixture
async def client(up):
    folder = up("--plugins=own", "--processes", "--devices=0")
    transport = HttpTransport(credentials.find(str(folder / "kubeconfig")))
    yield Client(transport, RateLimiter(1e6, 1e6, clock=SYSTEM))
    await transport.close()


async def test_a_pod_of_a_plane_runs_as_a_process_with_the_device_of_a_plugin(client, tmp_path):
    folder = PlaneFolder(tmp_path / ".dra")
    folders = NodeFolders(Path(folder.record.runtime) / "node-1")
    async with SocketPlugin(folders) as plugin:

        async def registered():
            return plugin.statuses == [(True, "")]

        await eventually(registered)
        exactly = {"deviceClassName": "all", "allocationMode": "ExactCount", "count": 1}
        await client.create(
            SLICES,
            {
                "metadata": {"name": "node-1"},
                "spec": {
                    "driver": DRIVER,
                    "nodeName": "node-1",
                    "pool": {"name": "node-1", "generation": 1, "resourceSliceCount": 1},
                    "devices": [{"name": "gpu-0"}],
                },
            },
            model=PartialObjectMetadata,
        )
        await client.create(CLASSES, {"metadata": {"name": "all"}, "spec": {}}, model=PartialObjectMetadata)
        claim = await client.create(
            CLAIMS,
            {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}},
            model=PartialObjectMetadata,
            namespace="default",
        )
        devices = [{"name": f"{claim.metadata.uid}-0", "containerEdits": {"env": ["DEVICE=gpu-0"]}}]
        (folders.cdi / "c.json").write_text(json.dumps({"kind": f"{DRIVER}/claim", "devices": devices}))
        script = f"echo $DEVICE > {shlex.quote(str(tmp_path / 'told'))}"
        body = with_devices(pod("p", claims=["c"], command=("sh", "-c", script), policy="Never"), "c0")
        await client.create(PODS, body, model=PartialObjectMetadata, namespace="default")

        async def succeeded():
            found = await client.get(PODS, ("default", "p"), UnstructuredObject)
            return found.content.get("status", {}).get("phase") == "Succeeded"

        await eventually(succeeded)
        assert (tmp_path / "told").read_text() == "gpu-0\n"
        assert plugin.prepared == plugin.unprepared == [[("default", "c", claim.metadata.uid)]]


async def test_our_plugin_publishes_the_gpus_of_each_node(up):
    folder = up("--plugins=gpu", "--devices=3")
    transport = HttpTransport(credentials.find(str(folder / "kubeconfig")))
    client = Client(transport, RateLimiter(1e6, 1e6, clock=SYSTEM))

    async def published():
        found = [
            each.content["spec"] async for page in client.list_pages(SLICES, UnstructuredObject) for each in page.items
        ]
        return [(each["driver"], len(each["devices"])) for each in found] == [("gpu.reserve.dra", 3)]

    await eventually(published)
    assert folder.record.plugins["node-1"]
    await transport.close()


def test_sockets_are_found_by_status_and_go_with_the_plane(up, tmp_path):
    folder = up("--plugins=own")
    runtime = Path(folder.record.runtime)
    assert f"Plugins register in {runtime}/NODE/plugins_registry" in local(tmp_path, "status")
    local(tmp_path, "down")
    assert not runtime.exists()


def test_what_a_killed_plane_left_goes_with_the_next_down(up, tmp_path):
    folder = up("--plugins=own")
    record = folder.record
    os.kill(record.pid, 9)
    local(tmp_path, "down")
    assert not Path(record.runtime).exists()


def test_a_plane_without_plugins_has_no_sockets(up):
    folder = up()
    assert folder.record.runtime is None
    assert not folder.runtime.exists()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--plugins=gpu,tpu"], "'tpu': there are gpu, own"),
        (["--plugins=gpu", "--nodes=21"], "starts a process for each node: 20 nodes at most"),
    ],
    ids=str,
)
def test_what_makes_no_sense_is_a_usage_error(tmp_path, arguments, expected):
    assert expected in " ".join(re.sub("[│╭╰]", "", local(tmp_path, "up", *arguments, code=2)).split())


def test_each_node_has_a_plugin_with_gpus_of_its_own(tmp_path):
    folder = PlaneFolder(tmp_path / "state")
    with folder.lock():
        runtime = tmp_path / "run"
        pids = {}
        found = dict(
            plugin_processes.create_plugins(
                folder, ["gpu"], runtime=runtime, nodes=["node-1", "node-2"], devices=4, on_pid_change=pids.__setitem__
            )
        )
        assert list(found) == ["node-1", "node-2"]
        assert found["node-2"].command == (
            "kubelet-plugin",
            "--drivers=gpu",
            "--node-name=node-2",
            f"--inventory=simulated:{folder.path}/plugins/node-2.yaml",
            f"--plugins={runtime}/node-2/plugins",
            f"--registry={runtime}/node-2/plugins_registry",
            f"--cdi={runtime}/node-2/cdi",
            f"--kubeconfig={folder.path}/kubeconfig",
        )
        found["node-2"].on_pid_change(7)
        assert pids == {"node-2": 7}
        assert (folder / "plugins" / "node-1.yaml").exists()
    assert not folder.path.exists()


@pytest.mark.parametrize("devices", [0, 1, 1000])
def test_the_inventory_is_one_that_the_plugin_reads(devices):
    described = parse_node_inventory(plugin_processes.inventory_file(devices))
    assert sum(group.count for group in described.gpus) == devices
    assert yaml.safe_load(plugin_processes.inventory_file(devices))["kind"] == "NodeInventory"


def test_a_runtime_folder_is_short_wherever_the_state_is_and_private(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = PlaneFolder(tmp_path / ("deep" * 20))
    runtime = folder.create_runtime()
    try:
        assert len(bytes(runtime)) <= 24
        assert stat.S_IMODE(runtime.stat().st_mode) == 0o700
        assert PlaneFolder(tmp_path / "other").runtime != runtime
        with pytest.raises(FileExistsError):
            folder.create_runtime()
        with socket.socket(socket.AF_UNIX) as longest:
            registry = NodeFolders(runtime / "node-1000").registry
            registry.mkdir(parents=True)
            longest.bind(str(registry / f"gpu.reserve.dra-{'0' * 36}-reg.sock"))
        with folder.lock():
            assert not runtime.exists(), "an earlier plane of this folder has left it"
    finally:
        assert not runtime.exists()
