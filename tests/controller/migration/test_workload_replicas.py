import asyncio

import pytest

from controller.migration.workload_replicas import KEEP_SECONDS, WorkloadReplicas
from dra.kube.errors import ApiError
from dra.model.meta import OwnerReference
from tests.controller.migration.site import REPLICA_SETS, Site, refusal, template

LABELS = {"app": "web"}
SPEC = {"selector": {"matchLabels": LABELS}, "template": template(LABELS)}
PATHS = {
    "ReplicaSet": ("apps/v1", REPLICA_SETS),
    "StatefulSet": ("apps/v1", "/apis/apps/v1/namespaces/ns/statefulsets"),
    "Job": ("batch/v1", "/apis/batch/v1/namespaces/ns/jobs"),
}


@pytest.fixture
async def site():
    async with Site() as made:
        yield made


@pytest.fixture
def replicas(site):
    return WorkloadReplicas(site.client, clock=site.clock)


def reference(kind, uid, *, name="web", version="apps/v1"):
    return OwnerReference(api_version=version, kind=kind, name=name, uid=uid, controller=True)


async def create(site, *, kind="ReplicaSet", **spec):
    version, path = PATHS[kind]
    made = await site.ask(
        "POST", path, {"metadata": {"name": "web"}, "spec": {**spec, **({} if kind == "Job" else SPEC)}}
    )
    return reference(kind, made["metadata"]["uid"], version=version)


@pytest.mark.parametrize(
    ("kind", "spec", "expected"),
    [
        pytest.param("ReplicaSet", {"replicas": 4}, 4, id="replicaset"),
        pytest.param("StatefulSet", {"replicas": 0, "serviceName": "web"}, 0, id="none-wanted"),
        pytest.param("ReplicaSet", {}, 1, id="default"),
        pytest.param(
            "Job",
            {"parallelism": 3, "template": {"spec": {**template({})["spec"], "restartPolicy": "Never"}}},
            3,
            id="job",
        ),
    ],
)
async def test_replicas_of_each_kind(site, replicas, kind, spec, expected):
    owner = await create(site, kind=kind, **spec)
    assert await replicas.read([(owner, "ns")]) == {owner.uid: expected}


@pytest.mark.parametrize(
    "owner",
    [
        pytest.param(reference("ReplicaSet", "u", name="gone"), id="gone"),
        pytest.param(reference("ReplicaSet", "another"), id="another-uid"),
        pytest.param(reference("ReplicaSet", "u", name="web/status"), id="no-name-of-an-object"),
        pytest.param(reference("DaemonSet", "u"), id="another-kind"),
        pytest.param(reference("ReplicaSet", "u", version="example.com/v1"), id="another-group"),
    ],
)
async def test_a_workload_that_is_not_known_has_no_entry(site, replicas, owner):
    await create(site, replicas=2)
    assert await replicas.read([(owner, "ns")]) == {}


async def test_replicas_are_kept_for_some_seconds_and_then_read_again(site, replicas):
    owner = await create(site, replicas=2)
    for _ in range(3):
        await replicas.read([(owner, "ns")])
    assert len(site.requests) == 1
    await site.ask("PATCH", f"{REPLICA_SETS}/web", {"spec": {"replicas": 5}})
    await asyncio.sleep(KEEP_SECONDS)
    assert await replicas.read([(owner, "ns")]) == {owner.uid: 5}
    await asyncio.sleep(KEEP_SECONDS)
    assert await replicas.read([]) == {}
    assert replicas._known == {}


async def test_a_kind_that_may_not_be_read_is_reported_once(site, replicas, caplog):
    owner = await create(site, replicas=2)
    site.answers[REPLICA_SETS] = refusal(403, "Forbidden")
    for _ in range(2):
        assert await replicas.read([(owner, "ns")]) == {}
        await asyncio.sleep(KEEP_SECONDS)
    assert caplog.text.count("each ReplicaSet are counted") == 1


@pytest.mark.parametrize("status", [429, 500])
async def test_no_number_is_invented_while_the_server_does_not_answer(site, replicas, status):
    owner = await create(site, replicas=2)
    site.answers[REPLICA_SETS] = refusal(status)
    with pytest.raises(ApiError):
        await replicas.read([(owner, "ns")])
    site.answers.clear()
    assert await replicas.read([(owner, "ns")]) == {owner.uid: 2}
