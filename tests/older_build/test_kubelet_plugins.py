"""Kubelet plugins of two builds on one node, in turn and overlapping: what one has prepared, the other one keeps.

The node is one of a local plane: its kubelet calls plugins over their sockets, and containers are processes that get
the environment of the CDI files.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import pytest

from tests.cluster.ports import LOOPBACK, free
from tests.cluster.probes import healthy
from tests.cluster.processes import Process
from tests.cluster.run_folder import RunFolder
from tests.older_build.builds import ROOT, Build
from tests.older_build.conftest import as_json
from tests.older_build.exposition import lost_series
from tests.older_build.parts import CONTROLLER, Place, fetch, pair
from tests.scenarios import api as kubernetes
from tests.scenarios import namespaces, objects
from tests.scenarios.eventually import eventually
from tests.scenarios.objects import PodShape
from tests.scenarios.resources import CLAIMS, NAMESPACES, PODS, RESOURCE_SLICES

if TYPE_CHECKING:
    from tests.scenarios.namespaces import Namespace

pytestmark = pytest.mark.slow

Json = dict[str, Any]

NODE: Final = "node-1"
GPU, CPU = "gpu.reserve.dra", "cpu.reserve.dra"
GPUS: Final = 4
INVENTORY: Final = ROOT / "examples" / "gpus" / "inventory-8xh100.yaml"
RUNTIME: Final = re.compile(r"Plugins register in (\S+)/NODE/")
DEVICE: Final = re.compile(r"^(?:GPU_DEVICE_|DRA_CPUSET)\w*=.*$", re.MULTILINE)
READY_WITHIN: Final = 60.0
STAYING: Final = ("first", "second", "alone", "pinned")


class Node:
    """The node of a plane, with the folders of its plugins."""

    def __init__(self, folder: RunFolder, runtime: Path, admin: Path) -> None:
        self.folder: Final = folder
        self.root: Final = runtime / NODE
        self.admin: Final = admin

    def prepared(self, driver: str) -> dict[str, list[str]]:
        """Return the devices of the claims in the checkpoint of a driver, by the claims' uids."""
        found = json.loads((self.root / "plugins" / driver / "checkpoint.json").read_text())["content"]
        return {each["claim"]["uid"]: sorted(d["device"] for d in each["devices"]) for each in found}

    def described(self) -> dict[str, Json]:
        """Return the CDI files of claims: what the devices of a claim bring into a container, by the file's name."""
        files = sorted(self.root.glob("cdi/*-claim-*.json"))
        return {file.name: json.loads(file.read_text()) for file in files}


class Plugin:
    """The plugin of a build on the node: both drivers, simulated GPUs and the CPUs of this machine."""

    def __init__(self, build: Build, node: Node, *, instance: str = "") -> None:
        self.name: Final = f"plugin of {build}"
        self._probes, self._metrics = free(2)
        root = node.root
        line = build.command(
            "kubelet-plugin",
            "--drivers=gpu,cpu",
            f"--inventory=simulated:{INVENTORY}",
            "--kubepods-cgroup=none",
            "--reserved-cpus=0",
            f"--node-name={NODE}",
            f"--kubeconfig={node.admin}",
            f"--plugins={root / 'plugins'}",
            f"--registry={root / 'plugins_registry'}",
            f"--cdi={root / 'cdi'}",
            f"--probes={LOOPBACK}:{self._probes}",
            f"--metrics={LOOPBACK}:{self._metrics}",
            "--log-format=text",
            *([f"--pod-uid={instance}"] if instance else []),
        )
        stem = f"plugin-{build.tree.name}-{self._probes}"
        self.process: Final[Process] = node.folder.process(stem, line, ready=self._is_ready)

    def start(self) -> None:
        """Start it and return when it is registered and its devices are published."""
        try:
            self.process.start(within=READY_WITHIN)
        except TimeoutError as error:
            raise AssertionError(f"{self.name} does not take over the node: {error}\n{self.process.tail()}") from error

    def stop(self) -> None:
        """End it in order."""
        code = self.process.stop()
        assert code == 0, f"{self.name} ended with exit code {code}:\n{self.process.tail()}"

    async def exposition(self) -> str:
        """Return the text of /metrics."""
        return await fetch(self._metrics, "/metrics")

    def _is_ready(self) -> bool:
        return healthy(self._probes, "/readyz", tls=False)


@pytest.fixture
def node(newer: Build) -> Iterator[Node]:
    """A plane with one node that waits for plugins, and runs containers as processes."""
    with RunFolder() as folder:
        state = folder.path / "plane"
        alone = ("--no-controller", "--no-reservations", "--nodes=1", "--devices=0", "--plugins=own", "--processes")
        process = folder.process("plane", newer.command("local", "up", f"--folder={state}", *alone))
        process.ready = lambda: bool(RUNTIME.search(process.log.read_text()))
        process.start()
        (runtime,) = RUNTIME.findall(process.log.read_text())
        yield Node(folder, Path(runtime), as_json(state / "kubeconfig", folder.path / "admin.kubeconfig"))


@pytest.fixture
async def namespace(node: Node, newer: Build) -> AsyncIterator[Namespace]:
    """A namespace of the plane, with classes and templates, and a controller that makes and ends claims."""
    place = Place(folder=node.folder, admin=node.admin, extender_port=0, translates=True)
    alone = {"mode": "replace", "leaderElection": {"enabled": False}}
    async with kubernetes.connect(node.admin) as api, pair(CONTROLLER, place, newer, configuration=alone) as controller:
        await api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "dra-reserve"}})
        await controller.leader.start(leading=True)
        async with namespaces.temporary(api, purpose="plugins") as found:
            for driver in (GPU, CPU):
                await found.create(objects.device_class(driver, driver=driver))
                await found.create(objects.claim_template(driver, device_class=driver))
            await found.create(objects.claim("shared", device_class=GPU))
            yield found
            await api.delete(NAMESPACES, found.name)


