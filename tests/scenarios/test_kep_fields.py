"""KEP-5194 as it was meant: the claim names its workload in its spec, and the list names nobody else, ever."""

from __future__ import annotations

from typing import Any, Final

import pytest

from dra.engine.instants import BIND_HORIZON
from tests.scenarios import objects, steps
from tests.scenarios.claims import allocated, condition, entries, listed
from tests.scenarios.eventually import eventually, steadily
from tests.scenarios.history import WatchHistory
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import PodShape
from tests.scenarios.resources import CLAIMS, DEPLOYMENTS, JOBS, PODS
from tests.scenarios.target import Capability, Mode

pytestmark = [
    pytest.mark.modes(Mode.REPLACE),
    pytest.mark.needs(Capability.KEP_FIELDS),
    pytest.mark.usefixtures("controller"),
]

Json = dict[str, Any]

MANY: Final = 300
"""More pods than a list may hold."""

FREED_WITHIN: Final = BIND_HORIZON + 10.0
"""Seconds: binding a pod writes nothing on such a claim, so a bind horizon lies between release and deallocation."""


def _claim(name: str, *, devices: str, owner: Json, resource: str, group: str) -> Json:
    claim = objects.claim(name, device_class=devices)
    claim["spec"]["reservedFor"] = steps.entry(owner, resource, group=group)
    return claim


def _enters_with_the_allocation(history: WatchHistory, wanted: Json) -> bool:
    """Tell whether each version that is allocated says so to any pod, and names the workload alone, then nobody."""
    versions = [version.object for version in history.versions if allocated(version.object)]
    lists = [[entry["resource"] for entry in entries(claim)] for claim in versions]
    begun = lists.index([]) if [] in lists else len(lists)
    return (
        begun > 0
        and all(claim["status"]["allocation"].get("reservedForAnyPod") is True for claim in versions)
        and all(entries(claim) == [wanted] for claim in versions[:begun])
        and all(not found for found in lists[begun:])
    )


async def test_a_job_of_more_pods_than_a_list_holds_is_the_only_entry_until_it_ends(namespace: Namespace) -> None:
    devices = await namespace.offer_devices(1)
    job = await namespace.create(objects.job("train", PodShape(claim="train"), parallelism=MANY))
    claim = _claim("train", devices=devices, owner=job, resource="jobs", group="batch")
    async with namespace.history("train") as history:
        await namespace.create(claim)
        await eventually(
            lambda: namespace.get(JOBS, "train"),
            until=lambda found: found["status"].get("ready") == MANY,
            within=120,
            saying="all pods run",
        )
        await namespace.create(objects.claim("next", device_class=devices))
        await namespace.create(objects.pod("next", PodShape(claim="next")))
        await steps.end_pods(namespace, *[pod["metadata"]["name"] for pod in await _pods_of(namespace, "train")])
        await eventually(
            lambda: namespace.get(JOBS, "train"),
            until=lambda found: condition(found, "Complete") == "True",
            within=60,
            saying="the job is complete",
        )
        await steps.freed(namespace, "train", within=FREED_WITHIN)
        await steps.pods_run(namespace, "next")
    assert _enters_with_the_allocation(history, claim["spec"]["reservedFor"])


async def test_a_deployment_of_no_pods_keeps_its_claim_until_it_is_deleted(namespace: Namespace) -> None:
    devices = await namespace.offer_devices(1)
    crew = await namespace.create(objects.deployment("crew", PodShape(claim="shared"), replicas=2))
    await namespace.create(_claim("shared", devices=devices, owner=crew, resource="deployments", group="apps"))
    await steps.pods_run(namespace, count=2)

    await namespace.patch(DEPLOYMENTS, "crew", {"spec": {"replicas": 0}})
    await eventually(lambda: namespace.all(PODS), until=lambda pods: not pods, saying="all pods are gone")
    await steadily(lambda: _is_allocated(namespace, "shared"), lasting=2.0, saying="the deployment may scale up again")

    await namespace.delete(DEPLOYMENTS, "crew")
    await steps.freed(namespace, "shared", within=FREED_WITHIN)


async def test_what_its_owner_has_released_is_freed_when_the_last_pod_has_ended(namespace: Namespace) -> None:
    devices = await namespace.offer_devices(1)
    job = await namespace.create(objects.job("train", PodShape(claim="train"), parallelism=2))
    await namespace.create(_claim("train", devices=devices, owner=job, resource="jobs", group="batch"))
    await steps.pods_run(namespace, count=2)

    await steps.unlist(namespace, "train", job["metadata"]["uid"])
    await steadily(lambda: _is_allocated(namespace, "train"), lasting=2.0, saying="two pods use it")
    await steps.end_pods(namespace)
    await steps.freed(namespace, "train", within=FREED_WITHIN)


async def test_a_claim_may_name_a_job_that_does_not_exist_yet(namespace: Namespace) -> None:
    devices = await namespace.offer_devices(1)
    claim = objects.claim("train", device_class=devices)
    claim["spec"]["reservedFor"] = {"apiGroup": "batch", "resource": "jobs", "name": "train"}
    await namespace.create(claim)
    job = await namespace.create(objects.job("train", PodShape(claim="train"), parallelism=3))
    await steps.pods_run(namespace, count=3)
    found = await steps.claim_is(namespace, "train", lambda claim: listed(claim, "jobs"), saying="the Job is entered")
    assert job["metadata"]["uid"] in steps.uids(found)

    await steps.end_pods(namespace)
    await steps.freed(namespace, "train", within=FREED_WITHIN)


async def _pods_of(namespace: Namespace, job: str) -> list[Json]:
    return await namespace.all(PODS, labelSelector=f"job-name={job}")


async def _is_allocated(namespace: Namespace, name: str) -> bool:
    return allocated(await namespace.get(CLAIMS, name))
