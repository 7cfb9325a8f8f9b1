"""Host ports of a template: kube-scheduler looks after those of pods, the extender after those that are held."""

from __future__ import annotations

from tests.scenarios.api import Api, Json
from tests.scenarios.reservations.test_manual import reaches, reservation, running, stranger, waits

PORT = 8080


def with_port(manifest: Json) -> Json:
    spec = manifest["spec"] if manifest["kind"] == "Pod" else manifest["spec"]["template"]["spec"]
    spec["containers"][0]["ports"] = [{"containerPort": PORT, "hostPort": PORT}]
    return manifest


async def test_a_stranger_is_refused_the_port_and_an_owner_gets_it(emptied: Api) -> None:
    """Case 22 beside Koordinator 1.6."""
    held = with_port(reservation("web", cpu="1", allocateOnce=False))
    held["spec"]["template"]["spec"]["nodeName"] = "node-1"
    await emptied.create(held)
    await reaches(emptied, "web", "Available")
    await emptied.create(with_port(stranger("thief", cpu="1", node="node-1")), namespace="default")
    await waits(emptied, "thief", because="free ports for the requested pod ports")
    await emptied.create(with_port(stranger("owner", cpu="1", app="web")), namespace="default")
    (owner,) = await running(emptied, 1, labelSelector="app=web")
    assert owner["spec"]["nodeName"] == "node-1"


async def test_the_next_reservation_with_the_port_goes_to_another_node(emptied: Api) -> None:
    names = ("one", "two", "three")
    for name in names:
        await emptied.create(with_port(reservation(name, cpu="1")))
    nodes = [(await reaches(emptied, name, "Available"))["status"]["nodeName"] for name in names]
    assert len(set(nodes)) == len(nodes)
