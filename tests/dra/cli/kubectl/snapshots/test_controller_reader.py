"""The controllers of pods, as an API server has them."""

import json
from typing import ClassVar

import msgspec
import pytest

from dra.cel.object_rules import WorkloadRules, compile_workload_rules
from dra.cli.kubectl.connection import Connection
from dra.cli.kubectl.snapshots.cluster_reader import SnapshotReader
from dra.cli.kubectl.snapshots.controller_reader import LifecycleCache, UnknownWorkloadError
from dra.cli.kubectl.snapshots.snapshot_scope import SnapshotScope
from dra.kube.client import Client
from dra.kube.codec import codec_of
from dra.kube.rate_limiter import RateLimiter
from dra.kube.resources import JOBS
from dra.model.meta import ObjectMeta, RawObject, UnstructuredObject
from dra.model.references import GroupResource
from localplane import status_errors
from localplane.routes import Route
from localplane.server import ApiServer
from localplane.transport import LocalTransport

CONTAINERS = {"containers": [{"name": "main", "image": "none"}]}


class Server:
    """An API server with a Deployment, its ReplicaSet and pod, and a Job without pods."""

    def __init__(self, *, forbidden=""):
        self._server = ApiServer()
        self._forbidden = forbidden
        self.create("Namespace", {"name": "ml"}, namespace=None)
        template = {"metadata": {"labels": {"app": "web"}}, "spec": CONTAINERS}
        spec = {"selector": {"matchLabels": {"app": "web"}}, "template": template}
        web = self.create("Deployment", {"name": "web"}, spec=spec)
        replicas = self.create("ReplicaSet", {"name": "web-1", "ownerReferences": [owner(web)]}, spec=spec)
        self.create("ReplicaSet", {"name": "without-pods"}, spec=spec)
        self.create("Pod", {"name": "web-1-a", "ownerReferences": [owner(replicas)]}, spec=CONTAINERS)
        self.create(
            "Job",
            {"name": "train"},
            spec={"suspend": True, "template": {"spec": CONTAINERS | {"restartPolicy": "Never"}}},
        )

    def create(self, kind, metadata, *, namespace="ml", **content):
        found = next(each for each in self._server.catalog if each.name == kind)
        where = {"namespace": namespace} if namespace else {}
        created = self._server.registry.create(Route(found, **where), {"metadata": metadata | where, **content})
        return {"apiVersion": f"{found.group}/v1", "kind": kind, **json.loads(created)}

    async def handle(self, request):
        if self._forbidden and self._forbidden in request.path:
            return status_errors.StatusError(403, "Forbidden", "no right to read that").response
        return await self._server.handle(request)


def owner(found):
    meta = found["metadata"]
    return {
        "apiVersion": found["apiVersion"],
        "kind": found["kind"],
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
    }


def reader(server, namespace=None):
    transport = LocalTransport(server)
    connection = Connection(client=Client(transport, RateLimiter(1000.0, 1000)), transport=transport)
    return SnapshotReader(connection, namespace=namespace, lease=("dra-reserve", "controller"))


async def test_controllers_are_read_upwards_and_only_those_of_pods():
    snapshot = await reader(Server()).read(SnapshotScope.PODS | SnapshotScope.CONTROLLERS)
    assert {(each.kind, each.name) for each in snapshot.controllers} == {("Deployment", "web"), ("ReplicaSet", "web-1")}
    above = {each.name: each.controller for each in snapshot.controllers}
    assert above["web-1"] == next(each.uid for each in snapshot.controllers if each.name == "web")


@pytest.mark.parametrize(
    ("words", "name", "found"),
    [
        pytest.param("deploy", "web", "deployments.apps/web", id="short-name"),
        pytest.param("deployments.v1.apps", "web", "deployments.apps/web", id="with-version"),
        pytest.param("rs", "without-pods", "replicasets.apps/without-pods", id="without-pods"),
        pytest.param("job.batch", "train", "jobs.batch/train", id="singular-and-group"),
    ],
)
async def test_a_workload_is_found_by_any_name_of_its_kind(words, name, found):
    _, workload = await reader(Server()).read_workload(SnapshotScope.PODS, GroupResource.parse(words), ("ml", name))
    assert f"{workload.key.kind}/{workload.name}" == found
    assert workload.uid


