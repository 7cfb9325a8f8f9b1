import asyncio
import contextlib

import pytest

from controller.claim_event_handlers import ClaimEventHandlers
from controller.informers import ControllerInformers
from controller.optional_informer import DISCOVERY_ERROR_RETRY, DISCOVERY_RETRY
from controller.pod_group_informer import PodGroupInformer
from dra.kube.tasks import background_task
from tests.controller.cluster import GROUPS, SCHEDULING, TEMPLATES, WITH_GROUPS, Cluster
from tests.dra.engine.claims.generation.examples import entry, pod
from tests.dra.engine.examples import NAMESPACE
from tests.dra.kube.scripted import refusal


@pytest.fixture
def cluster():
    return Cluster()


@contextlib.asynccontextmanager
async def watching(cluster, world, runtime_of):
    wakings, runtime = [], runtime_of(cluster)
    watches = ControllerInformers(runtime.client, clock=runtime.clock)
    watches.on_batch_end(lambda: wakings.append(runtime.instant()))
    ClaimEventHandlers(world, watches, clock=runtime.clock).watch_templates()
    groups = PodGroupInformer(runtime, watches, owners=world.owners)
    async with background_task(watches.run(), name="watches"), background_task(groups.run(), name="groups"):
        await asyncio.sleep(1.5)
        yield watches, wakings


def serve_groups(cluster):
    cluster.discovery["/apis/scheduling.k8s.io"] = SCHEDULING
    cluster.discovery["/apis/scheduling.k8s.io/v1alpha2"] = WITH_GROUPS


def put_group(cluster, name="g"):
    claims = [{"name": "a", "resourceClaimTemplateName": "t"}]
    cluster.put(GROUPS, NAMESPACE, name, spec={"resourceClaims": claims})


async def test_who_waits_for_a_template_is_looked_at_when_it_comes(cluster, world, runtime_of):
    world.observe_pod(pod(entry("a")), now=0.0)
    async with watching(cluster, world, runtime_of) as (watches, wakings):
        await asyncio.wait_for(watches.wait_for_sync(), 1.0)
        assert watches.not_ready_reasons() == []
        world.owners.dirty.clear()
        wakings.clear()
        cluster.put(TEMPLATES, NAMESPACE, "t", spec={"spec": {}})
        await asyncio.sleep(0.1)
        assert (set(world.owners.dirty), len(wakings)) == ({"uid-p"}, 1)
        assert world.owner_view("uid-p").templates.keys() == {"t"}
        cluster.drop(TEMPLATES, NAMESPACE, "t")
        await asyncio.sleep(0.1)
        assert world.owner_view("uid-p").templates == {}


async def test_who_may_not_read_templates_says_so(cluster, world, runtime_of):
    cluster.refuse[TEMPLATES] = refusal(403, "Forbidden", "no right")
    async with watching(cluster, world, runtime_of) as (watches, _):
        texts = watches.not_ready_reasons()
        assert len(texts) == 1
        assert texts[0].startswith("resourceclaimtemplates.resource.k8s.io: not listed yet (")


async def test_groups_are_owners_where_they_are_served(cluster, world, runtime_of):
    serve_groups(cluster)
    put_group(cluster)
    async with watching(cluster, world, runtime_of) as (watches, _):
        await asyncio.wait_for(watches.wait_for_sync(), 1.0)
        assert world.owners.groups_version == "v1alpha2"
        assert set(world.owners.dirty) == {"uid-g"}
        put_group(cluster, "h")
        cluster.drop(GROUPS, NAMESPACE, "g")
        await asyncio.sleep(0.1)
        assert (world.owner_view("uid-g"), set(world.owners.dirty)) == (None, {"uid-h"})


async def test_groups_are_watched_in_the_first_of_two_versions_as_kubernetes_1_37_lists_them(
    cluster, world, runtime_of
):
    serve_groups(cluster)
    cluster.serve_under(GROUPS, "v1beta1")
    root = "/apis/scheduling.k8s.io"
    versions = [{"version": version} for version in ("v1", "v1beta1", "v1alpha3")]
    cluster.discovery[root] = {"versions": versions, "preferredVersion": versions[0]}
    cluster.discovery |= {f"{root}/v1": {"resources": []}, f"{root}/v1alpha3": WITH_GROUPS}
    put_group(cluster)
    async with watching(cluster, world, runtime_of):
        assert (world.owners.groups_version, world.owner_view("uid-g").owner.key) == ("v1beta1", (NAMESPACE, "g"))


