import asyncio
import os

import pytest

from dra.kube.client import Client
from dra.kube.clock import SYSTEM
from dra.kube.rate_limiter import RateLimiter
from localplane.nodes import pod_workers
from localplane.nodes.container_runtime import ProcessRuntime
from localplane.nodes.kubelets import Kubelets
from localplane.nodes.node_objects import EmulatedNode
from localplane.server import ApiServer
from localplane.transport import LocalTransport
from tests.dra.kube.virtual import seeded
from tests.localplane.components import User, pod, running


async def eventually(condition):
    async with asyncio.timeout(20):
        while not await condition():  # noqa: ASYNC110 - nothing tells when a process has ended
            await asyncio.sleep(0.02)


@pytest.fixture
def plane():
    server = ApiServer(random=seeded(1))
    client = Client(LocalTransport(server), RateLimiter(1e6, 1e6))
    kubelets = Kubelets(
        client, nodes=[EmulatedNode(name="n1")], clock=SYSTEM, random=seeded(2), containers=ProcessRuntime()
    )
    return User(server), kubelets


@pytest.fixture
async def user(plane):
    user, kubelets = plane
    async with running(kubelets):
        yield user


def phase_is(user, name, wanted):
    async def holds():
        return (await user.get("pods", name)).get("status", {}).get("phase") == wanted

    return holds


async def test_commands_are_executed(user, tmp_path):
    script = f'echo "$POD $GREETING" > {tmp_path}/told; exit 3'
    body = pod("p", node="n1", command=("sh", "-c", script), policy="Never")
    body["spec"]["containers"][0]["env"] = [
        {"name": "GREETING", "value": "hello"},
        {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
    ]
    await user.create("pods", body)
    await eventually(phase_is(user, "p", "Failed"))
    found = await user.get("pods", "p")
    assert found["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3
    assert (tmp_path / "told").read_text() == "p hello\n"


async def test_what_cannot_be_found_ends_as_in_a_shell(user):
    await user.create("pods", pod("p", node="n1", command=("/no/such/program",), policy="Never"))
    await eventually(phase_is(user, "p", "Failed"))
    found = await user.get("pods", "p")
    assert found["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 127


async def test_processes_end_with_their_pod_and_so_does_what_they_started(user, tmp_path):
    script = f"sleep 1000 & echo $! > {tmp_path}/child; wait"
    body = pod("p", node="n1", command=("sh", "-c", script))
    body["metadata"]["finalizers"] = ["example.com/hold"]
    await user.create("pods", body)

    async def told():
        return (tmp_path / "child").exists() and (tmp_path / "child").read_text().strip()

    await eventually(told)
    child = int((tmp_path / "child").read_text())
    await user.delete("pods", "p", gracePeriodSeconds=5)
    await eventually(phase_is(user, "p", "Failed"))

    async def ended():
        try:
            os.kill(child, 0)
        except ProcessLookupError:
            return True
        with open(f"/proc/{child}/stat") as stat:  # noqa: ASYNC230, PTH123 - a line of /proc
            return stat.read().split()[2] == "Z"

    await eventually(ended)


async def end_of(kubelets, user):
    """Run a pod until that ends the kubelets."""
    async with asyncio.timeout(20), running(kubelets):
        await user.create("pods", pod("p", node="n1", command=("true",), policy="Never"))
        await asyncio.Event().wait()


async def test_a_mistake_when_a_process_has_ended_ends_the_kubelets(plane, monkeypatch):
    def ended(*_, **__):
        raise TypeError("ended() takes no uid")

    monkeypatch.setattr(pod_workers, "container_exited", ended)
    user, kubelets = plane
    with pytest.raises(ExceptionGroup) as failed:
        await end_of(kubelets, user)
    assert failed.group_contains(TypeError, match="takes no uid")


async def test_containers_that_do_not_speak_the_protocol_end_the_kubelets(plane, monkeypatch):
    def start(_pod, _container, _ended):
        """As it was before containers had devices."""

    user, kubelets = plane
    monkeypatch.setattr(kubelets._containers, "start", start)
    with pytest.raises(ExceptionGroup) as failed:
        await end_of(kubelets, user)
    assert failed.group_contains(TypeError, match="devices")
