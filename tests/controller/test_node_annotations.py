"""The loop that annotates nodes: what it writes, and what it does where others write or it may not."""

import asyncio
import contextlib

import msgspec
import pytest

from controller.informers import ControllerInformers
from controller.node_annotations import NodeAnnotations
from dra.engine.claims.node_annotations import CALM, PAUSE
from dra.model.autoscalers import DO_NOT_DISRUPT, KEPT_NODE, SCALE_DOWN_DISABLED
from dra.model.nodes import Node
from tests.controller.cluster import NODES, Cluster
from tests.dra.engine.examples import JOB, KEY, NOON, allocation, claim
from tests.dra.kube.scripted import refusal

BOTH = f"{SCALE_DOWN_DISABLED},{DO_NOT_DISRUPT}"
OURS = {SCALE_DOWN_DISABLED: "true", DO_NOT_DISRUPT: "true", KEPT_NODE: BOTH}
KEPT = claim(workload=JOB, list=[JOB], allocation=allocation(nodes=["n1"]))
NODE = f"{NODES}/n1"


@pytest.fixture
def cluster():
    return Cluster()


class Watched(dict):
    """The Nodes of a cluster as a watch without delay shows them."""

    def __init__(self, cluster, world):
        self.cluster = cluster
        self.world = world

    def get(self, key, default=None):
        found = self.cluster.objects.get(f"{NODES}/{key[1]}")
        return msgspec.convert(found, Node) if found is not None else default

    def values(self):
        return [self.get(("", path.rpartition("/")[2])) for path in self.cluster.objects if path.startswith(NODES)]


@pytest.fixture
def annotating(cluster, world, runtime_of, clock):
    """Runs the loop of a leader that begins to act."""

    @contextlib.asynccontextmanager
    async def run(*, enabled=True):
        world.kept_nodes.is_enabled = enabled
        runtime = runtime_of(cluster)
        informers = ControllerInformers(runtime.client, clock=clock)
        informers.nodes.objects = Watched(cluster, world)
        loop = NodeAnnotations(runtime, informers, cache=world.kept_nodes)
        task = asyncio.create_task(loop.run())
        await asyncio.sleep(0.1)
        try:
            yield loop
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    return run


def annotations(cluster):
    return cluster.objects[NODE]["metadata"].get("annotations", {})


async def test_a_node_is_annotated_while_a_claim_is_kept_there(cluster, world, annotating):
    before = cluster.put(NODES, "", "n1", metadata={"annotations": {"other": "x"}})["metadata"]["resourceVersion"]
    world.observe_claim(KEPT, now=NOON)
    async with annotating() as loop:
        assert annotations(cluster) == {"other": "x", **OURS}
        ((_, _, body),) = cluster.writes()
        assert body == {"metadata": {"annotations": OURS, "resourceVersion": before}}
        world.forget_claim(KEY, KEPT.metadata.uid)
        loop.enqueue_dirty()
        await asyncio.sleep(0.1)
        assert annotations(cluster) == {"other": "x"}


async def test_a_leader_finds_by_the_marker_what_its_predecessor_has_annotated(cluster, annotating):
    cluster.put(NODES, "", "n1", metadata={"annotations": {**OURS, KEPT_NODE: DO_NOT_DISRUPT}})
    async with annotating():
        assert annotations(cluster) == {SCALE_DOWN_DISABLED: "true"}, "that of a person stays"


async def test_after_a_conflict_the_newer_version_is_decided_on(cluster, world, annotating):
    cluster.put(NODES, "", "n1")
    world.observe_claim(KEPT, now=NOON)
    by_a_person = {"metadata": {"annotations": {DO_NOT_DISRUPT: "true"}}}
    cluster.disturb[NODE] = lambda: cluster.put(NODES, "", "n1", **by_a_person)
    async with annotating():
        await asyncio.sleep(2 * NodeAnnotations.settings.retry[0])
        assert annotations(cluster) == {
            SCALE_DOWN_DISABLED: "true",
            DO_NOT_DISRUPT: "true",
            KEPT_NODE: SCALE_DOWN_DISABLED,
        }


async def test_a_missing_permission_is_told_once_and_tried_again(cluster, world, annotating, caplog):
    cluster.put(NODES, "", "n1")
    world.observe_claim(KEPT, now=NOON)
    cluster.answer["PATCH"] = refusal(403, "Forbidden")
    async with annotating():
        await asyncio.sleep(NodeAnnotations.settings.retry[0])
        assert caplog.text.count("node n1: not kept from autoscalers, and neither are others") == 1
        assert len(cluster.writes()) > 1
        del cluster.answer["PATCH"]
        await asyncio.sleep(4 * NodeAnnotations.settings.retry[0])
        assert annotations(cluster) == OURS


