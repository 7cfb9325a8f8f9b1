import asyncio
import contextlib
from functools import partial

import msgspec
import pytest

from controller.claim_event_handlers import ClaimEventHandlers
from controller.informers import ControllerInformers
from dra.engine.claims.claim_cache import ClaimCache
from dra.engine.claims.claim_holders import HolderState
from dra.engine.claims.consumers import SCHEDULING_GATE, concerns_claims
from dra.kube.informers import STALE_AFTER
from dra.kube.store import ServerRestoredError
from dra.model.meta import ObjectMeta, Uid, UnstructuredObject
from tests.controller.cluster import CLAIMS, NODES, PODS, RESERVATIONS, Cluster
from tests.dra.api.reservations.manifests import manifest
from tests.dra.engine.examples import FOREIGN_GATE, NAMESPACE, claim, node, pod, selector, uid
from tests.dra.engine.reservations.examples import content
from tests.dra.kube.scripted import client_of, refusal

BY_NAME = selector("late", "n1")
USES = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "train"}]}


@pytest.fixture
def cluster():
    served = Cluster()
    served.put(NODES, "", "n1", status={"conditions": [{"type": "Ready", "status": "True"}]})
    served.put(CLAIMS, NAMESPACE, "train")
    served.put(PODS, NAMESPACE, "a", spec=USES)
    served.put(PODS, NAMESPACE, "of-no-interest", spec={})
    return served


@contextlib.asynccontextmanager
async def watching(cluster, clock):
    world, wakings = ClaimCache(), []
    watches = ControllerInformers(client_of(cluster), clock=clock)
    ClaimEventHandlers(world, watches, clock=clock)
    watches.on_batch_end(lambda: wakings.append(clock.now()))
    task = asyncio.create_task(watches.run())
    yield watches, world, wakings
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize(
    ("of", "kept"),
    [
        pytest.param(pod("a"), True, id="names-a-claim"),
        pytest.param(pod("a", claims=(), templates={"gpu": ""}), True, id="from-a-template"),
        pytest.param(pod("a", claims=(), gates=[SCHEDULING_GATE]), True, id="behind-our-gate"),
        pytest.param(pod("a", claims=(), gates=[FOREIGN_GATE]), False, id="behind-another-gate"),
        pytest.param(pod("a", claims=()), False, id="a-pod-like-most"),
    ],
)
def test_which_pods_are_kept(of, kept):
    assert concerns_claims(of) is kept


async def test_the_world_is_what_was_listed_and_then_watched(cluster, clock):
    async with watching(cluster, clock) as (watches, world, wakings):
        await watches.wait_for_sync()
        key = (NAMESPACE, "train")
        assert [c.name for c in world.view(key, now=0.0).waiting] == ["a"]
        assert world.consumer("uid-of-no-interest") is None
        cluster.put(PODS, NAMESPACE, "a", spec={**USES, "nodeName": "n1"})
        cluster.put(PODS, NAMESPACE, "b", spec=USES)
        await asyncio.sleep(1.0)
        found = world.view(key, now=0.0)
        assert ([c.name for c in found.starting], [c.name for c in found.waiting]) == (["a"], ["b"])
        cluster.drop(PODS, NAMESPACE, "a")
        cluster.drop(CLAIMS, NAMESPACE, "train")
        cluster.drop(NODES, "", "n1")
        await asyncio.sleep(1.0)
        assert world.view(key, now=0.0) is None
        assert world.consumer("uid-a") is None
        assert wakings


