"""Migrations of pods with devices: new ones are held before the pod leaves, as the watch histories of claims show."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

import pytest

from tests.scenarios import objects
from tests.scenarios.api import Api, Json
from tests.scenarios.claims import allocated, entries
from tests.scenarios.eventually import eventually
from tests.scenarios.namespaces import Namespace
from tests.scenarios.reservations.device_histories import DeviceHistory, claims_of, uid_of
from tests.scenarios.reservations.migrations import deployment, ended, migration, outcome, pods_of, ready_pods
from tests.scenarios.resources import CLAIMS, DEPLOYMENTS, PODS, RESERVATIONS

KINDS: Final = ("gpu", "cpu")
"""Kinds of devices, each with a driver and a class."""

OFFERING: Final = ("node-0", "node-1")


@pytest.fixture
async def offered(migrating: Api, namespace: Namespace) -> AsyncIterator[Namespace]:
    """A namespace with a device of each kind on two nodes, and a template for a claim of each kind."""
    assert migrating is namespace.api
    for kind in KINDS:
        driver = f"{kind}.{namespace.name}.scenario.dra"
        await namespace.create(objects.device_class(driver, driver=driver))
        for node in OFFERING:
            name = f"{namespace.name}-{kind}-{node}"
            await namespace.create(objects.resource_slice(name, driver=driver, devices=[f"{kind}-0"], node=node))
        await namespace.create(objects.claim_template(kind, device_class=driver))
    yield namespace
    for each in await namespace.all(DEPLOYMENTS):
        await namespace.delete(DEPLOYMENTS, each["metadata"]["name"])
    await eventually(lambda: _no_pods(namespace), saying="the pods have ended")


async def test_devices_are_held_on_the_new_node_before_the_pod_leaves(offered: Namespace) -> None:
    """A pod with a GPU and an exclusive CPU is never without: each claim is used by a pod, or held for the next one."""
    claims = [{"name": kind, "resourceClaimTemplateName": kind} for kind in KINDS]
    old = await runs(offered, "train", resourceClaims=claims)
    before = await claims_of(offered, old)
    assert before.keys() == set(KINDS)

    async with DeviceHistory(offered) as history:
        await offered.api.create(migration("moves", old))
        job = await ended(offered.api, "moves")
        assert outcome(job) == ("Succeeded", ""), job["status"]
        (new,) = await ready_pods(offered.api, "train", 1, namespace=offered.name)
        await eventually(
            lambda: offered.all(CLAIMS), until=lambda found: len(found) == len(KINDS), saying="the old claims are gone"
        )
    assert new["spec"]["nodeName"] == job["status"]["nodeName"] != old["spec"]["nodeName"]
    after = await claims_of(offered, new)
    history.assert_never_without(old=old, before=before, new=new, after=after, job=job)


async def test_a_pod_that_requests_nothing_but_a_device_moves_with_its_device_held(offered: Namespace) -> None:
    """The pod has no requests of cpu or memory, as those of people who try a device often have."""
    claims = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
    old = await runs(offered, "bare", resourceClaims=claims, containers=[{"name": "c", "image": "i"}])
    await offered.api.create(migration("bare", old))
    job = await ended(offered.api, "bare")
    assert outcome(job) == ("Succeeded", ""), job["status"]
    (new,) = await ready_pods(offered.api, "bare", 1, namespace=offered.name)
    assert new["spec"]["nodeName"] == job["status"]["nodeName"] != old["spec"]["nodeName"]
    held = await offered.api.get(RESERVATIONS, job["spec"]["reservationOptions"]["reservationRef"]["name"])
    assert held["status"]["phase"] == "Succeeded"
    assert [each["uid"] for each in held["status"]["currentOwners"]] == [uid_of(new)]
    (claim,) = (await claims_of(offered, new)).values()
    assert held["metadata"]["uid"] in {each["uid"] for each in claim["metadata"]["ownerReferences"]}


async def test_a_pod_that_requests_nothing_stays(offered: Namespace) -> None:
    pod = await runs(offered, "nothing", containers=[{"name": "c", "image": "i"}])
    await offered.api.create(migration("nothing", pod))
    job = await ended(offered.api, "nothing")
    assert outcome(job) == ("Failed", "ForbiddenMigratePod")
    assert "requests neither resources nor claims" in job["status"]["message"]
    assert await offered.api.all(RESERVATIONS) == []
    (same,) = await pods_of(offered.api, "nothing", namespace=offered.name)
    assert uid_of(same) == uid_of(pod)


async def test_a_claim_by_name_keeps_its_pod_where_its_devices_are(offered: Namespace) -> None:
    await offered.create(objects.claim("mine", device_class=f"gpu.{offered.name}.scenario.dra"))
    pod = await runs(offered, "named", resourceClaims=[{"name": "gpu", "resourceClaimName": "mine"}])
    await offered.api.create(migration("pinned", pod))
    job = await ended(offered.api, "pinned")
    assert outcome(job) == ("Failed", "ForbiddenMigratePod")
    said = f"claim {offered.name}/mine is allocated on node {pod['spec']['nodeName']}, and no other node can use"
    assert said in job["status"]["message"]
    assert await offered.api.all(RESERVATIONS) == []
    (same,) = await pods_of(offered.api, "named", namespace=offered.name)
    assert uid_of(same) == uid_of(pod)


async def test_a_claim_by_name_whose_devices_other_nodes_reach_does_not_keep_its_pod(offered: Namespace) -> None:
    of = await offered.offer_devices(1)
    await offered.create(objects.claim("shared", device_class=of))
    pod = await runs(offered, "named", resourceClaims=[{"name": "device", "resourceClaimName": "shared"}])
    async with offered.history("shared") as history:
        await offered.api.create(migration("reaches", pod))
        job = await ended(offered.api, "reaches")
    assert outcome(job) == ("Succeeded", ""), job["status"]
    assert job["status"]["nodeName"] != pod["spec"]["nodeName"]
    assert all(allocated(each.object) and entries(each.object) for each in history.versions)


async def runs(namespace: Namespace, name: str, **spec: Any) -> Json:
    """Return the one pod of a new Deployment, once it is ready."""
    await namespace.create(deployment(name, replicas=1, **spec))
    (pod,) = await ready_pods(namespace.api, name, 1, namespace=namespace.name)
    return pod


async def _no_pods(namespace: Namespace) -> bool:
    return not await namespace.all(PODS)
