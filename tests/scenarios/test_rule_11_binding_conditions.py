"""Rule 11: beside the stock components, a claim that nobody reserved with us is freed as fast as without us.

A device with binding conditions (KEP-5007) that reports a failure: kube-scheduler takes the pod off the list, and frees
the claim in its next cycle, unless another entry is in the list.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from tests.scenarios import objects
from tests.scenarios.eventually import eventually
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import PodShape
from tests.scenarios.resources import CLAIMS
from tests.scenarios.target import Capability, Mode

pytestmark = [pytest.mark.modes(Mode.ALONGSIDE), pytest.mark.needs(Capability.COMPONENTS)]

WITHIN = 25.0
"""Seconds; a guard would stay for 70. The stock scheduler alone takes two to four, and longer on a busy machine."""

FAILED = "scenario.dra/failed"


@pytest.mark.usefixtures("controller")
async def test_a_claim_whose_device_fails_to_bind_is_allocated_anew(namespace: Namespace) -> None:
    driver = f"{namespace.name}.scenario.dra"
    offer = objects.resource_slice(namespace.name, driver=driver, devices=["slow"])
    (device,) = offer["spec"]["devices"]
    device |= {
        "bindsToNode": True,
        "bindingConditions": ["scenario.dra/attached"],
        "bindingFailureConditions": [FAILED],
    }
    await namespace.create(objects.device_class(driver, driver=driver))
    await namespace.create(offer)
    await namespace.create(objects.claim("attach", device_class=driver))
    await namespace.create(objects.pod("attaching", PodShape(claim="attach")))
    look = partial(namespace.get, CLAIMS, "attach")
    first = await eventually(look, until=_allocated_at, saying="the claim is allocated")

    condition = {"type": FAILED, "status": "True", "reason": "NoSuchCard", "message": "it is broken"}
    at = {"lastTransitionTime": _allocated_at(first)}
    status = {"driver": driver, "pool": namespace.name, "device": "slow", "conditions": [condition | at]}
    await namespace.patch_status(CLAIMS, "attach", {"devices": [status]})
    await eventually(
        look,
        until=lambda claim: _allocated_at(claim) not in {"", _allocated_at(first)},
        within=WITHIN,
        saying="the scheduler has allocated it anew",
    )


def _allocated_at(claim: dict[str, Any]) -> str:
    allocation = claim.get("status", {}).get("allocation") or {}
    return str(allocation.get("allocationTimestamp", ""))
