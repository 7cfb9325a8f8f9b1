"""Rule 12: whoever cannot tell keeps the reservation and says why.

A workload may be of a kind that nobody let us read, or that the API server does not know (yet); the API server may be
away. When the doubt ends, what should have happened happens.
"""

from __future__ import annotations

import pytest

from controller.workload_informers import RETRY
from dra.kube.discovery import NEGATIVE_CACHE_SECONDS
from tests.scenarios import objects, steps
from tests.scenarios.claims import allocated, entries, listed
from tests.scenarios.eventually import eventually, steadily
from tests.scenarios.kinds import Kind
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import RESERVED_FOR, PodShape
from tests.scenarios.resources import CLAIMS, DEPLOYMENTS, PODS
from tests.scenarios.target import Capability, Mode, Target

pytestmark = [pytest.mark.modes(Mode.REPLACE), pytest.mark.usefixtures("controller")]

HEALED_WITHIN = 10.0

KIND_FOUND_WITHIN = NEGATIVE_CACHE_SECONDS + sum(RETRY) + 5.0
"""Seconds: that there is no such kind is believed for a while, since anybody may name any."""


@pytest.mark.needs(Capability.RIGHTS)
async def test_a_workload_that_may_not_be_read_keeps_its_claim_until_it_may(namespace: Namespace) -> None:
    shoals = Kind(namespace)
    await shoals.define()
    devices = await namespace.offer_devices()
    shoal = await shoals.create("herring")
    claim = objects.claim(
        "shared", device_class=devices, reserved_for=shoals.reference("herring"), uid=shoal["metadata"]["uid"]
    )
    await namespace.create(claim)
    await namespace.create(objects.pod("fish", PodShape(claim="shared")))
    await steps.pods_run(namespace, "fish")
    await steps.told(namespace, "shared", "WorkloadUnreadable")
    await steps.claim_is(
        namespace,
        "shared",
        lambda found: steps.entry(shoal, "shoals", group=shoals.group) in entries(found),
        saying="it is reserved all the same",
    )
    await shoals.delete("herring")
    await steps.end_pods(namespace, "fish")
    await steps.claim_is(namespace, "shared", lambda found: not listed(found), saying="no pod uses it")
    await steadily(lambda: _is_reserved(namespace, "shoals"), lasting=2, saying="nobody knows, so it stays reserved")

    await shoals.let_controller_read()
    await steps.freed(namespace, "shared", within=HEALED_WITHIN)


@pytest.mark.needs(Capability.RIGHTS)
async def test_a_workload_whose_uid_nobody_knows_is_entered_once_it_may_be_read(namespace: Namespace) -> None:
    shoals = Kind(namespace)
    await shoals.define()
    devices = await namespace.offer_devices()
    shoal = await shoals.create("herring")
    await namespace.create(objects.claim("shared", device_class=devices, reserved_for=shoals.reference("herring")))
    await namespace.create(objects.pod("fish", PodShape(claim="shared", gated=True)))
    await steps.pods_run(namespace, "fish")
    await steps.told(namespace, "shared", "WorkloadUnreadable")

    await shoals.let_controller_read()
    await steps.claim_is(
        namespace,
        "shared",
        lambda found: steps.entry(shoal, "shoals", group=shoals.group) in entries(found),
        within=HEALED_WITHIN,
        saying="it is reserved",
    )


@pytest.mark.long
async def test_a_workload_of_a_kind_that_comes_later_is_entered_then(namespace: Namespace) -> None:
    shoals = Kind(namespace)
    devices = await namespace.offer_devices()
    await namespace.create(objects.claim("shared", device_class=devices, reserved_for=shoals.reference("herring")))
    await namespace.create(objects.pod("fish", PodShape(claim="shared", gated=True)))
    await steps.pods_run(namespace, "fish")
    await steps.told(namespace, "shared", "WorkloadKindUnknown")

    await shoals.let_controller_read()
    await shoals.define()
    shoal = await shoals.create("herring")
    await steps.claim_is(
        namespace,
        "shared",
        lambda found: steps.entry(shoal, "shoals", group=shoals.group) in entries(found),
        within=KIND_FOUND_WITHIN,
        saying="it is reserved",
    )


async def test_a_reference_that_cannot_be_read_is_ignored_aloud(namespace: Namespace) -> None:
    devices = await namespace.offer_devices()
    await namespace.create(objects.claim("shared", device_class=devices))
    # Whoever installed deploy/policies/guards.yaml cannot create such a claim.
    await namespace.patch(CLAIMS, "shared", {"metadata": {"annotations": {RESERVED_FOR: "the Job train"}}})
    await namespace.create(objects.pod("worker", PodShape(claim="shared", gated=True, run_seconds=0)))
    await steps.told(namespace, "shared", "MalformedReference")
    await steps.pod_is(namespace, "worker", lambda pod: pod["status"]["phase"] == "Succeeded", saying="it has run")
    await steps.freed(namespace, "shared")


@pytest.mark.needs(Capability.COMPONENTS)
async def test_no_reservation_is_lost_while_the_api_server_is_away(namespace: Namespace, target: Target) -> None:
    devices = await namespace.offer_devices()
    async with namespace.history("shared") as history:
        await namespace.create(objects.claim("shared", device_class=devices, reserved_for="deployments.apps/crew"))
        await namespace.create(objects.deployment("crew", PodShape(claim="shared", gated=True)))
        await steps.pods_run(namespace)
        await steps.claim_is(namespace, "shared", lambda found: listed(found, "guards"), saying="it is guarded")
        await namespace.patch(DEPLOYMENTS, "crew", {"spec": {"replicas": 0}})
        await eventually(lambda: namespace.all(PODS), until=lambda pods: not pods, saying="its pods are gone")
        target.cluster.apiserver.restart()
        await eventually(namespace.api.is_ready, saying="the API server is back")
        await namespace.patch(DEPLOYMENTS, "crew", {"spec": {"replicas": 1}})
        await steps.pods_run(namespace, within=30)
        await steps.claim_is(
            namespace, "shared", lambda found: not listed(found), within=30, saying="its pod has started"
        )
    reserved = [bool(listed(version.object, "deployments")) for version in history.versions]
    assert all(reserved[reserved.index(True) :])


async def _is_reserved(namespace: Namespace, resource: str) -> bool:
    claim = await namespace.get(CLAIMS, "shared")
    return allocated(claim) and bool(listed(claim, resource))
