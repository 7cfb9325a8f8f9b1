import asyncio
import contextlib

import msgspec
import pytest

from controller.informers import ControllerInformers
from controller.optional_informer import DISCOVERY_RETRY
from controller.taint_informers import TaintInformers
from dra.kube.tasks import background_task
from dra.model.claims import ResourceClaim
from tests.controller.cluster import CLAIMS, RULES, SLICES, WITH_RULES, Cluster
from tests.dra.engine.examples import KEY, NAMESPACE
from tests.dra.kube.scripted import refusal

V1BETA2 = "/apis/resource.k8s.io/v1beta2"
TAINT = {"key": "sick", "effect": "NoExecute", "timeAdded": "2026-11-20T12:00:00Z"}


@pytest.fixture
def cluster(world):
    served = Cluster()
    results = [{"driver": "d", "pool": "p", "device": "gpu-0"}]
    raw = served.put(CLAIMS, NAMESPACE, "train", status={"allocation": {"devices": {"results": results}}})
    world.observe_claim(msgspec.convert(raw, ResourceClaim), now=0.0)
    world.dirty.clear()
    return served


def put_slice(cluster, *taints):
    devices = [{"name": "gpu-0", "taints": list(taints)}]
    cluster.put(SLICES, "", "s", spec={"driver": "d", "pool": {"name": "p", "generation": 1}, "devices": devices})


def put_rule(cluster, name, **spec):
    cluster.put(RULES, "", name, spec={"deviceSelector": {}, "taint": TAINT, **spec})


@contextlib.asynccontextmanager
async def watching(cluster, world, runtime_of):
    wakings = []
    runtime = runtime_of(cluster)
    informers = ControllerInformers(runtime.client, clock=runtime.clock)
    informers.on_batch_end(lambda: wakings.append(runtime.instant()))
    rules = TaintInformers(runtime, informers, cache=world)
    async with background_task(informers.run(), name="watches"), background_task(rules.run(), name="rules"):
        await asyncio.sleep(1.0)
        yield informers, wakings


def tainted(world):
    return [t.name for t in world.view(KEY, now=0.0).taints]


async def test_slices_are_known_as_listed_and_then_watched(cluster, world, runtime_of):
    put_slice(cluster, TAINT)
    async with watching(cluster, world, runtime_of) as (watches, wakings):
        assert (tainted(world), set(world.dirty), watches.not_ready_reasons()) == (["s"], {KEY}, [])
        world.dirty.clear()
        wakings.clear()
        put_slice(cluster)
        await asyncio.sleep(0.1)
        assert (tainted(world), set(world.dirty)) == ([], {KEY})
        assert wakings
        put_slice(cluster, TAINT)
        await asyncio.sleep(0.1)
        assert tainted(world) == ["s"]
        cluster.drop(SLICES, "", "s")
        await asyncio.sleep(0.1)
        assert tainted(world) == []


async def test_rules_are_watched_where_they_are_served(cluster, world, runtime_of):
    cluster.discovery[V1BETA2] = WITH_RULES
    put_rule(cluster, "r")
    async with watching(cluster, world, runtime_of):
        assert tainted(world) == ["r"]
        put_rule(cluster, "r", deviceSelector={"pool": "other"})
        put_rule(cluster, "s")
        await asyncio.sleep(0.1)
        assert tainted(world) == ["s"]
        cluster.drop(RULES, "", "s")
        await asyncio.sleep(0.1)
        assert tainted(world) == []


async def test_rules_are_watched_in_the_version_that_kubernetes_1_37_serves_by_default(cluster, world, runtime_of):
    cluster.discovery[V1BETA2] = WITH_RULES
    cluster.serve_under(RULES, "v1")
    put_rule(cluster, "r")
    async with watching(cluster, world, runtime_of):
        assert tainted(world) == ["r"]
        cluster.drop(RULES, "", "r")
        await asyncio.sleep(0.1)
        assert tainted(world) == []


async def test_rules_stay_in_force_while_the_api_server_is_upgraded_to_the_stable_version(cluster, world, runtime_of):
    cluster.discovery[V1BETA2] = WITH_RULES
    put_rule(cluster, "kept")
    put_rule(cluster, "deleted-meanwhile")
    async with watching(cluster, world, runtime_of):
        cluster.serve_under(RULES, "v1")
        cluster.drop(RULES, "", "deleted-meanwhile")
        seen = set()
        for _ in range(100):
            await asyncio.sleep(0.1)
            seen.add("kept" in tainted(world))
        assert seen == {True}
        assert tainted(world) == ["kept"]


async def test_rules_that_are_served_later_are_found(cluster, world, runtime_of):
    async with watching(cluster, world, runtime_of) as (watches, _):
        assert watches.not_ready_reasons() == []
        assert not any(request.path == RULES for request in cluster.requests)
        cluster.discovery[V1BETA2] = WITH_RULES
        put_rule(cluster, "r")
        await asyncio.sleep(2 * DISCOVERY_RETRY[1])
        assert tainted(world) == ["r"]


async def test_rules_that_are_served_no_more_are_not_in_force(cluster, world, runtime_of):
    cluster.discovery[V1BETA2] = WITH_RULES
    put_rule(cluster, "r")
    async with watching(cluster, world, runtime_of) as (_, wakings):
        assert tainted(world) == ["r"]
        world.dirty.clear()
        wakings.clear()
        del cluster.discovery[V1BETA2]
        cluster.refuse[RULES] = refusal(404, "NotFound")
        await asyncio.sleep(120.0)
        assert (tainted(world), set(world.dirty)) == ([], {KEY})
        assert wakings


async def test_rules_that_may_not_be_read_hinder_nothing(cluster, world, runtime_of):
    cluster.discovery[V1BETA2] = WITH_RULES
    cluster.refuse[RULES] = refusal(403, "Forbidden", "no right")
    put_slice(cluster, TAINT)
    async with watching(cluster, world, runtime_of) as (watches, _):
        assert (tainted(world), watches.not_ready_reasons()) == (["s"], [])


async def test_who_may_not_read_slices_says_so_and_knows_of_no_taint(cluster, world, runtime_of):
    cluster.discovery[V1BETA2] = WITH_RULES
    put_rule(cluster, "r")
    cluster.refuse[SLICES] = refusal(403, "Forbidden", "no right")
    async with watching(cluster, world, runtime_of) as (watches, _):
        assert tainted(world) == []
        (text,) = watches.not_ready_reasons()
        assert text.startswith("resourceslices.resource.k8s.io: not listed yet (")
