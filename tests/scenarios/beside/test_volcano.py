"""Beside Volcano: gangs open their claim together, gates do not wait for each other, removed entries come back."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.scenarios import objects, steps
from tests.scenarios.audit import deallocations
from tests.scenarios.beside import kept_claims
from tests.scenarios.beside.volcano import Volcano, member
from tests.scenarios.claims import allocated, listed
from tests.scenarios.eventually import eventually, steadily
from tests.scenarios.history import WatchHistory
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import PodShape
from tests.scenarios.resources import CLAIMS, PODS
from tests.scenarios.target import Mode, Target

pytestmark = pytest.mark.usefixtures("controller")

Json = dict[str, Any]

NODE: Final = "node-000"
GATED: Final = PodShape(claim="shared", gated=True)

AT_ONCE: Final = 20.0
"""Seconds: two sessions of Volcano, and some for a busy machine; an opener's turn takes 60 without a verdict."""

UNRESERVED_FOR: Final = 30
"""Sessions in which Volcano removes the entry of a pod, one each second."""

RELISTED: Final = 6
"""Entries that come back in that time at most: after 1, 2, 4, 8 and 16 seconds, and the first one."""


async def offer_shared(namespace: Namespace, *, min_member: int) -> Volcano:
    """Create an unallocated claim, and return the scheduler that gives it a device of a node."""
    devices = await namespace.offer_devices(node=NODE)
    await namespace.create(objects.claim("shared", device_class=devices))
    return Volcano(namespace, node=NODE, devices=devices, min_member=min_member)


async def test_the_pods_of_a_gang_open_their_claim_together(namespace: Namespace) -> None:
    volcano = await offer_shared(namespace, min_member=4)
    async with volcano.running():
        await namespace.create_all(member(f"worker-{number}", GATED) for number in range(4))
        await steps.pods_run(namespace, count=4, within=AT_ONCE)


async def test_a_pod_that_joins_its_gang_late_does_not_wait_for_the_end_of_a_turn(namespace: Namespace) -> None:
    volcano = await offer_shared(namespace, min_member=4)
    async with volcano.running():
        await namespace.create_all(member(f"worker-{number}", GATED) for number in range(3))
        await eventually(lambda: _ungated(namespace), until=lambda names: len(names) == 3, saying="three are ungated")
        await steps.pod_is(namespace, "worker-0", _has_verdict, saying="Volcano has tried it")
        await namespace.create(member("late", GATED))
        await steps.pods_run(namespace, count=4, within=AT_ONCE)


async def test_volcanos_own_gate_and_ours_do_not_wait_for_each_other(namespace: Namespace) -> None:
    volcano = await offer_shared(namespace, min_member=2)
    async with volcano.running():
        await namespace.create_all(member(f"worker-{number}", GATED, queue_gate=True) for number in range(2))
        await steps.pods_run(namespace, count=2, within=AT_ONCE)