async def test_plugins_of_both_builds_serve_one_node_in_turn(
    node: Node, namespace: Namespace, older: Build, newer: Build
) -> None:
    pods = PodsOnNode(namespace, node)
    running = Plugin(older, node)
    running.start()
    await pods.begin()
    texts = {older: await running.exposition()}
    for number, build in enumerate((newer, older, newer, older)):
        overlapping, by_crash = number > 1, number == 1
        before = running
        running = Plugin(build, node, instance=str(uuid4()) if overlapping else "")
        if overlapping:
            running.start()
        if by_crash:
            before.process.kill()
        else:
            before.stop()
        if not overlapping:
            running.start()
        way = f"{before.name}, then {running.name}, {'both at a time' if overlapping else 'one after the other'}"
        await pods.are_well(number, way)
        texts.setdefault(build, await running.exposition())
    await pods.end()
    running.stop()
    assert not (lost := lost_series(texts[older], texts[newer])), f"/metrics of {newer} lacks what {older} has: {lost}"


class PodsOnNode:
    """Pods that stay, two of them with one GPU, and pods that come and go while plugins are exchanged."""

    def __init__(self, namespace: Namespace, node: Node) -> None:
        self._namespace: Final = namespace
        self._node: Final = node
        self._told: Final = node.folder.path / "told"
        self._told.mkdir()
        self._staying: dict[str, Any] = {}

    async def begin(self) -> None:
        """Start the pods that stay."""
        for name, source in zip(STAYING, ({"claim": "shared"}, {"claim": "shared"}, _of(GPU), _of(CPU)), strict=True):
            await self._start(name, **source)
        assert self._devices("first") == self._devices("second") != self._devices("alone")
        self._staying = await self._state()

    async def are_well(self, number: int, way: str) -> None:
        """Assert that nobody has lost a device, and that pods with the same, a new, and a freed device start."""
        now = await self._state()
        changed = {what: (was, now[what]) for what, was in self._staying.items() if was != now[what]}
        assert not changed, f"{way}: was, and is now: {changed}"
        joins, visits = f"joins-{number}", f"visits-{number}"
        await self._start(joins, claim="shared")
        assert self._devices(joins) == self._devices("first"), f"{way}: one claim gives two containers other devices"
        await self._start(visits, **_of(GPU))
        taken = [self._devices(each) for each in STAYING]
        assert self._devices(visits) not in taken, f"{way}: a device is given to a second claim"
        for name in (joins, visits):
            await self._namespace.delete(PODS, name, grace_seconds=1)
        await eventually(
            lambda: self._prepared() == self._staying["prepared"],
            saying=f"{way}: claims of pods that ended are unprepared",
        )

    async def end(self) -> None:
        """End the pods; nothing is left of their claims."""
        for name in STAYING:
            await self._namespace.delete(PODS, name, grace_seconds=1)
        await eventually(
            lambda: not any(self._prepared().values()) and not self._node.described(), saying="nothing is prepared"
        )

    async def _start(self, name: str, **source: str) -> None:
        # The file appears whole: `mv` is atomic.
        told = self._told / name
        shape = PodShape(script=f"env > {told}.new; mv {told}.new {told}", **source)
        made = objects.pod(name, shape)
        made["spec"] |= {"nodeSelector": {}, "tolerations": []}
        await self._namespace.create(made)
        await eventually(told.exists, within=100, saying=f"pod {name} runs, and has told its environment")

    def _devices(self, name: str) -> list[str]:
        """Return what CDI has brought into a container."""
        found = sorted(DEVICE.findall((self._told / name).read_text()))
        assert found, f"pod {name} has no device"
        return found

    def _prepared(self) -> dict[str, dict[str, list[str]]]:
        return {driver: self._node.prepared(driver) for driver in (GPU, CPU)}

    async def _state(self) -> dict[str, Any]:
        """Return what must not change under running pods."""
        pods = [await self._namespace.get(PODS, name) for name in STAYING]
        used = {name for pod in pods for name in _claims(pod)}
        claims = [each for each in await self._namespace.all(CLAIMS) if each["metadata"]["name"] in used]
        slices = await self._namespace.api.all(RESOURCE_SLICES)
        uids = {each["metadata"]["uid"] for each in claims}
        return {
            "pods": {each["metadata"]["name"]: (each["metadata"]["uid"], each["status"]["phase"]) for each in pods},
            "restarts": [status["restartCount"] for each in pods for status in each["status"]["containerStatuses"]],
            "allocations": {each["metadata"]["uid"]: each["status"]["allocation"] for each in claims},
            "prepared": self._prepared(),
            "CDI files": {
                name: [device["name"] for device in file["devices"]]
                for name, file in self._node.described().items()
                if any(uid in name for uid in uids)
            },
            "published": sorted(device["name"] for each in slices for device in each["spec"]["devices"]),
        }


def _claims(pod: Json) -> list[str]:
    sources = [*pod["spec"]["resourceClaims"], *pod["status"].get("resourceClaimStatuses", ())]
    return [each["resourceClaimName"] for each in sources if "resourceClaimName" in each]


def _of(driver: str) -> dict[str, str]:
    return {"claim_template": driver}
