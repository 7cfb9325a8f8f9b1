"""A plan says what an installation would do to each object, and an installation does just that."""

import pytest

from dra.cli.kubectl.connection import Connection
from dra.cli.kubectl.install.plan import PlannedAction, Planner, changed_fields
from dra.kube.client import Client
from dra.kube.rate_limiter import RateLimiter
from dra.kube.resources import NAMESPACES, Resource
from dra.model.meta import PartialObjectMetadata, UnstructuredObject
from localplane.schemas.builtin_schemas import Dialect
from localplane.server import ApiServer
from localplane.transport import LocalTransport
from tests.dra.kube.virtual import seeded

MAPS = Resource("", "v1", "configmaps", "ConfigMap", namespaced=True)
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ours"}}
MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "ours"}, "data": {"a": "1"}}
POLICY = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicy",
    "metadata": {"name": "p"},
    "spec": {},
}


@pytest.fixture
def connection():
    transport = LocalTransport(ApiServer(api=Dialect.STOCK, random=seeded(1)))
    return Connection(client=Client(transport, RateLimiter(1e6, 1e6)), transport=transport)


def planner(connection, **more):
    return Planner(connection, **{"force_conflicts": False, "local_plane": False} | more)


async def actions(connection, *objects, **more):
    return [each.action for each in await planner(connection, **more).plan(objects)]


async def install(connection, *objects):
    plan = planner(connection)
    written = []
    await plan.write(await plan.plan(objects), written.append)
    return [each.name for each in written]


async def test_on_an_empty_cluster_all_are_created_and_a_plan_creates_none(connection):
    for _ in range(2):
        assert await actions(connection, NAMESPACE, MAP) == [PlannedAction.CREATE, PlannedAction.CREATE]


async def test_what_is_installed_is_unchanged(connection):
    assert await install(connection, NAMESPACE, MAP) == ["namespace/ours", "configmap/m -n ours"]
    assert await actions(connection, NAMESPACE, MAP) == [PlannedAction.KEEP, PlannedAction.KEEP]
    assert await install(connection, NAMESPACE, MAP) == []


async def test_a_change_names_the_fields(connection):
    await install(connection, NAMESPACE, MAP)
    (planned,) = await planner(connection).plan([{**MAP, "data": {"b": "1"}}])
    assert (planned.action, planned.detail) == (PlannedAction.CHANGE, "data.a, data.b")
    assert planned.to_data() == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "namespace": "ours",
        "name": "m",
        "action": "change",
        "detail": "data.a, data.b",
    }


async def test_a_field_of_another_manager_is_refused_unless_it_is_taken_over(connection):
    await install(connection, NAMESPACE)
    other = {**MAP, "data": {"a": "theirs"}}
    await connection.client.apply(MAPS, ("ours", "m"), other, model=UnstructuredObject, manager="somebody")
    (planned,) = await planner(connection).plan([MAP])
    assert planned.action is PlannedAction.REFUSED
    assert "somebody" in planned.detail
    assert planned.detail.endswith("--force-conflicts takes over the fields")
    assert await actions(connection, MAP, force_conflicts=True) == [PlannedAction.CHANGE]


async def test_the_objects_of_a_helm_release_are_left_to_helm(connection):
    await install(connection, NAMESPACE)
    released = {**MAP, "metadata": {**MAP["metadata"], "annotations": {"meta.helm.sh/release-name": "dra"}}}
    await connection.client.apply(MAPS, ("ours", "m"), released, model=UnstructuredObject, manager="helm")
    (planned,) = await planner(connection).plan([MAP])
    assert (planned.action, "Helm release dra" in planned.detail) == (PlannedAction.REFUSED, True)


async def test_an_object_that_the_server_refuses_is_told_before_any_is_written(connection):
    await install(connection, NAMESPACE)
    (planned,) = await planner(connection).plan([{**MAP, "data": {"a": {"not": "text"}}}])
    assert planned.action is PlannedAction.REFUSED
    assert planned.detail


@pytest.mark.parametrize(
    ("local_plane", "action"), [(False, PlannedAction.REFUSED), (True, PlannedAction.SKIP)], ids=["cluster", "plane"]
)
async def test_a_kind_that_is_not_served_is_refused_and_policies_are_skipped_on_a_local_plane(
    connection, local_plane, action
):
    (planned,) = await planner(connection, local_plane=local_plane).plan([POLICY])
    assert (planned.action, planned.name) == (action, "validatingadmissionpolicy/p")


@pytest.mark.parametrize(
    ("before", "after", "fields"),
    [
        pytest.param({"a": 1}, {"a": 1}, [], id="same"),
        pytest.param({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}}, ["a.c"], id="deep"),
        pytest.param({"a": [1]}, {"a": [1, 2], "b": 1}, ["a", "b"], id="list-and-new"),
        pytest.param({"a": {"b": 1}}, {}, ["a"], id="gone"),
    ],
)
def test_fields_that_differ_are_found(before, after, fields):
    assert list(changed_fields(before, after)) == fields


async def test_a_label_takes_nothing_from_whoever_applies_the_namespace(connection):
    """``kubectl apply --server-side`` has the same field manager as the other objects of an installation."""
    theirs = {"pod-security.kubernetes.io/enforce": "restricted"}
    namespace = {**NAMESPACE, "metadata": {"name": "ours", "labels": theirs}}
    await install(connection, namespace)
    plan = planner(connection)
    write = await plan.plan_label("ours", "reserve.dra/gate", "enabled")
    await plan.write([write], lambda _: None)
    live = await connection.client.get(NAMESPACES, ("", "ours"), PartialObjectMetadata)
    assert theirs.items() <= live.metadata.labels.items()
    assert live.metadata.labels["reserve.dra/gate"] == "enabled"
    assert await actions(connection, namespace) == [PlannedAction.KEEP]
