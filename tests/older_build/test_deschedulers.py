"""Deschedulers of two builds on one API server: a migration that one begins the other one ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.older_build.parts import CONTROLLER, DESCHEDULER, EXTENDER, Pair, Place, Service, pair
from tests.scenarios.eventually import eventually, steadily
from tests.scenarios.reservations.migrations import deployment, ended, migration, outcome, ready_pods, reasons
from tests.scenarios.resources import NODES, POD_MIGRATION_JOBS, PODS, RESERVATIONS

if TYPE_CHECKING:
    from tests.older_build.builds import Build
    from tests.scenarios.api import Api, Json
    from tests.scenarios.namespaces import Namespace

pytestmark = [pytest.mark.slow, pytest.mark.long]

UNLIMITED: Final = {"objectLimiters": {"workload": {"duration": "0s"}}, "evictQPS": 100, "evictBurst": 100}
TOLD: Final = ["ReservationCreated", "ReservationScheduled", "Evicting", "EvictComplete", "Complete"]
SLOW_TO_END: Final = {"local.reserve.dra/stop-seconds": "6"}
"""Understood by the nodes of a plane."""


async def test_a_migration_that_one_build_begins_the_other_one_ends(
    place: Place, namespace: Namespace, older: Build, newer: Build
) -> None:
    async with (
        pair(CONTROLLER, place, newer, configuration={"mode": "replace", "reservations": True}) as controller,
        pair(EXTENDER, place, newer) as extender,
        Service(place.extender_port, extender.leader).running(),
        pair(DESCHEDULER, place, older, newer, configuration={"migration": UNLIMITED}) as deschedulers,
    ):
        await controller.leader.start(leading=True)
        await extender.leader.start(leading=True)
        await deschedulers.start()
        async with namespace.history("", resource=PODS) as pods:
            made = deployment("web", replicas=1)
            made["spec"]["template"]["metadata"]["annotations"] = SLOW_TO_END
            made["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 15
            await namespace.create(made)
            for number, by_crash in enumerate((False, False, True, True)):
                await one_migration(namespace, deschedulers, f"waits-{number}", by_crash=by_crash, is_held_up=True)
                await one_migration(namespace, deschedulers, f"evicts-{number}", by_crash=by_crash, is_held_up=False)
        ours = {uid for uid, versions in pods.by_object().items() if _is_of_web(versions[0].object)}
        assert len(ours) == 1 + 8, "a pod was evicted twice, or for nothing"


async def one_migration(
    namespace: Namespace, deschedulers: Pair, name: str, *, by_crash: bool, is_held_up: bool
) -> None:
    """Move the pod; another descheduler takes over before it is evicted, or while it ends."""
    api, began = namespace.api, deschedulers.leader
    (old,) = await ready_pods(api, "web", 1, namespace=namespace.name)
    if is_held_up:
        await cordon(api, but=old["spec"]["nodeName"])
    job = await api.create(migration(f"{namespace.name}-{name}", old, mode="ReservationFirst", ttl="5m"))
    uid, job_name = job["metadata"]["uid"], job["metadata"]["name"]
    last = "ReservationCreated" if is_held_up else "Evicting"
    await eventually(
        lambda: reasons(api, job), until=lambda told: last in told, saying=f"{began}: an Event about {name} says {last}"
    )
    await deschedulers.hand_over(by_crash=by_crash)
    way = f"begun by {began}, to be ended by {deschedulers.leader}"
    if is_held_up:
        await steadily(lambda: is_there(namespace, old), lasting=1.0, saying=f"{name}, {way}: the pod runs on")
        await cordon(api, but=None)
    over = await ended(api, job_name, within=60)
    assert outcome(over) == ("Succeeded", ""), f"{name}, {way}: {over['status']}"
    (new,) = await ready_pods(api, "web", 1, namespace=namespace.name)
    assert new["metadata"]["uid"] != old["metadata"]["uid"], f"{name}, {way}: nothing has moved"
    assert new["spec"]["nodeName"] == over["status"]["nodeName"], f"{name}, {way}: the pod is not where room was held"
    found = await api.get(RESERVATIONS, uid)
    assert [each["name"] for each in found["status"]["currentOwners"]] == [new["metadata"]["name"]]
    await eventually(
        lambda: reasons(api, over),
        until=lambda told: list(dict.fromkeys(each for each in told if each in TOLD)) == TOLD,
        saying=f"{name}, {way}: Events tell of each step",
    )
    await api.delete(POD_MIGRATION_JOBS, job_name)
    await api.delete(RESERVATIONS, uid)


async def cordon(api: Api, *, but: str | None) -> None:
    """Let no node but one take new pods; with None, let all take them."""
    for node in await api.all(NODES):
        name = node["metadata"]["name"]
        shut = but is not None and name != but
        await api.patch(NODES, name, {"spec": {"unschedulable": shut or None}})


async def is_there(namespace: Namespace, pod: Json) -> bool:
    """Tell whether a pod is there, and does not leave."""
    found = await namespace.find(PODS, pod["metadata"]["name"])
    return found is not None and "deletionTimestamp" not in found["metadata"]


def _is_of_web(pod: dict[str, Any]) -> bool:
    return bool(pod["metadata"].get("labels", {}).get("app") == "web") and not pod["metadata"]["name"].startswith(
        "reservation-"
    )
