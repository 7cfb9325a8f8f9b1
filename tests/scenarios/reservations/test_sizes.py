"""The real API server refuses Reservations and PodMigrationJobs that are too large to be meant, and lets old ones go.

The policies are those of deploy/; tests/dra/cli/test_size_policies.py judges their parts without a server.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Final

import pytest
import yaml

from tests.cluster.cluster import Cluster
from tests.cluster.kubectl import kubectl
from tests.cluster.options import Options
from tests.dra.api.migration import manifests as jobs
from tests.dra.api.reservations import manifests as reservations
from tests.scenarios import installation
from tests.scenarios.api import Api, ApiError, Json
from tests.scenarios.eventually import eventually
from tests.scenarios.resources import POD_MIGRATION_JOBS, RESERVATIONS, Resource
from tests.scenarios.target import Capability, Mode, Place, Target

pytestmark = [pytest.mark.needs(Capability.POLICIES)]

DEPLOY: Final = installation.DEPLOY
CRDS: Final = DEPLOY.parent / "crds"
KINDS: Final = {"reservations": RESERVATIONS, "podmigrationjobs": POD_MIGRATION_JOBS}
EMPTY: Final = 300_000
"""Empty objects in a list, of 1.2 MB together."""

REFUSED_WITHIN: Final = 30.0
"""Seconds until a refusal, which usually takes less than one: no client waits for longer than this."""


@pytest.fixture(scope="module")
def target() -> Iterator[Target]:
    """An API server with one fat object of each kind, from before the policies of deploy/."""
    if Place.chosen() is not Place.LOCAL:
        pytest.skip("installs definitions and policies: a cluster of its own")
    with Cluster(Options(nodes=0)) as cluster:
        admin = cluster.admin_kubeconfig
        for plural in KINDS:
            crd = f"{plural}.scheduling.koordinator.sh"
            kubectl("apply", f"--filename={CRDS / f'{crd}.yaml'}", kubeconfig=admin)
            kubectl("wait", "--for=condition=Established", f"crd/{crd}", "--timeout=30s", kubeconfig=admin)
        for obj in (fat_reservation("old"), fat_job("old")):
            kubectl("create", "--filename=-", "--validate=false", kubeconfig=admin, stdin=yaml.safe_dump(obj))
        for kustomization in (installation.OVERLAYS[Mode.ALONGSIDE], DEPLOY / "reservations", DEPLOY / "descheduler"):
            installation.install(admin, kustomization=kustomization)
        yield Target(mode=Mode.ALONGSIDE, admin=admin, controller=admin, folder=cluster.folder, own=cluster)


@pytest.fixture
async def guarded(api: Api) -> AsyncIterator[Api]:
    """The API, with the policies in force, without new objects at the end."""

    async def in_force() -> bool:
        labels = {f"k{n}": "" for n in range(257)}
        return all(["has 257" in await refusal(api, with_labels(obj, labels)) for obj in (reservation(), job())])

    await eventually(in_force, within=60, saying="the admission policies are in force")
    yield api
    for resource in KINDS.values():
        for each in await api.all(resource):
            if each["metadata"]["name"] != "old":
                await api.delete(resource, each["metadata"]["name"])


def reservation(name: str = "new", **pod: Any) -> Json:
    made = reservations.manifest(name)
    made["spec"]["template"]["spec"] |= pod
    return made


def job(name: str = "new", **pod: Any) -> Json:
    template = reservations.manifest()["spec"]["template"]["spec"] | pod
    return jobs.manifest(name, **jobs.with_template(template={"spec": template}))


def fat_reservation(name: str) -> Json:
    return reservation(name, x=[{}] * 20_000)


def fat_job(name: str) -> Json:
    return job(name, x=[{}] * 20_000)


def with_labels(obj: Json, labels: Json) -> Json:
    return {**obj, "metadata": {**obj["metadata"], "labels": labels}}


def resource_of(obj: Json) -> Resource:
    return RESERVATIONS if obj["kind"] == "Reservation" else POD_MIGRATION_JOBS


async def refusal(api: Api, obj: Json) -> str:
    """Create an object, without storing it; return why the server refuses; empty if it does not."""
    try:
        await api.request("POST", f"{resource_of(obj).path()}?dryRun=All", obj)
    except ApiError as error:
        return str(error)
    return ""


def nested(levels: int) -> Json:
    value: Json = {}
    for _ in range(levels):
        value = {"a": value}
    return value


SHAPE: Final = "spec: has a list or map of more than 1024 entries, or more than"
TOO_LARGE: Final = [
    pytest.param(lambda: {"x": [{}] * EMPTY}, SHAPE, id="a-list"),
    pytest.param(lambda: {"x": {format(n, "x"): 0 for n in range(20_000)}}, SHAPE, id="a-map"),
    pytest.param(lambda: {"x": nested(20)}, SHAPE, id="levels"),
    pytest.param(lambda: {"x": nested(400)}, SHAPE, id="many-levels"),
    pytest.param(lambda: {"x": "x" * 1_000_000}, "characters, the maximum is 262144", id="a-text"),
    pytest.param(lambda: {"x": [[0] * 1000] * 17}, "values, the maximum is 16384", id="values"),
    pytest.param(lambda: {"x": [[{}] * 100] * 170}, "values, the maximum is 16384", id="lists"),
    # The API server ends the expression; the text is its own.
    pytest.param(lambda: {"x": [[{}] * 1000] * 300}, "cost limit exceeded", id="what-cannot-be-counted"),
    pytest.param(lambda: {"volumes": [[[[[[[0]]]]]]] * 1000}, "", id="lists-of-one"),
]


@pytest.mark.parametrize("made", [reservation, job], ids=lambda made: made.__name__)
@pytest.mark.parametrize(("pod", "text"), TOO_LARGE)
async def test_a_template_that_is_too_large_is_refused_with_what_to_leave_out(
    guarded: Api, made: Any, pod: Callable[[], Json], text: str
) -> None:
    began = time.monotonic()
    told = await refusal(guarded, made(**pod()))
    assert time.monotonic() - began < REFUSED_WITHIN
    assert text in told
    assert text or not told
    assert not text or "cost limit" in text or "leave " in told


@pytest.mark.parametrize("field", ["x", "preconditions"])
async def test_delete_options_have_the_fields_of_kubernetes(guarded: Api, field: str) -> None:
    fat = jobs.manifest("new", deleteOptions={"gracePeriodSeconds": 5, field: {"x": [{}] * EMPTY}})
    await guarded.create(fat)
    stored = await guarded.get(POD_MIGRATION_JOBS, "new")
    assert stored["spec"]["deleteOptions"] in ({"gracePeriodSeconds": 5}, {"gracePeriodSeconds": 5, field: {}})


@pytest.mark.parametrize("made", [reservation, job], ids=lambda made: made.__name__)
@pytest.mark.parametrize(
    ("part", "text"),
    [
        pytest.param({"labels": {f"k{n}": "" for n in range(257)}}, "metadata.labels: has 257 entries", id="labels"),
        pytest.param(
            {"annotations": {f"k{n}": "" for n in range(257)}}, "metadata.annotations: has 257", id="annotations"
        ),
        pytest.param({"finalizers": [f"a.b/{n}" for n in range(65)]}, "metadata.finalizers: has 65", id="finalizers"),
        pytest.param(
            {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": f"{n}"} for n in range(65)]},
            "metadata.ownerReferences: has 65",
            id="references",
        ),
        pytest.param(
            {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "x" * 100_000, "uid": "a"}]},
            "no object has such a name",
            id="a-reference",
        ),
    ],
)
async def test_metadata_that_is_too_large_is_refused(guarded: Api, made: Any, part: Json, text: str) -> None:
    obj = made()
    assert text in await refusal(guarded, {**obj, "metadata": obj["metadata"] | part})
    assert not await refusal(guarded, obj)


@pytest.mark.parametrize(
    ("resource", "change"),
    [
        pytest.param(RESERVATIONS, {"spec": {"ttl": "2h"}}, id="reservations"),
        pytest.param(POD_MIGRATION_JOBS, {"spec": {"paused": True}}, id="podmigrationjobs"),
    ],
)
async def test_an_object_from_before_can_change_all_but_its_spec_and_be_deleted(
    guarded: Api, resource: Resource, change: Json
) -> None:
    await guarded.patch(resource, "old", {"status": {"phase": "Failed"}}, subresource="status")
    await guarded.patch(resource, "old", {"metadata": {"labels": {"a": "b"}, "finalizers": ["a.b/c"]}})
    with pytest.raises(ApiError, match="more than 1024 entries"):
        await guarded.patch(resource, "old", change)
    await guarded.delete(resource, "old")
    await guarded.patch(resource, "old", {"metadata": {"finalizers": None}})

    async def gone() -> bool:
        return "old" not in {each["metadata"]["name"] for each in await guarded.all(resource)}

    await eventually(gone, within=30, saying="the old object is gone")
