"""Devices by identity: what a Reservation holds is what its owners get, one after the other, and nobody else meanwhile.

Garbage collection is on throughout; the claims' watch history tells whether there ever was a gap.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest

from tests.cluster.processes import Process
from tests.scenarios import objects
from tests.scenarios.api import Api, Json
from tests.scenarios.claims import allocated, bound, entries
from tests.scenarios.eventually import eventually, steadily
from tests.scenarios.history import Version
from tests.scenarios.namespaces import Namespace
from tests.scenarios.resources import CLAIMS, JOBS, PODS, RESERVATIONS

NODE: Final = "node-1"
DEVICES: Final = 4


@pytest.fixture
async def devices(emptied: Api, namespace: Namespace) -> AsyncIterator[Namespace]:
    """A namespace with four devices on one node, and a template that asks for two of them."""
    del emptied
    of = await namespace.offer_devices(DEVICES, node=NODE)
    await namespace.create(objects.claim_template("pair", device_class=of, devices=2))
    yield namespace
    for each in await namespace.all(PODS):
        await namespace.delete(PODS, each["metadata"]["name"], grace_seconds=1)


async def test_held_devices_go_from_owner_to_owner_and_come_back(devices: Namespace) -> None:
    await reserve(devices, "held")
    held = await kept_by(devices, "held")
    ids = device_ids(held)
    assert len(ids) == 2
    name = held["metadata"]["name"]

    async with devices.history(name) as history:
        await devices.create(pod("other-0", app="stranger"))
        others = device_ids(await claim_of(devices, "other-0"))
        assert others == {f"device-{number}" for number in range(DEVICES)} - ids
        await devices.create(pod("other-1", app="stranger"))
        await waits(devices, "other-1")

        for owner in ("owner-0", "owner-1"):
            await devices.create(pod(owner, app="held"))
            given = await claim_of(devices, owner)
            assert (given["metadata"]["name"], device_ids(given)) == (name, ids)
            assert (await runs(devices, owner))["spec"]["nodeName"] == NODE
            assert owners(given) == [("Pod", owner, True), ("Reservation", rsv(devices, "held"), False)]
            await eventually(
                lambda: devices.api.get(RESERVATIONS, rsv(devices, "held")),
                until=lambda found: len(found["status"].get("currentOwners", ())) == 1,
                saying="the reservation names its owner",
            )
            await devices.delete(PODS, owner, grace_seconds=1)
            back = await kept_by(devices, "held")
            assert (back["metadata"]["name"], device_ids(back)) == (name, ids)
        await waits(devices, "other-1")

    await devices.api.delete(RESERVATIONS, rsv(devices, "held"))
    assert device_ids(await claim_of(devices, "other-1")) == ids
    for version in history.versions:
        assert without_a_gap(version), version.object["status"]


@pytest.mark.long
async def test_what_an_owner_uses_at_the_end_is_free_when_that_owner_ends(devices: Namespace) -> None:
    await reserve(devices, "short")
    held = await kept_by(devices, "short")
    await devices.create(pod("owner", app="short"))
    await runs(devices, "owner")
    await devices.api.patch(
        RESERVATIONS, rsv(devices, "short"), {"spec": {"expires": "2020-01-01T00:00:00Z"}}, kind="merge-patch"
    )
    await eventually(
        lambda: devices.get(CLAIMS, held["metadata"]["name"]),
        until=lambda found: [each["resource"] for each in entries(found)] == ["pods"],
        saying="the owner alone keeps the claim",
    )
    await steadily(lambda: still(devices, held), lasting=1.0, saying="its devices stay")
    await devices.create(pod("other", app="stranger"))
    await runs(devices, "other")
    await devices.create(pod("next", app="stranger"))
    await waits(devices, "next")
    await devices.delete(PODS, "owner", grace_seconds=1)
    assert device_ids(await claim_of(devices, "next")) == device_ids(held)


@pytest.mark.long
async def test_the_pods_of_a_job_get_the_held_devices_one_after_the_other(devices: Namespace) -> None:
    """The Job makes the next pod when it sees the last one end: at the very moment in which the claim goes back."""
    await reserve(devices, "job")
    held = await kept_by(devices, "job")
    shape = objects.PodShape(
        claim_template="pair", run_seconds=1, labels={"app": "job"}, spec={"schedulerName": "koord-scheduler"}
    )
    made = objects.job("train", shape, parallelism=1, completions=3)
    requests = {"requests": {"cpu": "100m"}}
    container = made["spec"]["template"]["spec"]["containers"][0]
    container["resources"] = {**container["resources"], **requests}
    async with devices.history(held["metadata"]["name"]) as history:
        await devices.create(made)
        await eventually(
            lambda: devices.get(JOBS, "train"),
            until=lambda found: found["status"].get("succeeded") == 3,
            within=40.0,
            saying="the Job is done",
        )
        await kept_by(devices, "job")
    had = {name for version in history.versions for kind, name, _ in owners(version.object) if kind == "Pod"}
    assert had == {pod["metadata"]["name"] for pod in await devices.all(PODS)}
    assert len(had) == 3
    assert all(without_a_gap(version) for version in history.versions)
    assert [each["metadata"]["name"] for each in await devices.all(CLAIMS)] == [held["metadata"]["name"]]


@pytest.mark.long
async def test_whoever_restarts_nothing_that_is_held_is_given_away(devices: Namespace, reserving: Process) -> None:
    """An owner ends, and the next one comes, while the controller is not there."""
    await reserve(devices, "restart")
    held = await kept_by(devices, "restart")
    name = held["metadata"]["name"]
    async with devices.history(name) as history:
        await devices.create(pod("first", app="restart"))
        await runs(devices, "first")
        reserving.kill()
        await devices.delete(PODS, "first", grace_seconds=1)
        await devices.create(pod("second", app="restart"))
        await devices.create(pod("other-0", app="stranger"))
        await eventually(
            lambda: devices.get(CLAIMS, name),
            until=lambda found: owners(found) == [("Reservation", rsv(devices, "restart"), False)],
            saying="the garbage collector leaves the claim to its reservation",
        )
        await asyncio.to_thread(reserving.start, within=40)
        # Nobody saw how `first` ended: its entry stays for 100 s after it was looked up.
        given = await claim_of(devices, "second", within=150.0)
        assert (given["metadata"]["name"], device_ids(given)) == (name, device_ids(held))
        assert device_ids(await claim_of(devices, "other-0")).isdisjoint(device_ids(held))
    assert all(without_a_gap(version) for version in history.versions)


@pytest.mark.long
async def test_a_claim_that_the_template_names_is_shared_by_the_owners(devices: Namespace) -> None:
    of = f"{devices.name}.scenario.dra"
    await devices.create(objects.claim("common", device_class=of, devices=2))
    await reserve(devices, "common", source={"resourceClaimName": "common"})
    kept = await kept_by(devices, "common", owned=False)
    for owner in ("first", "second"):
        await devices.create(pod(owner, app="common", claim="common"))
        await runs(devices, owner)
    for owner in ("first", "second"):
        await devices.delete(PODS, owner, grace_seconds=1)
    again = await kept_by(devices, "common", owned=False)
    assert again["status"]["allocation"] == kept["status"]["allocation"]
    await devices.api.delete(RESERVATIONS, rsv(devices, "common"))
    await eventually(
        lambda: devices.get(CLAIMS, "common"),
        until=lambda found: not allocated(found) and not entries(found),
        saying="its devices are free, and the claim is there: it is its maker's",
    )


# What is done and looked at


def rsv(namespace: Namespace, name: str) -> str:
    return f"{namespace.name}-{name}"


async def reserve(
    namespace: Namespace, name: str, *, source: Json | None = None, where: Json | None = None, **spec: Any
) -> None:
    """Reserve what a pod with this claim needs, for pods labelled app: NAME, one after the other."""
    claims = [{"name": "device", **(source or {"resourceClaimTemplateName": "pair"})}]
    container = {"name": "main", "image": objects.IMAGE, "resources": {"requests": {"cpu": "100m"}}}
    template = {
        "metadata": {"namespace": namespace.name},
        "spec": {
            "schedulerName": "koord-scheduler",
            "containers": [container],
            "resourceClaims": claims,
            **(where or {}),
        },
    }
    whole = {
        "template": template,
        "owners": [{"labelSelector": {"matchLabels": {"app": name}}}],
        "allocateOnce": False,
        "ttl": "1h",
        **spec,
    }
    metadata = {"name": rsv(namespace, name)}
    kind = {"apiVersion": RESERVATIONS.api_version, "kind": RESERVATIONS.kind}
    await namespace.api.create({**kind, "metadata": metadata, "spec": whole})
    await eventually(
        lambda: namespace.api.get(RESERVATIONS, metadata["name"]),
        until=lambda found: found.get("status", {}).get("phase") == "Available",
        saying=f"reservation {metadata['name']} is Available",
    )


def pod(name: str, *, app: str, claim: str | None = None, **more: Any) -> Json:
    """Return a pod with two devices of its own, or with a claim by name."""
    shape = objects.PodShape(claim=claim, claim_template=None if claim else "pair", labels={"app": app}, **more)
    made = objects.pod(name, shape)
    made["spec"]["schedulerName"] = "koord-scheduler"
    made["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "100m"}
    return made


async def kept_by(namespace: Namespace, name: str, *, owned: bool = True) -> Json:
    """Return the one claim that the reservation alone keeps, once it does."""
    wanted = [("Reservation", rsv(namespace, name), False)] if owned else []

    def alone(found: list[Json]) -> bool:
        return [rsv(namespace, name)] == [
            entry["name"]
            for each in found
            if owners(each) == wanted and len(entries(each)) == 1
            for entry in entries(each)
            if (entry.get("apiGroup"), entry["resource"]) == ("scheduling.koordinator.sh", "reservations")
        ]

    found = await eventually(
        lambda: namespace.all(CLAIMS), until=alone, saying=f"reservation {name} alone keeps a claim"
    )
    (kept,) = [each for each in found if [entry["name"] for entry in entries(each)] == [rsv(namespace, name)]]
    return kept


async def claim_of(namespace: Namespace, name: str, *, within: float = 20.0) -> Json:
    """Return the claim of a pod that runs."""
    found = await runs(namespace, name, within=within)
    (status,) = found["status"]["resourceClaimStatuses"]
    return await namespace.get(CLAIMS, status["resourceClaimName"])


async def runs(namespace: Namespace, name: str, *, within: float = 20.0) -> Json:
    return await eventually(
        lambda: namespace.get(PODS, name),
        until=lambda found: found["status"].get("phase") == "Running",
        within=within,
        saying=f"pod {name} runs",
    )


async def waits(namespace: Namespace, name: str) -> None:
    """Wait until the scheduler has refused a pod, and see that it stays so."""

    async def refused() -> bool:
        found = await namespace.get(PODS, name)
        told = {each["type"]: each["status"] for each in found["status"].get("conditions", ())}
        return not bound(found) and told.get("PodScheduled") == "False"

    await eventually(refused, saying=f"pod {name} waits")
    await steadily(refused, lasting=1.0, saying=f"pod {name} goes on waiting")


async def still(namespace: Namespace, before: Json) -> bool:
    found = await namespace.get(CLAIMS, before["metadata"]["name"])
    return bool(found["status"].get("allocation") == before["status"]["allocation"])


def device_ids(claim: Json) -> set[str]:
    return {each["device"] for each in claim["status"]["allocation"]["devices"]["results"]}


def owners(claim: Json) -> list[tuple[str, str, bool]]:
    found = claim["metadata"].get("ownerReferences", ())
    return sorted((each["kind"], each["name"], each.get("controller", False)) for each in found)


def without_a_gap(version: Version) -> bool:
    """Whether the claim was allocated and kept by somebody."""
    return allocated(version.object) and bool(entries(version.object))