async def test_where_nodes_are_not_annotated_no_node_is_written(cluster, world, annotating):
    cluster.put(NODES, "", "n1", metadata={"annotations": {SCALE_DOWN_DISABLED: "true"}})
    world.observe_claim(KEPT, now=NOON)
    async with annotating(enabled=False):
        assert cluster.writes() == []


async def test_where_nodes_are_no_longer_annotated_what_is_left_is_removed(cluster, world, annotating):
    cluster.put(NODES, "", "n1", metadata={"annotations": OURS})
    world.observe_claim(KEPT, now=NOON)
    async with annotating(enabled=False):
        assert annotations(cluster) == {}


async def test_where_nodes_are_no_longer_annotated_a_missing_permission_is_told_once(cluster, annotating, caplog):
    for name in ("n1", "n2"):
        cluster.put(NODES, "", name, metadata={"annotations": OURS})
    cluster.answer["PATCH"] = refusal(403, "Forbidden")
    async with annotating(enabled=False) as loop:
        attempts = len(cluster.writes())
        assert 1 <= attempts <= 2
        assert caplog.text.count("component annotate-nodes") == 1
        await loop.begin()
        loop.enqueue_dirty()
        await asyncio.sleep(2 * NodeAnnotations.settings.retry[1])
        assert len(cluster.writes()) == attempts


async def test_a_node_that_is_gone_or_going_is_left_alone(cluster, world, annotating):
    world.observe_claim(KEPT, now=NOON)
    async with annotating() as loop:
        cluster.put(NODES, "", "n1", metadata={"deletionTimestamp": "2026-11-20T12:00:00Z"})
        await loop.begin()
        loop.enqueue_dirty()
        await asyncio.sleep(0.1)
        assert cluster.writes() == []


async def test_an_internal_error_is_counted_and_stops_no_other_node(cluster, world, annotating, metrics, monkeypatch):
    cluster.put(NODES, "", "n1")
    world.observe_claim(KEPT, now=NOON)
    decide = world.kept_nodes.changes
    failures = iter([RuntimeError("a bug")])

    def changes(node):
        for error in failures:
            raise error
        return decide(node)

    async with annotating() as loop:
        monkeypatch.setattr(world.kept_nodes, "changes", changes)
        cluster.put(NODES, "", "n1")
        world.kept_nodes.dirty.add("n1")
        loop.enqueue_dirty()
        await asyncio.sleep(2 * NodeAnnotations.settings.retry[0])
        assert metrics.failures._value.get() == 1
        assert annotations(cluster) == OURS


async def test_a_party_that_removes_the_annotations_each_time_meets_ever_longer_pauses(cluster, world, annotating):
    cluster.put(NODES, "", "n1")
    world.observe_claim(KEPT, now=NOON)
    async with annotating() as loop:
        for _ in range(6000):  # ten minutes
            if annotations(cluster):
                cluster.objects[NODE]["metadata"]["annotations"] = {}
                world.kept_nodes.observe_node(msgspec.convert(cluster.objects[NODE], Node))
                loop.enqueue_dirty()
            await asyncio.sleep(0.1)
        assert len(cluster.writes()) <= 2 + 6 + 10, "prompt writes, growing pauses, then one a minute"
        await asyncio.sleep(PAUSE[1])
        assert annotations(cluster) == OURS
        before = len(cluster.writes())
        await asyncio.sleep(CALM)
        world.forget_claim(KEY, KEPT.metadata.uid)
        loop.enqueue_dirty()
        await asyncio.sleep(0.1)
        assert len(cluster.writes()) == before + 1, "prompt again"


async def test_a_missing_permission_is_tried_with_one_node_at_a_time(cluster, world, annotating):
    names = [f"n{number}" for number in range(1, 6)]
    for name in names:
        cluster.put(NODES, "", name)
    world.observe_claim(claim(workload=JOB, list=[JOB], allocation=allocation(nodes=names)), now=NOON)
    cluster.answer["PATCH"] = refusal(403, "Forbidden")
    async with annotating():
        await asyncio.sleep(600)
        assert len([each for each in cluster.requests if each.method == "PATCH"]) <= 2 * 4 + 9 + 10
