"""Rule 13: PodGroups have claims of their own, and one entry in a list stands for all their pods (KEP-5729)."""

from __future__ import annotations

from typing import Final

import pytest

from dra.engine.instants import BIND_HORIZON
from tests.scenarios import objects, steps
from tests.scenarios.api import Json
from tests.scenarios.claims import entries
from tests.scenarios.eventually import eventually, steadily
from tests.scenarios.features import Feature
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import PodShape
from tests.scenarios.resources import CLAIMS, POD_GROUPS, PODS
from tests.scenarios.target import Capability

pytestmark = [pytest.mark.needs(Capability.COMPONENTS, Feature.POD_GROUPS), pytest.mark.usefixtures("controller")]

FEW: Final = 5

FREED_WITHIN: Final = BIND_HORIZON + 10.0
"""Seconds: pods of a PodGroup are bound without a write of the claim, so a bind horizon passes after its entry."""


def names(claim: Json) -> list[str]:
    """How the list of a claim reads."""
    return [f"{entry['resource']}/{entry['name']}" for entry in entries(claim)]


async def run_pods(namespace: Namespace, shape: PodShape) -> list[str]:
    """Let pods of the group run."""
    pods = objects.pods("member", FEW, shape)
    await namespace.create_all(pods)
    found = [pod["metadata"]["name"] for pod in pods]
    await steps.pods_run(namespace, *found)
    return found


async def only_the_group(namespace: Namespace, claim: str) -> bool:
    return names(await namespace.get(CLAIMS, claim)) == ["podgroups/crew"]


async def test_a_claim_stays_reserved_for_a_group_until_that_is_gone(namespace: Namespace) -> None:
    shape = PodShape(claim="shared", group="crew")
    await namespace.create(objects.claim("shared", device_class=await namespace.offer_devices()))
    await namespace.create(objects.pod_group("crew", shape))
    pods = await run_pods(namespace, shape)
    await steadily(lambda: only_the_group(namespace, "shared"), lasting=1.0, saying="its entry is enough for all")
    for pod in pods:
        await namespace.delete(PODS, pod)
    await steadily(lambda: only_the_group(namespace, "shared"), lasting=2.0, saying="more pods may come")
    await namespace.delete(POD_GROUPS, "crew")
    await steps.freed(namespace, "shared", within=FREED_WITHIN)


async def test_a_group_gets_its_claim_and_its_pods_share_it(namespace: Namespace) -> None:
    shape = PodShape(claim_template="gpu", group="crew")
    await namespace.create(objects.claim_template("gpu", device_class=await namespace.offer_devices()))
    await namespace.create(objects.pod_group("crew", shape))
    pods = await run_pods(namespace, shape)
    (claim,) = await namespace.all(CLAIMS)
    assert [owner["kind"] for owner in claim["metadata"]["ownerReferences"]] == ["PodGroup"]
    for kind, name in [(POD_GROUPS, "crew"), *((PODS, pod) for pod in pods)]:
        (status,) = (await namespace.get(kind, name))["status"]["resourceClaimStatuses"]
        assert status["resourceClaimName"] == claim["metadata"]["name"]
    await namespace.delete(POD_GROUPS, "crew")
    for pod in pods:
        await namespace.delete(PODS, pod)
    await eventually(
        lambda: namespace.all(CLAIMS),
        until=lambda left: not left,
        within=FREED_WITHIN,
        saying="the claim went with its group",
    )


@pytest.mark.long
async def test_a_claim_that_names_a_group_gets_the_native_entry_also_if_the_group_does_not_name_the_claim(
    namespace: Namespace,
) -> None:
    shape = PodShape(claim="shared", group="crew")
    reference = "podgroups.scheduling.k8s.io/crew"
    devices = await namespace.offer_devices()
    await namespace.create(objects.claim("shared", device_class=devices, reserved_for=reference))
    group = objects.pod_group("crew", shape)
    del group["spec"]["resourceClaims"]
    made = await namespace.create(group)
    pods = await run_pods(namespace, shape)
    claim = await steps.claim_is(
        namespace, "shared", lambda found: names(found) == ["podgroups/crew"], saying="is listed"
    )
    assert entries(claim) == [steps.entry(made, "podgroups", group="scheduling.k8s.io")]
    await steps.told(namespace, "shared", "ReservedForWorkload")
    for pod in pods:
        await namespace.delete(PODS, pod)
    await steadily(lambda: only_the_group(namespace, "shared"), lasting=2.0, saying="more pods may come")
    await namespace.delete(POD_GROUPS, "crew")
    await steps.freed(namespace, "shared", within=FREED_WITHIN)


async def test_a_pod_of_a_group_that_its_kubelet_does_not_start_is_listed_itself_meanwhile(
    namespace: Namespace,
) -> None:
    shape = PodShape(claim="shared", group="crew")
    await namespace.create(objects.claim("shared", device_class=await namespace.offer_devices()))
    await namespace.create(objects.pod_group("crew", shape))
    await run_pods(namespace, shape)
    await namespace.create(objects.pod("late", PodShape(claim="shared", group="crew", hold=True)))
    await steps.claim_is(
        namespace, "shared", lambda claim: names(claim) == ["podgroups/crew", "pods/late"], saying="it is listed, too"
    )
    await namespace.patch(PODS, "late", {"metadata": {"labels": {objects.HOLD: None}}})
    await steps.pods_run(namespace, "late")
    await eventually(lambda: only_the_group(namespace, "shared"), within=60, saying="it is not needed any more")
