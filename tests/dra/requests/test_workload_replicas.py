import asyncio

import msgspec
import pytest

from dra.engine.migration.pod_index import workload_key
from dra.kube.errors import ApiError
from dra.model.meta import OwnerReference
from dra.requests.workload_replicas import KEEP_SECONDS, PAUSE_SECONDS, SCALE_SECONDS, WorkloadReplicas
from tests.controller.migration.site import DEFINITIONS, REPLICA_SETS, Site, refusal, template

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
    return Read(WorkloadReplicas(site.client, clock=site.clock))


class Read:
    """Reads replicas, and tells them by the uids of the workloads, all of which are in namespace ns."""

    def __init__(self, reader):
        self.reader = reader

    async def read(self, workloads):
        found = await self.reader.read(workloads)
        assert {key.namespace for key in found} <= {"ns"}
        return {key.uid: count for key, count in found.items()}


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


async def test_the_uid_of_a_workload_is_worth_nothing_in_another_namespace_or_of_another_kind(site, replicas):
    """Pods of another namespace named the uid, and their answer was kept for the workload itself, or the other way."""
    owner = await create(site, replicas=6)
    foreign = reference("Foo", owner.uid, version="none.example.com/v1")
    for first, second in (((foreign, "ns"), (owner, "ns")), ((owner, "ns"), (foreign, "ns"))):
        await replicas.read([first, (owner, "evil")])
        assert await replicas.read([second, (owner, "evil")]) == {owner.uid: 6}
        assert list(await replicas.reader.read([])) == [workload_key(owner, namespace="ns")]
        await asyncio.sleep(KEEP_SECONDS)


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
    assert replicas.reader._known == {}


async def test_a_kind_that_may_not_be_read_is_reported_once(site, replicas, caplog):
    owner = await create(site, replicas=2)
    site.answers[REPLICA_SETS] = refusal(403, "Forbidden")
    for _ in range(2):
        assert await replicas.read([(owner, "ns")]) == {}
        await asyncio.sleep(KEEP_SECONDS)
    assert caplog.text.count("of each ReplicaSet one pod may be away") == 1


@pytest.mark.parametrize("status", [429, 500])
async def test_no_number_is_invented_while_the_server_does_not_answer(site, replicas, status):
    owner = await create(site, replicas=2)
    site.answers[REPLICA_SETS] = refusal(status)
    with pytest.raises(ApiError):
        await replicas.read([(owner, "ns")])
    site.answers.clear()
    assert await replicas.read([(owner, "ns")]) == {owner.uid: 2}


KRUISE = "/apis/apps.kruise.io/v1alpha1"
CLONE_SETS = f"{KRUISE}/namespaces/ns/clonesets"


async def define(site, plural, kind, **version):
    """Install a kind of others; with a scale subresource if given."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    names = {"plural": plural, "kind": kind}
    versions = [{"name": "v1alpha1", "served": True, "storage": True, "schema": schema, **version}]
    spec = {"group": "apps.kruise.io", "names": names, "scope": "Namespaced", "versions": versions}
    await site.ask("POST", DEFINITIONS, {"metadata": {"name": f"{plural}.apps.kruise.io"}, "spec": spec})


@pytest.fixture
async def clone_set(site):
    """Return the reference to a CloneSet of seven replicas."""
    scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    await define(site, "clonesets", "CloneSet", subresources={"scale": scale})
    return await create_clone_set(site, replicas=7)


async def create_clone_set(site, *, name="web", **spec):
    body = {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "metadata": {"name": name}, "spec": spec}
    made = await site.ask("POST", CLONE_SETS, body)
    return reference("CloneSet", made["metadata"]["uid"], name=name, version="apps.kruise.io/v1alpha1")


async def test_the_replicas_of_other_kinds_are_those_of_their_scale(site, replicas, clone_set):
    none = await create_clone_set(site, name="none", replicas=0)
    assert await replicas.read([(clone_set, "ns"), (none, "ns")]) == {clone_set.uid: 7, none.uid: 0}
    assert len(site.lines(f"{CLONE_SETS}/web/scale")) == 1


async def test_the_path_of_a_kind_is_asked_for_once(site, replicas, clone_set):
    for _ in range(4):
        await replicas.read([(clone_set, "ns")])
        await asyncio.sleep(KEEP_SECONDS)
    assert len(site.lines(f"{CLONE_SETS}/web/scale")) == 4
    assert len(site.lines("GET /apis/apps.kruise.io")) == 4 + 2, "one of them for the group, one for its version"


async def test_a_kind_without_scale_has_no_entry_and_its_objects_are_not_read(site, replicas, clone_set):
    await define(site, "jobs", "BroadcastJob")
    owner = reference("BroadcastJob", "u", version="apps.kruise.io/v1alpha1")
    assert await replicas.read([(owner, "ns"), (clone_set, "ns")]) == {clone_set.uid: 7}
    assert site.lines("/ns/jobs") == []


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"name": "gone"}, id="gone"),
        pytest.param({"name": "web/status"}, id="no-name-of-an-object"),
        pytest.param({"uid": "another"}, id="another-uid"),
        pytest.param({"kind": "Clone"}, id="no-such-kind"),
        pytest.param({"api_version": "../v1"}, id="no-name-of-a-group"),
    ],
)
async def test_a_workload_of_another_kind_that_is_not_known_has_no_entry(replicas, clone_set, changes):
    owner = msgspec.structs.replace(clone_set, **changes)
    assert await replicas.read([(owner, "ns")]) == {}


async def hang(_):
    await asyncio.sleep(1000.0)


@pytest.mark.parametrize(
    "path",
    [pytest.param("GET /apis/apps.kruise.io", id="discovery"), pytest.param(f"GET {CLONE_SETS}/web", id="scale")],
)
@pytest.mark.parametrize(
    "failure",
    [
        pytest.param((refusal(403, "Forbidden", "no right to get clonesets/scale"), "no right to get"), id="forbidden"),
        pytest.param((refusal(500, "InternalError", "conversion webhook failed"), "conversion webhook"), id="error"),
        pytest.param((hang, f"no answer within {SCALE_SECONDS:g} s"), id="hangs"),
    ],
)
async def test_a_kind_of_others_that_cannot_be_read_stops_nobody(site, replicas, clone_set, caplog, path, failure):
    answer, text = failure
    owner = await create(site, replicas=2)
    site.answers[path] = answer
    started = site.clock.now()
    assert await replicas.read([(clone_set, "ns"), (owner, "ns")]) == {owner.uid: 2}
    assert site.clock.now() - started <= SCALE_SECONDS + 0.1
    assert caplog.text.count("of each CloneSet.apps.kruise.io one pod may be away") == 1
    assert text in caplog.text
    asked = len(site.lines(path))
    await asyncio.sleep(KEEP_SECONDS)
    assert await replicas.read([(clone_set, "ns")]) == {}
    assert len(site.lines(path)) == asked
    site.answers.clear()
    await asyncio.sleep(PAUSE_SECONDS)
    assert await replicas.read([(clone_set, "ns")]) == {clone_set.uid: 7}
    assert replicas.reader._paused == {}
    assert caplog.text.count("one pod may be away") == 1


async def test_a_server_that_is_overloaded_is_asked_again(site, replicas, clone_set):
    site.answers[f"GET {CLONE_SETS}/web"] = refusal(429)
    with pytest.raises(ApiError):
        await replicas.read([(clone_set, "ns")])
    site.answers.clear()
    assert await replicas.read([(clone_set, "ns")]) == {clone_set.uid: 7}
