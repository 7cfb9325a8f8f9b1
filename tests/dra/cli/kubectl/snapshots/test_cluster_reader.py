"""What is read of a live cluster."""

import json

import pytest

from dra.api.colocation.node_metric_crd import custom_resource_definition
from dra.cli.kubectl.connection import Connection
from dra.cli.kubectl.snapshots import lease_reader
from dra.cli.kubectl.snapshots.cluster_reader import SnapshotReader
from dra.cli.kubectl.snapshots.snapshot_scope import SnapshotScope
from dra.engine.diagnosis.audit import audit
from dra.engine.diagnosis.cluster_state import ClusterState
from dra.engine.diagnosis.snapshot import ControllerPresence
from dra.kube.client import Client
from dra.kube.rate_limiter import RateLimiter
from dra.kube.resources import CONFIG_MAPS, NAMESPACES, NODE_METRICS, SLICES, Resource
from dra.kube.transport import Response
from dra.model.meta import PartialObjectMetadata
from dra.model.releases import Release
from dra.model.slices import ManagedResourceSlice
from localplane import status_errors
from localplane.plane import components
from localplane.plane.local_plane import LocalPlane
from localplane.plane.options import PlaneOptions
from localplane.routes import Route
from localplane.schemas.builtin_schemas import Dialect
from localplane.server import ApiServer
from localplane.transport import LocalTransport


@pytest.fixture
def plane(monkeypatch):
    """A plane without components."""
    monkeypatch.setattr(components, "component_starters", lambda *_, **__: {})
    return LocalPlane(PlaneOptions(api=Dialect.STOCK))


@pytest.mark.parametrize(
    ("beside", "presence"),
    [
        pytest.param({"controller": 7}, ControllerPresence.RUNNING, id="the-plane-has-a-controller"),
        pytest.param({}, ControllerPresence.ABSENT, id="it-has-none"),
    ],
)
async def test_the_controller_of_a_local_plane_has_no_lease_and_is_known_all_the_same(plane, beside, presence):
    plane.sibling_processes |= beside
    transport = LocalTransport(plane.handler_for("kubectl"))
    connection = Connection(client=Client(transport, RateLimiter(1000.0, 1000)), transport=transport)
    snapshot = await SnapshotReader(connection, namespace=None, lease=("dra-reserve", "controller")).read(
        SnapshotScope.TEMPLATES_AND_LEASE
    )
    assert snapshot.leader.presence is presence


class RunningPlane:
    """A server that reports a running component, as a local plane does."""

    def __init__(self, component):
        self._server = ApiServer()
        self._status = {"components": {component: {"crashes": 0}}}

    async def handle(self, request):
        if request.path == "/dra":
            return Response(200, {"content-type": "application/json"}, json.dumps(self._status).encode())
        return await self._server.handle(request)


@pytest.mark.parametrize(
    ("component", "presence"),
    [
        pytest.param("descheduler", ControllerPresence.RUNNING, id="the-plane-has-a-descheduler"),
        pytest.param("extender", ControllerPresence.ABSENT, id="it-has-none"),
    ],
)
async def test_the_descheduler_of_a_local_plane_has_no_lease_and_is_known_all_the_same(component, presence):
    transport = LocalTransport(RunningPlane(component))
    connection = Connection(client=Client(transport, RateLimiter(1000.0, 1000)), transport=transport)
    lease = await lease_reader.read_descheduler_lease(connection.client, "dra-reserve")
    assert lease.presence is presence


RULE = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceTaintRule",
    "metadata": {"name": "r"},
    "spec": {"deviceSelector": {"pool": "n1"}, "taint": {"key": "service", "effect": "NoSchedule"}},
}


class Guarded:
    """A server that lets nobody list DeviceTaintRules."""

    def __init__(self, server):
        self._server = server

    async def handle(self, request):
        if request.path.endswith("/devicetaintrules"):
            return status_errors.StatusError(403, "Forbidden", "no right to list devicetaintrules").response
        return await self._server.handle(request)


async def read(server, parts):
    transport = LocalTransport(server)
    connection = Connection(client=Client(transport, RateLimiter(1000.0, 1000)), transport=transport)
    return await SnapshotReader(connection, namespace=None, lease=("dra-reserve", "controller")).read(parts)


async def test_device_taint_rules_are_read_where_they_are_served():
    server = ApiServer(release=Release.V1_37)
    kind = next(each for each in server.catalog if each.name == "DeviceTaintRule")
    server.registry.create(Route(kind), RULE)
    found = await read(server, SnapshotScope.DEVICES)
    assert [(rule.metadata.name, rule.spec.device_selector) for rule in found.rules] == [("r", {"pool": "n1"})]