@pytest.mark.long
async def test_an_entry_that_is_removed_each_second_comes_back_ever_more_rarely(
    namespace: Namespace, target: Target
) -> None:
    """In one claim that another pod uses, and in one that is only kept for its workload."""
    node = await steps.add_node(namespace, "other")
    devices = await namespace.offer_devices(node=NODE)
    await namespace.offer_devices(node=node)
    await kept_claims.keep(namespace, "kept", devices=devices, node=node)
    await namespace.create(objects.claim("used", device_class=devices))
    await namespace.create(objects.pod("user", PodShape(claim="used", spec=steps.on(NODE))))
    await steps.pods_run(namespace, "user")
    schedulers = {
        claim: Volcano(namespace, node=where, devices=devices, min_member=2, gang=claim)
        for claim, where in (("used", NODE), ("kept", node))
    }
    async with namespace.history("used") as used, namespace.history("kept") as kept:
        for claim in schedulers:
            shape = PodShape(claim=claim, gated=True)
            await namespace.create(member(f"{claim}-0", shape, gang=claim))
        async with schedulers["used"].running(), schedulers["kept"].running():
            await eventually(
                lambda: min(scheduler.sessions for scheduler in schedulers.values()),
                until=lambda sessions: sessions >= UNRESERVED_FOR,
                within=2.0 * UNRESERVED_FOR,
                saying="Volcano has discarded the gangs again and again",
            )
            for claim in schedulers:
                await namespace.create(member(f"{claim}-1", PodShape(claim=claim, gated=True), gang=claim))
            await steps.pods_run(namespace, *(f"{claim}-{number}" for claim in schedulers for number in range(2)))
    for claim, history in (("used", used), ("kept", kept)):
        written = _times_listed(history, f"{claim}-0")
        assert 1 < written <= RELISTED + 1, f"{claim}: listed {written} times"  # and by Volcano's PreBind
        assert schedulers[claim].unreserved >= written - 2
        assert deallocations(history) == []
        assert not await steps.reasons(namespace, claim) - {"ReservedForWorkload"}
        print(
            f"\n{target.mode}, {claim}: {schedulers[claim].sessions} sessions removed {schedulers[claim].unreserved} "
            f"entries, {written} were written",
            end="",
        )


@pytest.mark.modes(Mode.REPLACE)
@pytest.mark.long
async def test_words_that_are_not_about_the_claim_end_no_turn_and_revoke_no_allocation(namespace: Namespace) -> None:
    """An opener that is not tried, one whose binding failed, and a gang that is not complete beside a free node."""
    own = await steps.add_node(namespace, "own")
    devices = await namespace.offer_devices(node=own)
    await namespace.offer_devices(4, node=NODE)
    await kept_claims.keep(namespace, "kept", devices=devices, node=own)
    words = {
        "Schedulable": "can possibly be assigned to node-000, once minAvailable is satisfied",
        "SchedulerError": "binding rejected: the API server did not answer",
    }
    for number, reason in enumerate(words):
        await namespace.create(objects.claim(f"open-{number}", device_class=devices))
        shape = PodShape(claim=f"open-{number}", gated=True)
        await namespace.create(member(f"opener-{number}", shape, gang=f"opener-{number}"))
        await steps.pod_is(namespace, f"opener-{number}", lambda pod: not steps.gates(pod), saying="it is the opener")
        await say(namespace, f"opener-{number}", reason, words[reason])
        await namespace.create(member(f"other-{number}", shape, gang=f"other-{number}"))
    for number, message in enumerate(GANG_TEXTS):
        await namespace.create(member(f"untried-{number}", PodShape(claim="kept"), gang="untried"))
        await say(namespace, f"untried-{number}", "Unschedulable", message)

    async def as_it_was() -> bool:
        ungated = await _ungated(namespace)
        return not {"other-0", "other-1"} & ungated and allocated(await namespace.get(CLAIMS, "kept"))

    await steadily(as_it_was, lasting=45, saying="no turn has ended, and the allocation stays")
    assert "AllocationStuck" not in await steps.reasons(namespace, "kept")


GANG_TEXTS: Final = (
    "pod group is not ready, 3 Pending, 4 minAvailable",
    "all nodes are unavailable",
    "queue resource quota insufficient",
)


async def say(namespace: Namespace, pod: str, reason: str, message: str) -> None:
    """Write a verdict of a scheduler."""
    said = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
    await namespace.patch_status(PODS, pod, {"conditions": [said]}, kind="strategic-merge-patch")


def _has_verdict(pod: Json) -> bool:
    return any(each["type"] == "PodScheduled" for each in pod["status"].get("conditions", ())) and not steps.gates(pod)


async def _ungated(namespace: Namespace) -> set[str]:
    return {pod["metadata"]["name"] for pod in await namespace.all(PODS) if not steps.gates(pod)}


def _times_listed(history: WatchHistory, pod: str) -> int:
    """Return how often an entry of the pod has appeared."""
    there = [pod in listed(version.object) for version in history.versions]
    return sum(now and not before for before, now in zip([False, *there], there, strict=False))
