"""Extenders of two builds on one API server, each binding in turn: what one has allocated, the other one counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.older_build.parts import CONTROLLER, EXTENDER, Pair, Part, Place, Service, pair
from tests.scenarios import objects, steps
from tests.scenarios.claims import bound
from tests.scenarios.eventually import eventually
from tests.scenarios.objects import PodShape
from tests.scenarios.reservations.migrations import SCHEDULER
from tests.scenarios.reservations.test_devices import waits
from tests.scenarios.reservations.test_manual import reaches, reservation
from tests.scenarios.resources import PODS, RESERVATIONS

if TYPE_CHECKING:
    from tests.older_build.builds import Build
    from tests.scenarios.namespaces import Namespace

pytestmark = [pytest.mark.slow, pytest.mark.long]

Json = dict[str, Any]

NODE_CPUS: Final = 64
ROOM: Final = 4
ALLOCATED: Final = "scheduling.koordinator.sh/reservation-allocated"
MUST: Final = {"scheduling.koordinator.sh/reservation-affinity": "{}"}
NOBODY: Final = "no-such-scheduler"


async def test_extenders_of_both_builds_bind_in_turn(
    place: Place, namespace: Namespace, older: Build, newer: Build
) -> None:
    async with (
        pair(CONTROLLER, place, newer, configuration={"mode": "replace", "reservations": True}) as controller,
        pair(EXTENDER, place, older, newer) as extenders,
        Service(place.extender_port, extenders.leader, extenders.standby).running(),
    ):
        await controller.leader.start(leading=True)
        await extenders.start()
        room = Room(namespace)
        await room.open()
        for number, by_crash in enumerate((False, False, True, True)):
            await room.is_served(number, f"{extenders.leader} binds")
            await answer_alike(extenders, await room.asking())
            await extenders.hand_over(by_crash=by_crash)
            await room.is_untouched(f"{extenders.leader} has taken over")
        await room.is_served(4, f"{extenders.leader} binds")
        await room.close()


class Room:
    """A Reservation of 4 CPUs, of which one owner keeps 2, and a pod that would only fit if nothing were held."""

    def __init__(self, namespace: Namespace) -> None:
        self._namespace: Final = namespace
        self._name: Final = f"{namespace.name}-room"
        self._node = ""
        self._stays = ""

    async def open(self) -> None:
        """Reserve, and let the first owner in."""
        namespace = self._namespace
        made = reservation(self._name, cpu=str(ROOM), allocateOnce=False, allocatePolicy="Restricted")
        made["spec"]["template"]["spec"] |= {"schedulerName": SCHEDULER, **objects.ON_SOUND_NODES}
        await namespace.api.create(made)
        self._node = (await reaches(namespace.api, self._name, "Available"))["status"]["nodeName"]
        await namespace.create(self._pod("stays", cpu=2, app=self._name))
        await steps.pods_run(namespace, "stays")
        self._stays = (await namespace.get(PODS, "stays"))["metadata"]["uid"]
        on_node = {"nodeSelector": {"kubernetes.io/hostname": self._node}}
        await namespace.create(self._pod("stranger", cpu=NODE_CPUS - ROOM + 1, app="stranger", **on_node))
        await namespace.create(self._pod("undecided", cpu=1, app=self._name, schedulerName=NOBODY))
        await waits(namespace, "stranger")

    async def is_served(self, number: int, when: str) -> None:
        """Assert that one more owner enters, that the next one waits until there is room again, and who is counted."""
        namespace, owner, late = self._namespace, f"owner-{number}", f"late-{number}"
        await namespace.create(self._pod(owner, cpu=2, app=self._name))
        await steps.pods_run(namespace, owner)
        assert ALLOCATED in (await namespace.get(PODS, owner))["metadata"]["annotations"], f"{when}: {owner} is outside"
        await namespace.create(self._pod(late, cpu=2, app=self._name, must=True))
        await waits(namespace, late)
        await self._counts("stays", owner, when=when)
        await namespace.delete(PODS, owner, grace_seconds=1)
        await steps.pods_run(namespace, late)
        await self._counts("stays", late, when=when)
        await namespace.delete(PODS, late, grace_seconds=1)
        await self._counts("stays", when=when)
        await self.is_untouched(when)

    async def is_untouched(self, when: str) -> None:
        """Assert that the owner that stays is the same one, and that nobody else has got what is held."""
        stays = await self._namespace.get(PODS, "stays")
        assert (stays["metadata"]["uid"], stays["status"]["phase"]) == (self._stays, "Running"), (
            f"{when}: owner is gone"
        )
        assert not bound(await self._namespace.get(PODS, "stranger")), f"{when}: what is held was given away"

    async def asking(self) -> list[Json]:
        """Return pods that a scheduler may ask about: inside, outside, and one that is not decided."""
        return [await self._namespace.get(PODS, name) for name in ("stays", "stranger", "undecided")]

    async def close(self) -> None:
        """End the Reservation: what it held is free at once."""
        await self._namespace.delete(PODS, "stays", grace_seconds=1)
        await self._namespace.api.delete(RESERVATIONS, self._name)
        await steps.pods_run(self._namespace, "stranger")

    async def _counts(self, *owners: str, when: str) -> None:
        await eventually(
            lambda: self._namespace.api.get(RESERVATIONS, self._name),
            until=lambda found: (
                {each["name"] for each in found["status"].get("currentOwners", ())} == set(owners)
                and found["status"].get("allocated", {}).get("cpu") == str(2 * len(owners))
            ),
            saying=f"{when}: the Reservation counts {', '.join(owners)}",
        )

    def _pod(self, name: str, *, cpu: int, app: str, must: bool = False, **spec: Any) -> Json:
        shape = PodShape(
            labels={"app": app}, annotations=MUST if must else {}, spec={"schedulerName": SCHEDULER, **spec}
        )
        made = objects.pod(name, shape)
        made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": str(cpu)}}
        return made


async def answer_alike(extenders: Pair, pods: list[Json]) -> None:
    """Assert that both builds, asked about the same pods at the same time, give the scheduler the same answers."""

    async def alike() -> bool:
        one, other = [await answers(each, pods) for each in (extenders.leader, extenders.standby)]
        differ = {name: (one[name], other[name]) for name in one if one[name] != other[name]}
        assert not differ, f"answers of {extenders.leader} and of {extenders.standby}, by pod: {differ}"
        return True

    await eventually(alike, within=10, saying="both extenders answer alike")


async def answers(extender: Part, pods: list[Json]) -> dict[str, Any]:
    """Return the decisions of an extender about pods: which nodes, how good, and whether preemption may help."""
    nodes = ["node-1", "node-2", "node-3"]
    found: dict[str, Any] = {}
    for pod in pods:
        filtered = await extender.ask("filter", {"Pod": pod, "NodeNames": nodes})
        scores = await extender.ask("prioritize", {"Pod": pod, "NodeNames": nodes})
        victims = {"Pods": [{"UID": pods[0]["metadata"]["uid"]}], "NumPDBViolations": 0}
        preempting = {"Pod": pod, "NodeNameToMetaVictims": dict.fromkeys(nodes, victims)}
        preempted = await extender.ask("preempt", preempting)
        found[pod["metadata"]["name"]] = {
            "nodes": sorted(filtered["NodeNames"]),
            "not now": sorted(filtered["FailedNodes"]),
            "never": sorted(filtered["FailedAndUnresolvableNodes"]),
            "scores": {each["Host"]: each["Score"] for each in scores},
            "victims": preempted["NodeNameToMetaVictims"],
        }
    return found