@pytest.mark.parametrize(
    ("server", "gaps"),
    [
        pytest.param(ApiServer(release=Release.V1_36), [], id="not-served"),
        pytest.param(Guarded(ApiServer()), ["devicetaintrules.resource.k8s.io"], id="no-right-to-list-them"),
    ],
)
async def test_rules_that_nobody_may_read_are_a_gap_and_those_that_are_not_served_are_none(server, gaps):
    found = await read(server, SnapshotScope.DEVICES)
    assert found.rules == ()
    assert [gap.resource for gap in found.gaps] == gaps


def event(name, *, namespace="ml", reason="FailedPrepareDynamicResources"):
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": namespace, "uid": f"uid-{name}"},
        "reason": reason,
        "message": "not registered",
        "count": 12,
        "type": "Warning",
        "source": {"component": "kubelet"},
        "firstTimestamp": "2026-11-20T11:00:00Z",
        "lastTimestamp": "2026-11-20T11:50:00Z",
    }


class WithoutEvents:
    """A server that lets nobody list the Events of all namespaces, or those of a namespace."""

    def __init__(self, server, *, of_namespace):
        self._server = server
        self._forbidden = ("/events", "/namespaces/ml/events") if of_namespace else ("/v1/events",)

    async def handle(self, request):
        if request.path.endswith(self._forbidden):
            return status_errors.StatusError(403, "Forbidden", "no right to list events").response
        return await self._server.handle(request)


def with_events():
    server = ApiServer()
    kind = next(each for each in server.catalog if each.name == "Event" and each.group == "")
    spaces = next(each for each in server.catalog if each.name == "Namespace")
    for name in ("ml", "else"):
        server.registry.create(Route(spaces), {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    found = (event("a"), event("b", namespace="else"), event("c", reason="Pulled"))
    for each in (*found, event("d", reason="FailedCreatePodSandBox")):
        server.registry.create(Route(kind, namespace=each["metadata"]["namespace"]), each)
    return server


@pytest.mark.parametrize(
    ("server", "scope", "names", "gaps"),
    [
        pytest.param(with_events(), SnapshotScope.START_FAILURES, {"a", "d"}, [], id="of-the-namespace"),
        pytest.param(with_events(), SnapshotScope.ALL_START_FAILURES, {"a", "b", "d"}, [], id="of-all-namespaces"),
        pytest.param(with_events(), SnapshotScope.CLAIMS_ONLY, set(), [], id="not-asked-for"),
        pytest.param(
            WithoutEvents(with_events(), of_namespace=False),
            SnapshotScope.ALL_START_FAILURES,
            {"a", "d"},
            [],
            id="only-those-of-the-namespace-may-be-read",
        ),
        pytest.param(
            WithoutEvents(with_events(), of_namespace=True),
            SnapshotScope.START_FAILURES,
            set(),
            ["events.events.k8s.io"],
            id="none-may-be-read",
        ),
    ],
)
async def test_events_of_pods_that_cannot_start_are_read_as_far_as_permitted(server, scope, names, gaps):
    transport = LocalTransport(server)
    connection = Connection(client=Client(transport, RateLimiter(1000.0, 1000)), transport=transport)
    reader = SnapshotReader(connection, namespace="ml", lease=("dra-reserve", "controller"))
    found = await reader.read(scope)
    assert {each.metadata.name for each in found.start_failures} == names
    assert [gap.resource for gap in found.gaps] == gaps
    assert {(each.count, each.last, each.note) for each in found.start_failures} <= {
        (12, "2026-11-20T11:50:00Z", "not registered")
    }


class WithoutNamespaces:
    """A server that lets nobody list namespaces, and some get one."""

    def __init__(self, server, *, may_get):
        self._server = server
        self._may_get = may_get

    async def handle(self, request):
        if request.path.endswith("/namespaces") or ("/namespaces/" in request.path and not self._may_get):
            return status_errors.StatusError(403, "Forbidden", "no right to read namespaces").response
        return await self._server.handle(request)


def serving(may_get=None):
    server = ApiServer()
    kind = next(each for each in server.catalog if each.name == "Namespace")
    for name, labels in (("on", {"reserve.dra/koordinator": "enabled"}), ("off", {})):
        server.registry.create(Route(kind), {"metadata": {"name": name, "labels": labels}})
    return server if may_get is None else WithoutNamespaces(server, may_get=may_get)


@pytest.mark.parametrize(
    ("server", "enabled", "gaps"),
    [
        pytest.param(serving(), {"on": True, "off": False}, [], id="all"),
        pytest.param(serving(may_get=True), {"on": True}, [], id="only-the-selected-one"),
        pytest.param(serving(may_get=False), {}, ["namespaces"], id="none"),
    ],
)
async def test_namespaces_are_read_as_far_as_is_permitted(server, enabled, gaps):
    transport = LocalTransport(server)
    connection = Connection(client=Client(transport, RateLimiter(1000.0, 1000)), transport=transport)
    reader = SnapshotReader(connection, namespace="on", lease=("dra-reserve", "controller"))
    found = await reader.read(SnapshotScope.NAMESPACES)
    assert {name: found.enabled_namespaces[name] for name in enabled} == enabled
    assert bool(found.enabled_namespaces) == bool(enabled)
    assert [gap.resource for gap in found.gaps] == gaps


class Colocated:
    """A server with one NodeMetric and the ConfigMap; some paths are forbidden."""

    def __init__(self, *forbidden, server):
        self._forbidden = forbidden
        self._server = server
        self.asked = []

    async def handle(self, request):
        self.asked.append(request.path)
        if any(text in request.path for text in self._forbidden):
            return status_errors.StatusError(403, "Forbidden", "no right").response
        return await self._server.handle(request)


@pytest.fixture
async def colocated():
    """An API server that serves NodeMetrics, with one of node n1, and the ConfigMap."""
    server = ApiServer()
    transport = LocalTransport(server)
    client = Client(transport, RateLimiter(1000.0, 1000))
    definitions = Resource(
        "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
    )
    await client.create(definitions, custom_resource_definition(), model=PartialObjectMetadata)
    for name in ("n1", "n2"):
        body = {"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeMetric", "metadata": {"name": name}}
        await client.create(NODE_METRICS, body, model=PartialObjectMetadata)
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "koordinator-system"}}
    await client.create(NAMESPACES, space, model=PartialObjectMetadata)
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "slo-controller-config", "namespace": "koordinator-system"},
        "data": {"a": "b"},
    }
    await client.create(CONFIG_MAPS, config, namespace="koordinator-system", model=PartialObjectMetadata)
    return server


