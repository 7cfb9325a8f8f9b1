import asyncio

import pytest

from dra.kube import errors
from dra.kube.discovery import CACHE_SECONDS, GROUPS_MAX, NEGATIVE_CACHE_SECONDS, Discovery
from dra.kube.resources import JOBS, PODS, Resource
from dra.model.references import GroupResource
from tests.dra.kube.scripted import Handling, client_of, ok, refusal


def group(*versions, preferred):
    return {"versions": [{"version": each} for each in versions], "preferredVersion": {"version": preferred}}


def serves(*names, kind="Job", namespaced=True):
    return {"resources": [{"name": each, "kind": kind, "namespaced": namespaced} for each in names]}


SERVER = {
    "/api/v1": serves("pods", "pods/status", kind="Pod"),
    "/apis/batch": group("v1beta1", "v1", preferred="v1"),
    "/apis/batch/v1": serves("jobs", "jobs/status"),
    "/apis/batch/v1beta1": serves("jobs", "oldjobs"),
    "/apis/half.gone": group("v1", "v2", preferred="v2"),
    "/apis/half.gone/v1": serves("things"),
    "/apis/empty.io": {"versions": [{"version": "v1"}]},
    "/apis/empty.io/v1": {"resources": None},
}


class Server:
    def __init__(self):
        self.paths = dict(SERVER)
        self.transport = Handling(self._answer)

    async def _answer(self, request):
        await asyncio.sleep(0.01)  # so that others may ask meanwhile
        found = self.paths.get(request.path)
        if found is None:
            return refusal(404, "NotFound")
        return ok(found) if isinstance(found, dict) else found

    @property
    def asked(self):
        return [request.path for request in self.transport.requests]


@pytest.fixture
def server():
    return Server()


@pytest.fixture
def discovery(server, clock):
    return Discovery(client_of(server.transport), clock=clock)


def named(text):
    return GroupResource.parse(text)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        pytest.param("pods", PODS, id="core"),
        pytest.param("jobs.batch", JOBS, id="preferred-version"),
        pytest.param(
            "oldjobs.batch", Resource("batch", "v1beta1", "oldjobs", "Job", namespaced=True), id="other-version"
        ),
        pytest.param("things.half.gone", Resource("half.gone", "v1", "things", "Job", namespaced=True), id="half-gone"),
        pytest.param("things.empty.io", None, id="group-that-serves-nothing"),
        pytest.param("nothing.batch", None, id="unknown-kind"),
        pytest.param("rayclusters.ray.io", None, id="unknown-group"),
        pytest.param("nothing", None, id="unknown-core-kind"),
    ],
)
async def test_kinds_by_their_kubectl_names(discovery, name, found):
    assert await discovery.resolve(named(name)) == found


@pytest.mark.parametrize(
    "wanted",
    [
        GroupResource(resource="jobs", group="../../api"),
        GroupResource(resource="pods/status"),
        GroupResource(resource="../pods", group="batch"),
    ],
    ids=str,
)
async def test_names_that_are_none_are_unknown_kinds(discovery, server, wanted):
    assert await discovery.resolve(wanted) is None
    assert not any(".." in path for path in server.asked)


async def test_an_answer_is_believed_for_a_while(discovery, server):
    for _ in range(3):
        await discovery.resolve(named("jobs.batch"))
    assert len(server.asked) == 3
    await asyncio.sleep(CACHE_SECONDS)
    await discovery.resolve(named("jobs.batch"))
    assert len(server.asked) == 6


async def test_a_kind_that_is_installed_later_is_found(discovery, server):
    wanted = named("rayclusters.ray.io")
    assert await discovery.resolve(wanted) is None
    server.paths |= {"/apis/ray.io": group("v1", preferred="v1"), "/apis/ray.io/v1": serves("rayclusters")}
    assert await discovery.resolve(wanted) is None
    await asyncio.sleep(NEGATIVE_CACHE_SECONDS)
    assert await discovery.resolve(wanted) is not None


async def test_a_kind_added_to_a_known_group_is_found_as_soon(discovery, server):
    await discovery.resolve(named("jobs.batch"))
    server.paths["/apis/batch/v1"] = serves("jobs", "newjobs")
    await asyncio.sleep(NEGATIVE_CACHE_SECONDS)
    assert await discovery.resolve(named("newjobs.batch")) is not None