async def test_a_workload_that_does_not_exist_has_no_uid_and_a_suspended_one_is_known():
    async def look(name):
        _, found = await reader(Server()).read_workload(SnapshotScope.PODS, GroupResource.parse("job"), ("ml", name))
        return (bool(found.uid), found.suspended)

    assert [await look("missing"), await look("train")] == [(False, False), (True, True)]


@pytest.mark.parametrize("words", ["calim", "jobs.apps", "nodes"])
async def test_a_kind_that_is_not_served_is_named(words):
    with pytest.raises(UnknownWorkloadError, match=f"{words}: the server serves no namespaced kind of that name"):
        await reader(Server()).read_workload(SnapshotScope.PODS, GroupResource.parse(words), ("ml", "x"))


async def test_controllers_that_nobody_may_list_are_a_gap():
    snapshot = await reader(Server(forbidden="/replicasets")).read(SnapshotScope.PODS | SnapshotScope.CONTROLLERS)
    assert (snapshot.controllers, [gap.resource for gap in snapshot.gaps]) == ((), ["replicasets.apps"])


class CountedRules(WorkloadRules):
    """Rules that record which objects they were evaluated for."""

    asked: ClassVar[list[str]] = []

    def evaluate(self, content):
        self.asked.append(content["metadata"]["name"])
        return super().evaluate(content)


def job(name, version, *, suspended=False):
    metadata = {"name": name, "uid": f"uid-{name}", "resourceVersion": version}
    return UnstructuredObject(
        metadata=msgspec.convert(metadata, ObjectMeta), content={"metadata": metadata, "spec": {"suspend": suspended}}
    )


def test_a_workload_is_evaluated_again_once_it_has_changed_or_was_not_read_for_a_while():
    jobs = GroupResource(resource="jobs", group="batch")
    rules = CountedRules(*compile_workload_rules({}, {str(jobs): "object.spec.suspend"})[jobs])
    cache = LifecycleCache()

    def read(*found):
        CountedRules.asked.clear()
        lifecycles = [cache.evaluate(rules, each).suspended for each in found]
        cache.end_read()
        return lifecycles, CountedRules.asked[:]

    assert read(job("a", "1"), job("b", "2")) == ([False, False], ["a", "b"])
    assert read(job("a", "1"), job("b", "3", suspended=True)) == ([False, True], ["b"])
    assert read(job("b", "3", suspended=True)) == ([True], [])
    assert read(job("a", "1"), job("b", "3", suspended=True)) == ([False, True], ["a"])


def test_a_workload_without_a_version_is_always_evaluated():
    rules = CountedRules()
    cache = LifecycleCache()
    CountedRules.asked.clear()
    for _ in range(2):
        cache.evaluate(rules, job("a", ""))
        cache.end_read()
    assert CountedRules.asked == ["a", "a"]


def raw_job(name, version, **spec):
    content = {"metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": version}, "spec": spec}
    return codec_of(JOBS, RawObject).one(msgspec.json.encode(content))


def test_a_workload_that_has_not_changed_is_not_even_decoded():
    jobs = GroupResource(resource="jobs", group="batch")
    rules = CountedRules(*compile_workload_rules({}, {str(jobs): "object.spec.suspend"})[jobs])
    cache = LifecycleCache()
    CountedRules.asked.clear()
    for _ in range(3):
        assert cache.evaluate_raw(rules, JOBS, raw_job("a", "1", suspend=True)).suspended
        cache.end_read()
    assert CountedRules.asked == ["a"]


def test_a_workload_that_is_too_large_is_not_evaluated():
    rules = CountedRules()
    CountedRules.asked.clear()
    lifecycle = LifecycleCache().evaluate_raw(rules, JOBS, raw_job("a", "1", x=[{}] * 200_000))
    assert (lifecycle.finished, CountedRules.asked) == (False, [])
