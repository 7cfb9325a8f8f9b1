"""waitForPodsReady beside a full list: Kueue evicts a group whose pods we hold back, and its replacements run.

The pods of a round never get Ready, as while an image is pulled; so the list is full of pods that hold their slots, and
the rest waits behind our gate. Kueue's clock runs for all of them. The evicted pods stay in the API behind Kueue's
finalizer until others have taken their place: entries of such pods would keep the list full for ever.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.scenarios import objects, steps
from tests.scenarios.audit import assert_pods_kept_their_devices
from tests.scenarios.beside.gates import assert_gates_only_leave
from tests.scenarios.beside.pod_groups import PodGroup
from tests.scenarios.claims import bound, entries, finished
from tests.scenarios.eventually import eventually
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import PodShape
from tests.scenarios.resources import CLAIMS, PODS
from tests.scenarios.target import Mode, Target

if TYPE_CHECKING:
    from tests.scenarios.history import WatchHistory

Json = dict[str, Any]

SLOTS: Final = {Mode.REPLACE: 239, Mode.ALONGSIDE: 255}
"""Slots for pods of a claim without a workload: one is a guard's; in mode replace 16 more are the scheduler's."""

ROUNDS: Final = 3
"""Evictions in a row."""

FREED_WITHIN: Final = 30.0
"""Seconds from the last eviction until no entry of an evicted pod is in the list; on a busy machine, of 300 pods."""


@pytest.mark.parametrize(
    ("pods", "foreign"),
    [pytest.param(75, 200, id="75-pods-for-55-slots"), pytest.param(300, 0, id="300-pods", marks=pytest.mark.long)],
)
@pytest.mark.usefixtures("controller")
async def test_replacements_of_an_evicted_group_run(
    namespace: Namespace, target: Target, pods: int, foreign: int
) -> None:
    devices = await namespace.offer_devices()
    await namespace.create(objects.claim("shared", device_class=devices))
    others = [steps.foreign_entry(f"foreign-{number}") for number in range(foreign)]
    if others:
        await steps.allocate(namespace, "shared", devices=devices, pool=f"{namespace.name}-shared")
        await steps.list_too(namespace, "shared", *others)
    slots = SLOTS[target.mode] - foreign
    never_ready = PodShape(claim="shared", gated=True, hold=True)
    group = PodGroup(namespace, "group", count=pods)
    async with namespace.history("shared") as claim, namespace.history("", resource=PODS) as seen:
        for number in range(ROUNDS):
            await group.create(never_ready)
            await group.admit()
            began = time.monotonic()
            await eventually(
                lambda: bound_of(namespace, group),
                until=lambda count: count == slots,
                within=120,
                saying=f"round {number}: {slots} of {pods} pods are bound, the others wait",
            )
            took = time.monotonic() - began
            evicted = group.uids
            last = await group.evict()
            gone = await without(claim, namespace, evicted, since=last)
            print(
                f"\n{target.mode}, round {number}: {slots} bound in {took:.1f} s; entries gone in {gone:.1f} s", end=""
            )
            assert gone < FREED_WITHIN
        await group.create(PodShape(claim="shared", gated=True, run_seconds=1))
        await group.admit()
        if others:  # beside them no claim is freed, and finished pods keep their entries in mode alongside
            await steps.unlist(namespace, "shared", *(each["uid"] for each in others))
        await eventually(
            lambda: namespace.all(PODS),
            until=lambda found: sum(map(finished_well, found)) == pods,
            within=240,
            saying="all replacements have run and ended",
        )
        await group.finish()
        await steps.freed(namespace, "shared")
    steps.assert_bounded(claim)
    assert_gates_only_leave(seen)
    # More than the slots: entries of evicted pods go while others are still being evicted.
    assert assert_pods_kept_their_devices(claim, seen, "shared") >= ROUNDS * slots + pods


def finished_well(pod: Json) -> bool:
    """Tell whether a pod has run to its end; those that were evicted have failed, or never ran."""
    return finished(pod) and pod["status"]["phase"] == "Succeeded"


async def bound_of(namespace: Namespace, group: PodGroup) -> int:
    found = await namespace.all(PODS)
    return sum(bound(pod) for pod in found if pod["metadata"]["uid"] in group.uids)


async def without(claim: WatchHistory, namespace: Namespace, uids: set[str], *, since: float) -> float:
    """Wait until the list has no entry of these pods; return how long after a moment that was."""

    def still_listed(found: Json) -> set[str]:
        return uids & {each["uid"] for each in entries(found)}

    await eventually(
        lambda: namespace.get(CLAIMS, "shared"),
        until=lambda found: not still_listed(found),
        saying="no evicted pod is listed",
    )
    await claim.catch_up()
    listed = [version.received for version in claim.versions if still_listed(version.object)]
    later = [version.received for version in claim.versions if version.received > max(listed)]
    return max(min(later) - since, 0.0)