async def test_created_and_deleted_claims_are_reported_once_they_are_in_the_cache(cluster, clock):
    world, told = ClaimCache(), []

    def tell(claim):
        told.append((claim.metadata.name, world.claim(claim.metadata.key) is not None))

    watches = ControllerInformers(client_of(cluster), clock=clock)
    ClaimEventHandlers(world, watches, clock=clock)
    watches.claims.subscribe(tell, tell)
    running = asyncio.create_task(watches.run())
    await watches.wait_for_sync()
    cluster.put(CLAIMS, NAMESPACE, "late")
    cluster.drop(CLAIMS, NAMESPACE, "late")
    await asyncio.sleep(1.0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert told == [("train", True), ("late", True), ("late", False)]


async def test_the_holders_of_claims_are_the_reservations_that_are_shown(cluster, clock):
    world, informers = ClaimCache(), ControllerInformers(client_of(cluster), clock=clock)
    ClaimEventHandlers(world, informers, clock=clock).watch_reservations()
    running = asyncio.create_task(informers.run())
    await informers.wait_for_sync()
    states = []
    for change in (
        partial(cluster.put, spec=manifest()["spec"], status={"phase": "Available", "nodeName": "n1"}),
        partial(cluster.put, spec={"ttl": "soon"}),
        cluster.drop,
    ):
        change(RESERVATIONS, "", "r")
        await asyncio.sleep(1.0)
        states.append(world.holders.state("r", Uid("uid-r")))
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert states == [HolderState.AVAILABLE, HolderState.UNKNOWN, HolderState.OVER]


@pytest.mark.parametrize("collection", [PODS, CLAIMS, NODES], ids=["pods", "claims", "nodes"])
async def test_a_cluster_that_was_restored_from_a_backup_is_not_taken_for_news(cluster, clock, collection):
    """What was seen since the backup never happened, and there is nobody to tell the world so."""
    backup, version = dict(cluster.objects), cluster.version
    watches = ControllerInformers(client_of(cluster), clock=clock)
    ClaimEventHandlers(ClaimCache(), watches, clock=clock)
    running = asyncio.create_task(watches.run())
    await watches.wait_for_sync()
    await asyncio.sleep(1.0)
    cluster.put(collection, "" if collection == NODES else NAMESPACE, "new", spec=USES)
    await asyncio.sleep(1.0)
    cluster.restore(backup, version)
    with pytest.raises(ExceptionGroup) as caught:
        await running
    assert caught.group_contains(ServerRestoredError, match=f"shows version {version} after it had shown {version + 1}")


async def test_who_does_not_know_the_cluster_says_what_is_missing(cluster, clock):
    cluster.refuse[PODS] = refusal(403, "Forbidden", "pods is forbidden")
    async with watching(cluster, clock) as (watches, _, _):
        assert len(watches.not_ready_reasons()) == 3
        await asyncio.sleep(1.0)
        assert watches.not_ready_reasons() == ["pods: not listed yet (pods: pods is forbidden)"]
        cluster.refuse.clear()
        await watches.wait_for_sync()
        assert watches.not_ready_reasons() == []


async def test_a_watch_that_has_fallen_silent_is_told(cluster, clock):
    async with watching(cluster, clock) as (watches, _, _):
        await watches.wait_for_sync()
        for collection in (PODS, CLAIMS, NODES):
            cluster.refuse[collection] = refusal(500, message="down")
        await asyncio.sleep(2 * STALE_AFTER)
        assert [text.partition(":")[0] for text in watches.not_ready_reasons()] == [
            "nodes",
            "resourceclaims.resource.k8s.io",
            "pods",
        ]


async def test_what_only_a_live_read_has_shown_is_forgotten_when_a_list_lacks_it(cluster, clock):
    """A watch that was lost tells of nothing that came and went meanwhile."""
    async with watching(cluster, clock) as (watches, world, _):
        await watches.wait_for_sync()
        unseen = ObjectMeta(name="late", namespace=NAMESPACE, uid=Uid("uid-late"), resource_version="102")
        world.observe_pod(msgspec.structs.replace(pod("late"), metadata=unseen), now=0.0)
        world.observe_claim(msgspec.structs.replace(claim("late"), metadata=unseen), now=0.0)
        bare = msgspec.structs.replace(unseen, namespace="")
        world.observe_node(msgspec.structs.replace(node("late"), metadata=bare), now=0.0)
        assert "late" in world.reach(BY_NAME)[0]
        cluster.version += 10
        cluster.expire(PODS, CLAIMS, NODES)
        await asyncio.sleep(5.0)
        assert world.consumer(unseen.uid) is None
        assert world.claim(unseen.key) is None
        assert "late" not in world.reach(BY_NAME)[0]
        assert [c.name for c in world.view((NAMESPACE, "train"), now=0.0).waiting] == ["a"]


async def test_what_is_newer_than_the_list_is_not_forgotten(world):
    world.observe_pod(pod("new", version=12), now=0.0)
    world.pods_listed(frozenset(), "11")
    assert world.consumer(uid("new")) is not None
    world.pods_listed(frozenset(), "12")
    assert world.consumer(uid("new")) is None


async def test_a_reservation_is_not_undone_by_an_older_version_than_a_response(cluster, clock):
    world = ClaimCache()
    watches = ControllerInformers(client_of(cluster), clock=clock)
    ClaimEventHandlers(world, watches, clock=clock).watch_reservations()
    versions = []
    world.observe_reservation = lambda _, reservation: versions.append(reservation.status.phase.value)
    obj = UnstructuredObject(
        metadata=ObjectMeta(name="r", uid=Uid("uid-r"), resource_version="7"),
        content=content(status={"phase": "Available"}),
    )
    watches.reservations.observe_response(obj)
    older = msgspec.structs.replace(obj.metadata, resource_version="6")
    watches.reservations.observe_response(
        UnstructuredObject(metadata=older, content=content(status={"phase": "Pending"}))
    )
    assert versions == ["Available"]
