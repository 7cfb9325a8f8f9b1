"""A kubelet and containerd on this machine: what every scenario on a real node takes for granted, and their end."""

from __future__ import annotations

import asyncio
import re
import sys
from asyncio.subprocess import PIPE
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pytest

from tests.cluster import keeper
from tests.cluster.binaries import HERE
from tests.cluster.components import REAL_NODES
from tests.cluster.kubelet import Kubelet
from tests.cluster.node import RealNode
from tests.cluster.processes import ProcessDiedError
from tests.cluster.runtime import Container
from tests.scenarios import api as kubernetes
from tests.scenarios import objects, steps
from tests.scenarios.api import ApiError, Json
from tests.scenarios.claims import condition, finished, started
from tests.scenarios.eventually import eventually
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import PodShape
from tests.scenarios.resources import NODES, PODS
from tests.scenarios.target import Capability, Mode, Target

pytestmark = [pytest.mark.needs(Capability.KUBELET, Capability.COMPONENTS), pytest.mark.modes(Mode.ALONGSIDE)]

WITHIN: Final = 90.0
"""Seconds for what the kubelet does: it looks at everything every ten seconds, and backs off by ten."""

ELSEWHERE: Final = [Path("/var/lib/kubelet"), Path("/run/containerd"), Path("/var/log/pods"), Path("/opt/containerd")]
"""What a kubelet and containerd insist on."""


def on_real_node(script: str, *, run_seconds: int | None = None) -> PodShape:
    return PodShape(spec=objects.ON_REAL_NODE, script=script, run_seconds=run_seconds)


async def runs(node: RealNode, namespace: Namespace, pod: str) -> list[Container]:
    """Wait until a pod's container has written something, and return it and its sandbox.

    Not until the container is there: it is before it has started, and a runtime that ends meanwhile forgets it.
    """
    await eventually(
        lambda: node.output(namespace.name, pod), within=WITHIN, saying=f"pod {pod} runs on node {node.name}"
    )
    found = node.containers(namespace.name, pod)
    assert [each.name for each in found] == ["", "main"]
    return found


def on_second_node() -> PodShape:
    return PodShape(spec=objects.ON_REAL_NODE | steps.on(REAL_NODES[1]), script="echo started")


def assert_no_trace(folder: Path, pids: Iterable[int]) -> None:
    """Assert that nothing is left of a node's folder, nor of the processes that ran in its pods."""
    assert keeper.processes_of(folder) == frozenset()
    assert not [pid for pid in pids if _runs(pid)]
    assert mounts_of(folder) == []
    assert cgroups_of(folder) == []
    assert not folder.exists()


def members_of(folder: Path) -> set[int]:
    """Return the pids of what runs in the pods of a node."""
    files = (file for top in cgroups_of(folder) for file in top.rglob("cgroup.procs"))
    return {int(pid) for file in files for pid in _lines(file)}


def mounts_of(folder: Path) -> list[str]:
    """Return the mounts below the folder in any process's namespace."""
    return [line for file in Path("/proc").glob("[0-9]*/mountinfo") for line in _lines(file) if f" {folder}/" in line]


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8").splitlines()
    except OSError:  # ended meanwhile
        return []


def cgroups_of(folder: Path) -> list[Path]:
    return [cgroup for each in keeper.hierarchies() if (cgroup := each / keeper.cgroup_of(folder)).exists()]


async def test_it_is_ready_and_takes_only_pods_that_ask_for_it(real_node: RealNode, namespace: Namespace) -> None:
    node = await namespace.api.get(NODES, real_node.name)
    assert condition(node, "Ready") == "True"
    assert node["status"]["nodeInfo"]["containerRuntimeVersion"].startswith("containerd://")
    assert real_node.plugins.is_dir()
    assert real_node.plugins_registry.is_dir()

    await namespace.create(objects.pod("elsewhere", PodShape()))
    await steps.pods_run(namespace, "elsewhere")
    assert (await namespace.get(PODS, "elsewhere"))["spec"]["nodeName"] != real_node.name


async def test_a_shell_runs_to_its_end_and_can_be_read(real_node: RealNode, namespace: Namespace) -> None:
    await namespace.create(objects.pod("talker", on_real_node("echo hello from $(cat /proc/1/comm)", run_seconds=0)))
    pod = await steps.pod_is(namespace, "talker", finished, within=WITHIN, saying="it has run to its end")
    assert pod["status"]["phase"] == "Succeeded"
    assert real_node.output(namespace.name, "talker") == "hello from sh\n"


async def test_a_pod_that_is_deleted_is_gone_with_its_processes(real_node: RealNode, namespace: Namespace) -> None:
    await namespace.create(objects.pod("sleeper", on_real_node("echo started")))
    await runs(real_node, namespace, "sleeper")
    await namespace.delete(PODS, "sleeper")
    await eventually(
        lambda: real_node.containers(namespace.name, "sleeper"),
        until=lambda found: found == [],
        within=WITHIN,
        saying="its processes have ended",
    )
    await eventually(
        lambda: namespace.find(PODS, "sleeper"),
        until=lambda found: found is None,
        within=WITHIN,
        saying="its object has gone after them",
    )


