"""Informers that several parts share: who hears what, in which order, and when nothing is watched."""

import asyncio
import contextlib

import pytest

from dra.kube.event_handlers import ignore
from dra.kube.resources import NODES, PODS
from dra.kube.shared_informers import SharedInformers
from dra.kube.store import ServerRestoredError
from dra.model.meta import Uid
from dra.model.nodes import Node
from dra.model.pods import Pod
from tests.controller.cluster import NODES as NODES_PATH
from tests.controller.cluster import PODS as PODS_PATH
from tests.controller.cluster import Cluster
from tests.dra.kube.scripted import client_of, refusal
from tests.dra.kube.virtual import LoopClock

VIRTUAL_TIME = True


@pytest.fixture
def cluster():
    served = Cluster()
    served.put(NODES_PATH, "", "n1")
    return served


@contextlib.asynccontextmanager
async def running(informers):
    task = asyncio.create_task(informers.run())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def informers_of(cluster):
    return SharedInformers(client_of(cluster), clock=LoopClock())


async def test_each_subscriber_hears_each_batch_in_the_order_of_subscription_and_listeners_come_last(cluster):
    informers, told = informers_of(cluster), []
    nodes = informers.informer(NODES, Node)
    for name in ("first", "second"):
        nodes.subscribe(
            lambda node, name=name: told.append((name, "observes", node.metadata.name)),
            lambda node, name=name: told.append((name, "forgets", node.metadata.name)),
        )
    informers.on_batch_end(lambda: told.append("end"))
    async with running(informers):
        await informers.wait_for_sync()
        assert told[: told.index("end")] == [("first", "observes", "n1"), ("second", "observes", "n1")]
        assert [node.metadata.name for node in nodes.objects.values()] == ["n1"]
        told.clear()
        cluster.drop(NODES_PATH, "", "n1")
        await asyncio.sleep(1.0)
        assert told == [("first", "forgets", "n1"), ("second", "forgets", "n1"), "end"]


async def test_nothing_is_watched_that_nobody_has_subscribed_to(cluster):
    informers = informers_of(cluster)
    informers.informer(NODES, Node).subscribe(ignore)
    pods = informers.informer(PODS, Pod)
    cluster.refuse[PODS_PATH] = refusal(403, "Forbidden")
    async with running(informers):
        await asyncio.wait_for(informers.wait_for_sync(), 1.0)
        assert (pods.is_subscribed, informers.not_ready_reasons()) == (False, [])


async def test_nobody_waits_for_what_is_never_listed(cluster):
    with pytest.raises(RuntimeError, match="nodes: nobody has subscribed"):
        await informers_of(cluster).informer(NODES, Node).wait_for_sync()


async def test_what_is_not_listed_is_named(cluster):
    informers = informers_of(cluster)
    informers.informer(NODES, Node).subscribe(ignore)
    assert informers.not_ready_reasons() == ["nodes: not listed yet"]


async def test_objects_are_trimmed_before_anybody_sees_them(cluster):
    informers, told = informers_of(cluster), []
    nodes = informers.informer(NODES, Node, prepare=lambda node: told.append(("trims", node.metadata.name)))
    nodes.subscribe(lambda node: told.append(("observes", node.metadata.name)))
    async with running(informers):
        await informers.wait_for_sync()
        assert told == [("trims", "n1"), ("observes", "n1")]


async def test_a_subscriber_that_comes_after_the_first_list_is_refused(cluster):
    informers = informers_of(cluster)
    nodes = informers.informer(NODES, Node)
    nodes.subscribe(ignore)
    async with running(informers):
        await informers.wait_for_sync()
        with pytest.raises(RuntimeError, match="nodes: subscribed after the first list"):
            nodes.subscribe(ignore)


@pytest.mark.parametrize("remembers", [True, False], ids=["who-remembers-more-ends", "who-does-not-goes-on"])
async def test_a_restored_server_ends_the_process_unless_nothing_more_is_remembered(cluster, remembers):
    informers = informers_of(cluster)
    informers.informer(NODES, Node).subscribe(ignore, **({} if remembers else {"restored": ignore}))
    backup, version = dict(cluster.objects), cluster.version
    async with running(informers) as task:
        await informers.wait_for_sync()
        await asyncio.sleep(1.0)
        cluster.put(NODES_PATH, "", "n2")
        await asyncio.sleep(1.0)
        cluster.restore(backup, version)
        await asyncio.sleep(300.0)
        assert task.done() is remembers
        if remembers:
            with pytest.raises(ExceptionGroup) as caught:
                await task
            assert caught.group_contains(ServerRestoredError)


async def test_responses_reach_all_subscribers_before_the_watch(cluster):
    informers, told = informers_of(cluster), []
    nodes = informers.informer(NODES, Node)
    nodes.subscribe(lambda node: told.append(("observes", node.metadata.name)), lambda _: told.append("forgets"))
    informers.on_batch_end(lambda: told.append("end"))
    async with running(informers):
        await informers.wait_for_sync()
        node = nodes.objects["", "n1"]
        told.clear()
        nodes.observe_response(node)
        assert told == [("observes", "n1"), "end"]
        told.clear()
        nodes.observe_missing(("", "n1"), Uid("another"))
        nodes.observe_missing(("", "n2"), node.metadata.uid)
        assert told == []
        nodes.observe_missing(("", "n1"), node.metadata.uid)
        assert told == ["forgets", "end"]
