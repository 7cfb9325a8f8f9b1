"""Placeholders that the extender leaves unbound: the Reservation holds the node, and the controller deletes the pod."""

import pytest

from dra.kube.client import Client
from tests.controller.reservations.site import Site

VIRTUAL_TIME = True


async def placed_without_controller(site):
    """Have a Reservation placed while no controller runs, and return it."""
    await site.reserve("r", "10")
    await site.settle()
    await site.stop_controller()
    await site.turn()
    await site.settle()
    return await site.reservation("r")


async def test_the_reservation_holds_the_node_although_its_placeholder_is_not_bound():
    async with Site(nodes={"n1": "16"}, binds_placeholders=False) as site:
        placed = await placed_without_controller(site)
        assert (placed["status"]["phase"], placed["status"]["nodeName"]) == ("Available", "n1")
        (placeholder,) = await site.pods()
        assert "nodeName" not in placeholder["spec"]
        stranger = await site.pod("stranger", "8")
        assert (await site.schedule(stranger))[0] is None


async def test_the_controller_deletes_the_placeholder():
    async with Site(nodes={"n1": "16"}, binds_placeholders=False) as site:
        await site.reserve("r", "10")
        assert (await site.place("r"))["status"]["nodeName"] == "n1"
        assert await site.pods() == []


async def test_a_scheduler_that_tries_the_placeholder_again_is_told_the_same():
    """After a restart kube-scheduler knows nothing of its last cycle."""
    async with Site(nodes={"n1": "16"}, binds_placeholders=False) as site:
        await placed_without_controller(site)
        (placeholder,) = await site.pods()
        call = {"PodName": placeholder["metadata"]["name"], "PodNamespace": "default"}
        bound = await site.call("bind", {**call, "PodUID": placeholder["metadata"]["uid"], "Node": "n1"})
        assert not bound["Error"]


async def test_a_scheduler_that_tries_the_placeholder_again_finds_the_node_that_the_reservation_holds():
    """Else it would evict pods of lower priority, from a node that the Reservation does not need."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "10"}}}
    template = {"spec": {"containers": [container], "preemptionPolicy": "PreemptLowerPriority"}}
    async with Site(nodes={"n1": "16", "n2": "16"}, binds_placeholders=False) as site:
        await site.reserve("r", "10", template=template)
        await site.settle()
        await site.stop_controller()
        (node,) = (await site.turn()).values()
        await site.settle()
        (placeholder,) = await site.pods()
        answer = await site.call("filter", {"Pod": placeholder, "NodeNames": ["n1", "n2"]})
        assert answer["NodeNames"] == [node]
        assert answer["FailedNodes"] == {}
        assert await site.preempt(placeholder, node, [placeholder]) is None
        assert (await site.schedule(placeholder))[0] == node


async def test_an_owner_waits_until_the_unbound_placeholder_is_gone():
    """kube-scheduler counts the placeholder beside its Reservation, as it does a bound one."""
    async with Site(nodes={"n1": "16", "n2": "16"}, binds_placeholders=False) as site:
        node = (await placed_without_controller(site))["status"]["nodeName"]
        owner = await site.pod("owner", "8", app="r")
        told = await site.call("filter", {"Pod": owner, "NodeNames": [{"n1": "n2", "n2": "n1"}[node]]})
        assert told["NodeNames"] == []


@pytest.mark.parametrize(
    ("configured", "server", "binds"),
    [
        pytest.param(None, "v1.37.2", False, id="automatic"),
        pytest.param(None, "v1.35.0", True, id="automatic-on-an-older-server"),
        pytest.param(True, "v1.37.2", True, id="always"),
        pytest.param(False, "v1.35.0", False, id="never"),
    ],
)
async def test_the_configuration_decides_before_the_version_of_the_server(configured, server, binds, monkeypatch):
    async def version(_):
        return server

    monkeypatch.setattr(Client, "git_version", version)
    async with Site(nodes={"n1": "16"}, binds_placeholders=configured) as site:
        await placed_without_controller(site)
        (placeholder,) = await site.pods()
        assert ("nodeName" in placeholder["spec"]) is binds
