"""Rule 13: what the stock claim controller does besides, in mode replace: claims from templates, from first to last.

That it is the same in all odd cases, test_differential shows.
"""

from __future__ import annotations

import pytest

from tests.scenarios import objects, steps
from tests.scenarios.claims import started
from tests.scenarios.controller import Controller
from tests.scenarios.eventually import eventually, steadily
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import Json, PodShape
from tests.scenarios.resources import CLAIMS, PODS
from tests.scenarios.target import Mode

pytestmark = pytest.mark.modes(Mode.REPLACE)

SHAPE = PodShape(claim_template="gpu")

OWNER = 'owner_api_group="",owner_api_kind="Pod"'
CREATED = (
    'resourceclaim_controller_creates_total{admin_access="false",status="success"}',
    f'dynamic_resource_allocation_resourceclaim_creates_total{{admin_access="false",{OWNER},status="success"}}',
)
"""One count of created claims, as kube-controller-manager names it up to 1.36 and from 1.37 on."""


def template(devices: str) -> Json:
    """A template whose claims bear a label and an annotation."""
    made = objects.claim_template("gpu", device_class=devices)
    made["spec"]["metadata"] = {"labels": {"team": "blue"}, "annotations": {"note": "kept"}}
    return made


async def claims_of(namespace: Namespace, pod: Json) -> list[Json]:
    """Return the claims that the pod owns."""
    return [
        claim
        for claim in await namespace.all(CLAIMS)
        if any(owner["uid"] == pod["metadata"]["uid"] for owner in claim["metadata"].get("ownerReferences", ()))
    ]


async def recorded(namespace: Namespace, pod: str) -> str:
    """Wait for the pod's status to name the claim that was made for it, and return the name."""
    found = await eventually(
        lambda: namespace.get(PODS, pod),
        until=lambda pod: bool(pod["status"].get("resourceClaimStatuses")),
        saying=f"the status of pod {pod} names its claim",
    )
    (status,) = found["status"]["resourceClaimStatuses"]
    name: str = status["resourceClaimName"]
    return name


async def test_a_pod_gets_its_claim_and_the_claim_goes_when_the_pod_has_ended(
    namespace: Namespace, controller: Controller
) -> None:
    devices = await namespace.offer_devices()
    await namespace.create(template(devices))
    pod = await namespace.create(objects.pod("user", SHAPE))
    claim = await namespace.get(CLAIMS, await recorded(namespace, "user"))
    meta = claim["metadata"]
    entry = pod["spec"]["resourceClaims"][0]["name"]
    assert meta["generateName"] == f"user-{entry}-"
    assert meta["labels"] == {"team": "blue"}
    assert meta["annotations"] == {"note": "kept", "resource.kubernetes.io/pod-claim-name": entry}
    assert [(owner["kind"], owner["name"], owner["controller"]) for owner in meta["ownerReferences"]] == [
        ("Pod", "user", True)
    ]
    found = await namespace.get(PODS, "user")
    assert "ResourceClaimController" in {field["manager"] for field in found["metadata"]["managedFields"]}
    await steps.pods_run(namespace, "user")

    await steps.end_pods(namespace, "user")
    await eventually(
        lambda: claims_of(namespace, pod), until=lambda claims: not claims, saying="the claim is gone, its pod is not"
    )
    await steadily(lambda: _no_claims(namespace, pod), lasting=2.0, saying="nobody makes it again")
    metrics = await controller.metrics()
    before, since_1_37 = (metrics[series] for series in CREATED)
    assert before == since_1_37 >= 1


async def _no_claims(namespace: Namespace, pod: Json) -> bool:
    return not await claims_of(namespace, pod)


@pytest.mark.usefixtures("controller")
async def test_a_template_may_come_later(namespace: Namespace) -> None:
    devices = await namespace.offer_devices()
    await namespace.create(objects.pod("user", SHAPE))
    await steps.told(namespace, "user", "FailedResourceClaimCreation")
    await namespace.create(template(devices))
    await steps.pods_run(namespace, "user")


@pytest.mark.usefixtures("controller")
async def test_a_claim_that_somebody_deletes_is_made_again(namespace: Namespace) -> None:
    devices = await namespace.offer_devices()
    await namespace.create(template(devices))
    held = PodShape(claim_template="gpu", spec={"schedulingGates": [{"name": "example.com/later"}]})
    await namespace.create(objects.pod("user", held))
    first = await recorded(namespace, "user")
    await namespace.delete(CLAIMS, first)
    await eventually(
        lambda: recorded(namespace, "user"), until=lambda name: name != first, saying="the status names another claim"
    )
    await namespace.patch(PODS, "user", {"spec": {"schedulingGates": None}})
    await steps.pods_run(namespace, "user")


async def test_a_claim_that_was_made_and_not_recorded_is_taken(namespace: Namespace, controller: Controller) -> None:
    devices = await namespace.offer_devices()
    await namespace.create(template(devices))
    await controller.stop()
    pod = await namespace.create(objects.pod("user", SHAPE))
    orphan = objects.claim("orphan", device_class=devices)
    meta = pod["metadata"]
    orphan["metadata"] |= {
        "annotations": {"resource.kubernetes.io/pod-claim-name": pod["spec"]["resourceClaims"][0]["name"]},
        "ownerReferences": [
            {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"], "controller": True}
        ],
    }
    await namespace.create(orphan)
    await controller.start()
    assert await recorded(namespace, "user") == "orphan"
    await eventually(lambda: namespace.get(PODS, "user"), until=started, saying="the pod runs with it")
    assert len(await claims_of(namespace, pod)) == 1


@pytest.mark.usefixtures("controller")
async def test_pods_with_templates_start_as_they_do_with_the_stock_controller(namespace: Namespace) -> None:
    devices = await namespace.offer_devices(count=20)
    await namespace.create(template(devices))
    await namespace.create_all(objects.pods("user", 20, SHAPE))
    await steps.pods_run(namespace)
    await steps.end_pods(namespace, *(f"user-{number}" for number in range(20)))
    await eventually(lambda: namespace.all(CLAIMS), until=lambda claims: not claims, saying="all claims are gone")