async def test_node_metrics_and_their_config_map_are_read_where_they_are_served(colocated):
    found = await read(colocated, SnapshotScope.COLOCATION)
    assert [each.metadata.name for each in found.node_metrics] == ["n1", "n2"]
    assert found.colocation_config.data == {"a": "b"}


async def test_where_no_node_metric_is_served_nothing_of_colocation_is_asked_and_nothing_is_missing():
    server = Colocated("configmaps", server=ApiServer())
    found = await read(server, SnapshotScope.COLOCATION)
    assert (found.node_metrics, found.colocation_config, found.gaps) == (None, None, ())


@pytest.mark.parametrize(
    ("forbidden", "gaps"),
    [
        pytest.param("nodemetrics", ["nodemetrics.slo.koordinator.sh"], id="node-metrics"),
        pytest.param("configmaps", ["configmaps koordinator-system/slo-controller-config"], id="config-map"),
    ],
)
async def test_without_a_right_on_colocation_the_rest_is_read(colocated, forbidden, gaps):
    found = await read(Colocated(forbidden, server=colocated), SnapshotScope.COLOCATION)
    assert [gap.resource for gap in found.gaps] == gaps
    assert found.node_metrics is not None


async def test_of_one_node_only_its_report_is_read(colocated):
    server = Colocated(server=colocated)
    transport = LocalTransport(server)
    connection = Connection(client=Client(transport, RateLimiter(1000.0, 1000)), transport=transport)
    reader = SnapshotReader(connection, namespace=None, lease=("dra-reserve", "controller"))
    found = await reader.read(SnapshotScope.COLOCATION, node="n1")
    assert [each.metadata.name for each in found.node_metrics] == ["n1"]
    assert [path for path in server.asked if "nodemetrics" in path] == [
        "/apis/slo.koordinator.sh/v1alpha1/nodemetrics/n1"
    ]


async def test_slices_are_read_as_the_audit_before_an_upgrade_needs_them(plane):
    transport = LocalTransport(plane.handler_for("kubectl"))
    client = Client(transport, RateLimiter(1000.0, 1000))
    spec = {
        "driver": "d.example",
        "nodeName": "n1",
        "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "gpu", "attributes": {"a/b/c": {"int": 1}}}],
    }
    body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": spec}
    await client.create(SLICES, body, model=PartialObjectMetadata)
    connection = Connection(client=client, transport=transport)
    reader = SnapshotReader(connection, namespace=None, lease=("dra-reserve", "controller"))
    snapshot = await reader.read(SnapshotScope.DEVICES)
    (read,) = snapshot.slices
    assert isinstance(read, ManagedResourceSlice)
    problems = [str(each.subject) for each in audit(ClusterState(snapshot)) if each.code == "UpgradeObstacle"]
    assert problems == ["resourceslice s"]