async def test_what_was_wrong_can_be_forgotten(discovery, server):
    await discovery.resolve(named("jobs.batch"))
    server.paths["/apis/batch"] = group("v1beta1", preferred="v1beta1")
    discovery.invalidate("batch")
    assert (await discovery.resolve(named("jobs.batch"))).version == "v1beta1"


async def test_a_thousand_that_ask_at_once_are_one_question(discovery, server):
    await asyncio.gather(*(discovery.resolve(named("jobs.batch")) for _ in range(1000)))
    assert len(server.asked) == 3


async def test_a_group_that_is_down_is_doubt_and_not_absence(discovery, server):
    server.paths["/apis/metrics.k8s.io"] = refusal(503, "ServiceUnavailable")
    with pytest.raises(errors.ServerError):
        await discovery.resolve(named("nodes.metrics.k8s.io"))
    server.paths["/apis/metrics.k8s.io"] = group("v1", preferred="v1")
    server.paths["/apis/metrics.k8s.io/v1"] = serves("nodes")
    assert await discovery.resolve(named("nodes.metrics.k8s.io")) is not None


async def test_made_up_groups_do_not_fill_the_memory(discovery):
    for number in range(GROUPS_MAX + 10):
        await discovery.resolve(named(f"things.g{number}.io"))
    assert len(discovery._groups) == GROUPS_MAX
    assert not discovery._locks


async def test_a_slow_group_does_not_hold_up_the_others(discovery, server, clock):
    async def stuck(request):
        await asyncio.sleep(20.0 if "slow" in request.path else 0.0)
        return refusal(404, "NotFound")

    server.transport.handle = stuck
    slow = asyncio.create_task(discovery.resolve(named("things.slow.io")))
    await asyncio.sleep(0)
    await discovery.resolve(named("things.quick.io"))
    assert clock.now() < 1.0
    await slow


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        pytest.param("job", "jobs.batch", id="singular-without-a-group"),
        pytest.param("jobs", "jobs.batch", id="plural-without-a-group"),
        pytest.param("job.batch", "jobs.batch", id="singular"),
        pytest.param("jobs.v1.batch", "jobs.batch", id="with-a-version"),
        pytest.param("jobs.btach", "jobs.batch", id="typo-in-the-group"),
        pytest.param("po", "pods", id="short-name"),
        pytest.param("no", None, id="not-in-a-namespace"),
        pytest.param("nothing", None, id="nothing-like-it"),
    ],
)
async def test_what_kubectl_would_take_a_name_for(server, discovery, written, meant):
    pods = {"name": "pods", "kind": "Pod", "namespaced": True, "singularName": "pod", "shortNames": ["po"]}
    nodes = {"name": "nodes", "kind": "Node", "singularName": "node", "shortNames": ["no"]}
    server.paths |= {
        "/apis": {"groups": [{"name": "batch"}, {"name": "empty.io"}]},
        "/api/v1": {"resources": [pods, nodes]},
    }
    assert await discovery.expand_shortcut(named(written)) == (named(meant) if meant else None)


@pytest.mark.parametrize(
    ("group", "kind", "subresource", "wanted"),
    [
        pytest.param("batch", "Job", "status", JOBS, id="kind"),
        pytest.param("", "Pod", "status", PODS, id="core"),
        pytest.param("batch", "Job", "scale", None, id="without-the-subresource"),
        pytest.param("batch", "CronJob", "status", None, id="no-such-kind"),
        pytest.param("nowhere.io", "Job", "status", None, id="no-such-group"),
        pytest.param("../x", "Job", "status", None, id="no-name-of-a-group"),
        pytest.param("half.gone", "Job", "status", None, id="subresource-of-no-version"),
    ],
)
async def test_a_kind_is_resolved_with_its_subresource(discovery, group, kind, subresource, wanted):
    assert await discovery.resolve_kind(group, kind, subresource=subresource) == wanted


async def test_a_subresource_of_another_version_does_not_count(discovery, server):
    server.paths["/apis/batch/v1"] = serves("jobs")
    server.paths["/apis/batch/v1beta1"] = serves("jobs", "jobs/status")
    assert await discovery.resolve_kind("batch", "Job", subresource="status") is None


async def test_a_kind_without_the_subresource_is_cached_as_long_as_one_that_has_it(discovery, server):
    for _ in range(2):
        await discovery.resolve_kind("batch", "Job", subresource="scale")
        await asyncio.sleep(CACHE_SECONDS / 2)
    assert len(server.asked) == 3
