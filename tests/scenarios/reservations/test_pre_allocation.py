"""Pre-allocation through the real kube-scheduler, whose own fit knows nothing of it."""

from __future__ import annotations

import json
from typing import Final

from tests.scenarios.api import Api
from tests.scenarios.eventually import eventually
from tests.scenarios.reservations.test_manual import reaches, reservation, running, stranger, waits
from tests.scenarios.resources import PODS

ALLOCATED: Final = "scheduling.koordinator.sh/reservation-allocated"


async def test_a_reservation_is_placed_over_the_pod_that_fills_its_node(emptied: Api) -> None:
    """Koordinator: Available over that pod. NodeResourcesFit of kube-scheduler alone: Insufficient cpu."""
    await emptied.create(stranger("old", cpu="60", app="next", node="node-1"), namespace="default")
    await running(emptied, 1)
    over = reservation("next", cpu="60", preAllocation=True, allocatePolicy="Restricted")
    over["spec"]["template"]["spec"]["nodeName"] = "node-1"
    await emptied.create(over)
    made = await reaches(emptied, "next", "Available")
    assert made["status"]["nodeName"] == "node-1"
    assert [each["name"] for each in made["status"]["currentOwners"]] == ["old"]
    assert made["status"]["allocated"] == {"cpu": "60"}

    named = await eventually(
        lambda: emptied.get(PODS, "old", namespace="default"),
        until=lambda pod: ALLOCATED in pod["metadata"].get("annotations", {}),
        saying="the pod names its reservation",
    )
    told = json.loads(named["metadata"]["annotations"][ALLOCATED])
    assert told == {"name": "next", "uid": made["metadata"]["uid"]}

    await emptied.create(stranger("thief", cpu="8", node="node-1"), namespace="default")
    await waits(emptied, "thief", because="Insufficient cpu")
    await emptied.delete(PODS, "old", namespace="default", grace_seconds=1)
    # Pinned: as long as the pod before it is ending, the heir fits on other nodes only.
    await emptied.create(stranger("heir", cpu="60", app="next", node="node-1"), namespace="default")
    (heir,) = await running(emptied, 1, fieldSelector="status.phase=Running,metadata.name=heir")
    assert heir["spec"]["nodeName"] == "node-1"
    done = await reaches(emptied, "next", "Succeeded")
    assert [each["name"] for each in done["status"]["currentOwners"]] == ["heir"]
