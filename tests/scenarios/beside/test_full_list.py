"""A full list beside cluster autoscaler: which pods its simulation can place while more pods wait than have entries."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.scenarios import objects, steps
from tests.scenarios.beside.claim_snapshot import ClaimSnapshot
from tests.scenarios.claims import bound, entries
from tests.scenarios.eventually import eventually
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import PodShape
from tests.scenarios.resources import CLAIMS, PODS
from tests.scenarios.target import Mode, Target

Json = dict[str, Any]

FOREIGN: Final = 200
"""Entries of others: with them a list is full of 56 pods instead of 256."""

WAITING: Final = 75

FREE: Final = {Mode.REPLACE: 17, Mode.ALONGSIDE: 1}
"""Free entries while the list is full: one for a guard, and in mode replace 16 for the scheduler's own writes."""


@pytest.mark.usefixtures("controller")
async def test_made_up_pods_find_as_many_entries_as_the_mode_leaves_free(namespace: Namespace, target: Target) -> None:
    devices = await namespace.offer_devices()
    await namespace.create(objects.claim("shared", device_class=devices))
    await steps.allocate(namespace, "shared", devices=devices, pool=f"{namespace.name}-shared")
    await steps.list_too(namespace, "shared", *(steps.foreign_entry(f"other-{number}") for number in range(FOREIGN)))
    await namespace.create_all(objects.pods("worker", WAITING, PodShape(claim="shared", gated=True, hold=True)))
    room = 256 - FOREIGN - FREE[target.mode]
    await eventually(
        lambda: namespace.all(PODS),
        until=lambda pods: sum(map(bound, pods)) == room,
        saying=f"{room} of {WAITING} pods are bound, the others wait for an entry",
    )
    claim = await namespace.get(CLAIMS, "shared")
    assert len(entries(claim)) == FOREIGN + room
    pods = await namespace.all(PODS)
    assert ClaimSnapshot(claim).place(filter(bound, pods)) == room, "pods with an entry pass, whatever else is listed"
    assert ClaimSnapshot(claim).place_made_up_pods() == FREE[target.mode]