async def test_a_lost_sandbox_is_made_anew(real_node: RealNode, namespace: Namespace) -> None:
    shape = PodShape(spec=objects.ON_REAL_NODE | {"restartPolicy": "Always"}, script="echo started")
    await namespace.create(objects.pod("phoenix", shape))
    sandbox, _ = await runs(real_node, namespace, "phoenix")
    real_node.kill_sandbox(namespace.name, "phoenix")
    await eventually(
        lambda: real_node.output(namespace.name, "phoenix"),
        until=lambda said: said == "started\n" * 2,
        within=WITHIN,
        saying="it has started once more",
    )
    assert (await runs(real_node, namespace, "phoenix"))[0].pid != sandbox.pid


async def test_containers_outlive_their_kubelet(real_node: RealNode, namespace: Namespace) -> None:
    await namespace.create(objects.pod("steady", on_real_node("echo started")))
    before = await runs(real_node, namespace, "steady")
    real_node.restart_kubelet()
    await namespace.create(objects.pod("next", on_real_node("echo started")))
    await runs(real_node, namespace, "next")
    assert real_node.containers(namespace.name, "steady") == before
    assert started(await namespace.get(PODS, "steady"))


async def test_its_kubelet_may_change_its_own_node_and_no_other(real_node: RealNode, namespace: Namespace) -> None:
    note: Json = {"metadata": {"annotations": {"scenario.dra/by": "the kubelet"}}}
    other = next(each for each in await namespace.api.all(NODES) if each["metadata"]["name"] != real_node.name)
    async with kubernetes.connect(real_node.kubeconfig) as kubelet:
        await kubelet.patch(NODES, real_node.name, note)
        with pytest.raises(ApiError, match=rf"node \"{re.escape(real_node.name)}\".*(cannot|not allowed)") as refused:
            await kubelet.patch(NODES, other["metadata"]["name"], note)
    assert refused.value.status == 403


async def test_containers_outlive_their_containerd(real_node: RealNode, namespace: Namespace) -> None:
    await namespace.create(objects.pod("steady", on_real_node("while sleep 1; do echo again; done")))
    before = await runs(real_node, namespace, "steady")
    real_node.containerd.process.restart()
    said = real_node.output(namespace.name, "steady")
    await eventually(
        lambda: real_node.output(namespace.name, "steady"), until=lambda now: now != said, saying="it goes on to write"
    )
    assert real_node.containers(namespace.name, "steady") == before
    await namespace.create(objects.pod("next", on_real_node("echo started")))
    await runs(real_node, namespace, "next")


async def test_it_ends_without_a_trace(target: Target, namespace: Namespace) -> None:
    there = {path for path in ELSEWHERE if path.exists()}
    with RealNode(target.cluster, REAL_NODES[1]) as node:
        folder = node.folder.path
        await namespace.create(objects.pod("last", on_second_node()))
        pids = [each.pid for each in await runs(node, namespace, "last")]
        assert mounts_of(folder)
        assert cgroups_of(folder)
    assert_no_trace(folder, pids)
    assert {path for path in ELSEWHERE if path.exists()} == there
    assert await namespace.api.find(NODES, REAL_NODES[1]) is None


def test_a_start_that_fails_half_way_says_why_and_leaves_nothing(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Kubelet, "command", lambda self: (str(self.binary), "kubelet", "--no-such-flag"))
    node = RealNode(target.cluster, REAL_NODES[1])
    with pytest.raises(ProcessDiedError, match="unknown flag: --no-such-flag") as failed:
        node.start()
    assert "containerd successfully booted" in "".join(failed.value.__notes__)
    assert_no_trace(node.folder.path, [])


NODE_OF_ITS_OWN: Final = """
import sys
from pathlib import Path
from tests.cluster.kubelet import Kubelet
from tests.cluster.node import RealNode
from tests.cluster.processes import ProcessDiedError

class Visited:
    admin_kubeconfig, kubernetes, feature_gates = Path(sys.argv[1]), sys.argv[2], {}
    kubeconfig = staticmethod(lambda user: Path(sys.argv[1]).with_name(f"{user}.kubeconfig"))

node = RealNode(Visited, sys.argv[3])
node.start()
print(node.folder.path, flush=True)
sys.stdin.read()
"""


async def test_it_ends_without_a_trace_when_its_run_is_killed(target: Target, namespace: Namespace) -> None:
    arguments = [str(target.admin), target.cluster.kubernetes, REAL_NODES[1]]
    program = [sys.executable, "-c", NODE_OF_ITS_OWN, *arguments]
    run = await asyncio.create_subprocess_exec(*program, cwd=HERE.parents[1], stdin=PIPE, stdout=PIPE)
    try:
        assert run.stdout is not None
        folder = Path((await run.stdout.readline()).decode().strip())
        await namespace.create(objects.pod("last", on_second_node()))
        pids = await eventually(
            lambda: members_of(folder), until=lambda found: len(found) >= 2, within=WITHIN, saying="the pod runs"
        )
    finally:
        run.kill()
        await run.wait()
    await eventually(lambda: not folder.exists(), within=WITHIN, saying="the keeper has removed the folder")
    assert_no_trace(folder, pids)
    await namespace.api.delete(NODES, REAL_NODES[1])


def _runs(pid: int) -> bool:
    """Tell whether there is such a process; one that has ended and waits for its parent to notice does not run."""
    return any(line.startswith("State:") and "Z" not in line for line in _lines(Path(f"/proc/{pid}/status")))