async def test_a_group_stays_known_when_its_version_goes_and_another_comes(cluster, world, runtime_of):
    serve_groups(cluster)
    put_group(cluster)
    put_group(cluster, "h")
    async with watching(cluster, world, runtime_of):
        cluster.serve_under(GROUPS, "v1beta1")
        cluster.drop(GROUPS, NAMESPACE, "h")
        seen = set()
        for _ in range(100):
            await asyncio.sleep(0.1)
            seen.add((world.owners.groups_version, world.owner_view("uid-g") is not None))
        assert seen <= {("v1alpha2", True), ("v1beta1", True)}
        assert (world.owners.groups_version, world.owner_view("uid-h")) == ("v1beta1", None)


async def test_groups_that_are_served_later_are_found_and_later_no_more(cluster, world, runtime_of):
    async with watching(cluster, world, runtime_of) as (watches, _):
        await asyncio.wait_for(watches.wait_for_sync(), 1.0)
        assert world.owners.groups_version == ""
        serve_groups(cluster)
        put_group(cluster)
        await asyncio.sleep(2 * DISCOVERY_RETRY[1])
        assert (world.owners.groups_version, world.owner_view("uid-g").owner.key) == ("v1alpha2", (NAMESPACE, "g"))
        del cluster.discovery["/apis/scheduling.k8s.io"]
        cluster.refuse[GROUPS] = refusal(404, "NotFound")
        await asyncio.sleep(120.0)
        assert (world.owners.groups_version, world.owner_view("uid-g")) == ("", None)


async def test_claims_of_pods_without_a_group_do_not_wait_for_groups(cluster, world, runtime_of):
    cluster.answer["GET", "/apis/scheduling.k8s.io"] = refusal(500, "InternalError")
    world.observe_pod(pod(entry("a"), name="alone"), now=0.0)
    world.observe_pod(pod(entry("a"), group="g"), now=0.0)
    async with watching(cluster, world, runtime_of) as (watches, _):
        await asyncio.wait_for(watches.wait_for_sync(), 1.0)
        assert not world.owner_view("uid-alone").group_unknown
        waits = world.owner_view("uid-p")
        assert (waits.group_unknown, "scheduling.k8s.io" in waits.group_error) == (True, True)


@pytest.mark.parametrize(
    ("path", "status"),
    [pytest.param("/apis/scheduling.k8s.io", 500, id="discovery"), pytest.param(GROUPS, 403, id="no-right-to-list")],
)
async def test_soon_after_an_error_the_groups_are_known_and_their_pods_looked_at(
    cluster, world, runtime_of, path, status
):
    serve_groups(cluster)
    cluster.answer["GET", path] = refusal(status, "x")
    world.observe_pod(pod(entry("a"), group="g"), now=0.0)
    async with watching(cluster, world, runtime_of) as (_, wakings):
        await asyncio.sleep(300.0)  # an outage
        assert world.owner_view("uid-p").group_error
        world.owners.dirty.clear()
        del cluster.answer["GET", path]
        put_group(cluster)
        began = asyncio.get_running_loop().time()
        await asyncio.sleep(35.0 if status == 403 else DISCOVERY_ERROR_RETRY[1] + 1.5)
        assert world.owner_view("uid-p").group is not None
        assert "uid-p" in world.owners.dirty
        assert any(when > began for when in wakings)


async def test_pods_of_groups_that_are_served_no_more_get_their_own_claims(cluster, world, runtime_of):
    serve_groups(cluster)
    put_group(cluster)
    world.observe_pod(pod(entry("a"), group="g"), now=0.0)
    world.observe_pod(pod(entry("a"), group="h", name="q"), now=0.0)
    async with watching(cluster, world, runtime_of):
        assert [world.owner_view(uid).group_unknown for uid in ("uid-p", "uid-q")] == [False, True]
        world.owners.dirty.clear()
        del cluster.discovery["/apis/scheduling.k8s.io"]
        cluster.refuse[GROUPS] = refusal(404, "NotFound")
        await asyncio.sleep(120.0)
        assert set(world.owners.dirty) >= {"uid-p", "uid-q"}
        assert [world.owner_view(uid).group_unknown for uid in ("uid-p", "uid-q")] == [False, False]
