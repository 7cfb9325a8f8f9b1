"""Random histories with faults: never more than a node has, never a stranger inside, nothing for once used twice.

What is checked is what the API server holds at each moment, whatever anybody believes.
"""

import asyncio
from fractions import Fraction

import pytest

from dra.local.faults import Fault, Rule
from dra.model import quantities
from tests.controller.reservations.site import PODS, RESERVATIONS, Site
from tests.dra.kube.virtual import seeded

NODES = {"n1": "8", "n2": "8"}
STEPS = 60
FAULTS = (
    *(
        Rule(fault=fault, component="extender", resource=resource, probability=0.08, seconds=3.0)
        for fault in (Fault.LOST, Fault.ERROR, Fault.CONFLICT, Fault.DELAY)
        for resource in ("pods/binding", "reservations.*/status", "reservations.*")
        if not (fault is Fault.CONFLICT and resource == "pods/binding")
    ),
    Rule(fault=Fault.DELAY, component="extender", verb="watch", probability=0.2, seconds=1.0),
    Rule(fault=Fault.BREAK, component="extender", verb="watch", probability=0.02),
    Rule(fault=Fault.CONFLICT, component="controller", resource="reservations.*/status", probability=0.1),
    Rule(fault=Fault.LOST, component="controller", resource="*", verb="patch", probability=0.05),
)


def cpus(pod):
    return sum(
        (quantities.parse(each["resources"]["requests"]["cpu"]) for each in pod["spec"]["containers"]), Fraction(0)
    )


class Watcher:
    """Says what is wrong with what the server holds."""

    def __init__(self):
        self.entered = {}
        """Reservation for once → the pods that were ever bound into it."""

    async def look(self, site):
        pods = [pod for pod in await site.pods() if not pod["metadata"]["name"].startswith("reservation-")]
        alive = [
            pod for pod in pods if pod["spec"].get("nodeName") and pod["status"]["phase"] not in {"Succeeded", "Failed"}
        ]
        found = {each["metadata"]["uid"]: each for each in await site.reservations()}
        inside = {}
        for pod in pods:
            told = pod["metadata"].get("annotations", {}).get("scheduling.koordinator.sh/reservation-allocated")
            if told is None or not pod["spec"].get("nodeName"):
                continue
            uid = told.partition('"uid":"')[2].rstrip('"}')
            name = told.partition('"name":"')[2].partition('"')[0]
            inside[pod["metadata"]["uid"]] = uid
            assert pod["metadata"]["labels"].get("app") == name, f"a stranger is in {name}"
            if uid in found and found[uid]["spec"]["allocateOnce"]:
                self.entered.setdefault(uid, set()).add(pod["metadata"]["uid"])
        for uid, ever in self.entered.items():
            assert len(ever) == 1, f"{uid} is for once and was used by {ever}"
        for node, capacity in NODES.items():
            here = [pod for pod in alive if pod["spec"]["nodeName"] == node]
            held = [
                each
                for each in found.values()
                if each.get("status", {}).get("phase") == "Available" and each["status"].get("nodeName") == node
            ]
            kept = {each["metadata"]["uid"] for each in held}
            charge = sum((cpus(pod) for pod in here if inside.get(pod["metadata"]["uid"]) not in kept), Fraction(0))
            for each in held:
                consumed = sum(
                    (cpus(pod) for pod in here if inside.get(pod["metadata"]["uid"]) == each["metadata"]["uid"]),
                    Fraction(0),
                )
                charge += max(quantities.parse(each["status"]["allocatable"]["cpu"]), consumed)
            assert charge <= int(capacity), f"{node}: {charge} of {capacity}"


async def step(site, chance, number):  # noqa: C901, PLR0912 - a list
    """Do one thing that people do."""
    match chance.choice(
        ["reserve", "owner", "owner", "stranger", "finish", "finish", "delete", "drop", "resize", "restart", "wait"]
    ):
        case "reserve":
            await site.reserve(
                f"r{number}",
                str(chance.randint(1, 5)),
                allocateOnce=chance.random() < 0.5,
                ttl=chance.choice(["20s", "1h"]),
                **chance.choice([{}, {"allocatePolicy": "Restricted"}]),
            )
        case "owner":
            names = [each["metadata"]["name"] for each in await site.reservations()] or ["r0"]
            await site.pod(f"p{number}", str(chance.randint(1, 4)), app=chance.choice(names))
        case "stranger":
            await site.pod(f"p{number}", str(chance.randint(1, 4)), app="stranger")
        case "finish" | "delete" as what:
            mine = [pod["metadata"]["name"] for pod in await site.pods() if pod["metadata"]["name"].startswith("p")]
            if mine and what == "finish":
                name = chance.choice(mine)
                if await site.node_of(name):
                    await site.finish(name)
            elif mine:
                await site.delete(f"{PODS}/{chance.choice(mine)}")
        case "drop":
            names = [each["metadata"]["name"] for each in await site.reservations()]
            if names and chance.random() < 0.4:
                await site.delete(f"{RESERVATIONS}/{chance.choice(names)}")
        case "resize":
            names = [each["metadata"]["name"] for each in await site.reservations()]
            if names:
                text = f'{{"resources":{{"cpu":"{chance.randint(1, 6)}"}}}}'
                annotations = {"scheduling.koordinator.sh/reservation-resize-allocatable": text}
                path = f"{RESERVATIONS}/{chance.choice(names)}"
                await site.ask("PATCH", path, {"metadata": {"annotations": annotations}})
        case "restart":
            if chance.random() < 0.4:
                await site.stop_extender()
                await site.start_extender()
        case _:
            await asyncio.sleep(chance.uniform(0.0, 12.0))


async def play(seed):
    chance, watcher = seeded(seed), Watcher()
    async with Site(nodes=NODES, seed=seed, rules=FAULTS) as site:
        for number in range(STEPS):
            await step(site, chance, number)
            await asyncio.sleep(chance.uniform(0.0, 0.5))
            turn = asyncio.ensure_future(site.turn(chance=chance))
            if chance.random() < 0.1 and site.extender is not None:
                await asyncio.sleep(chance.uniform(0.0, 0.3))
                await site.stop_extender()  # in the middle of calls
                await turn
                await site.start_extender()
            await turn
            await watcher.look(site)
        site.faults.set([])
        await asyncio.sleep(90.0)
        await site.turn()
        await asyncio.sleep(90.0)
        await watcher.look(site)
        await calm(site)


async def calm(site):
    """When nothing fails any more, each status says who is there, and no doubt is left."""
    pods = {pod["metadata"]["uid"]: pod for pod in await site.pods()}
    for each in await site.reservations():
        status = each.get("status", {})
        if status.get("phase") == "Available":
            for owner in status.get("currentOwners", ()):
                pod = pods[owner["uid"]]
                assert pod["spec"].get("nodeName") == status["nodeName"]
                assert pod["status"]["phase"] not in {"Succeeded", "Failed"}
    assert len(site.extender._doubts) == 0


@pytest.mark.parametrize("seed", [*range(6), 382])  # 382: see test_roster
async def test_nothing_is_given_out_twice(seed):
    await play(seed)
