"""`kubectl dra simulate` says where Reservations and pods then go, beside a scheduler that asks our extender.

Random cases: Reservations of several sizes, for one owner or for several, then pods that own one and pods that do not.
Before each object it is asked what becomes of it, and then seen.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.scenarios import simulated, steps
from tests.scenarios.eventually import eventually
from tests.scenarios.reservations.conftest import NODES
from tests.scenarios.reservations.test_manual import reservation, stranger
from tests.scenarios.resources import PODS, RESERVATIONS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.scenarios.api import Api
    from tests.scenarios.target import Target

Json = dict[str, Any]

INSIDE: Final = "scheduling.koordinator.sh/reservation-allocated"
APPS: Final = ("r0", "r1", "r1", "stranger")


@dataclass(slots=True)
class Verdicts:
    """What came of all cases."""

    counts: Counter[str] = field(default_factory=Counter)
    told: list[str] = field(default_factory=list)

    def compare(self, what: str, said: tuple[bool, str], happened: tuple[bool, str]) -> None:
        """Note what was otherwise."""
        if said != happened:
            self.told.append(f"{what}: said {said}, and {happened} was so")


async def _played(target: Target, api: Api, chance: Random, name: str, verdicts: Verdicts) -> None:
    for number in range(2):
        made = reservation(
            f"r{number}", cpu=str(chance.choice((10, 20, 40, 40, 70))), allocateOnce=chance.random() < 0.4, ttl="0s"
        )
        if chance.random() < 0.4:
            made["spec"]["allocatePolicy"] = chance.choice(("Aligned", "Restricted"))
        if chance.random() < 0.3:
            made["spec"]["template"]["spec"]["nodeName"] = chance.choice(NODES)
        said = simulated.simulate_pod(await simulated.look(target.admin, nodes=NODES), made, namespace="default")
        await api.create(made)
        found = await eventually(
            partial(api.get, RESERVATIONS, f"r{number}"), until=_placed_or_refused, within=30, saying="it has a place"
        )
        node = found["status"].get("nodeName", "")
        verdicts.compare(f"{name}, reservation r{number}", (bool(said.node), ""), (bool(node), ""))
        verdicts.counts["reservations placed" if node else "reservations wait"] += 1
        if not node:
            await api.delete(RESERVATIONS, f"r{number}")
        await _no_placeholder(api)
    for number in range(chance.randint(4, 6)):
        await _pod_comes(target, api, chance, f"p{number}", name, verdicts)


async def _pod_comes(target: Target, api: Api, chance: Random, pod: str, name: str, verdicts: Verdicts) -> None:
    cpu, app = chance.choice((5, 10, 20, 40, 60)), chance.choice(APPS)
    # A node with a reservation that is too small for its owner scores as nodes without one, and kube-scheduler draws
    # among equals. With a node selector there is one answer.
    drawn = app != "stranger" and not await _has_free(api, app, cpu)
    node = chance.choice(NODES) if drawn or chance.random() < 0.4 else ""
    made = stranger(pod, cpu=str(cpu), app=app, node=node)
    said = simulated.simulate_pod(await simulated.look(target.admin, nodes=NODES), made, namespace="default")
    await api.create(made, namespace="default")
    found = await eventually(
        partial(api.get, PODS, pod, namespace="default"), until=_settled, within=30, saying=f"pod {pod} is decided"
    )
    bound = bool(found["spec"].get("nodeName"))
    inside = json.loads(found["metadata"].get("annotations", {}).get(INSIDE, "{}")).get("name", "")
    verdicts.compare(f"{name}, pod {pod}", (bool(said.node), said.used_reservation), (bound, inside))
    verdicts.counts["pods in reservations" if inside else "pods placed" if bound else "pods wait"] += 1
    if not bound:
        await api.delete(PODS, pod, namespace="default", grace_seconds=1)
    if inside:
        await eventually(
            partial(api.get, RESERVATIONS, inside), until=partial(_names, pod=pod), saying=f"{inside} names {pod}"
        )


async def _has_free(api: Api, name: str, cpu: int) -> bool:
    found = await api.find(RESERVATIONS, name)
    if found is None or found["status"]["phase"] != "Available":
        return False
    allocatable, allocated = (found["status"].get(key, {}).get("cpu", "0") for key in ("allocatable", "allocated"))
    return int(allocated) + cpu <= int(allocatable)


def _placed_or_refused(found: Json) -> bool:
    status = found.get("status", {})
    refused = any(each["type"] == "Scheduled" and each["status"] == "False" for each in status.get("conditions", ()))
    return status.get("phase") == "Available" or refused


def _settled(pod: Json) -> bool:
    return pod["status"]["phase"] == "Running" if pod["spec"].get("nodeName") else steps.unschedulable(pod)


def _names(found: Json, *, pod: str) -> bool:
    named = {each["name"] for each in found["status"].get("currentOwners", ())}
    once = found["spec"].get("allocateOnce", True)
    return pod in named and (not once or found["status"]["phase"] == "Succeeded")


async def _no_placeholder(api: Api) -> None:
    async def gone() -> bool:
        pods = await api.all(PODS, namespace="default")
        return not any(each["metadata"]["name"].startswith("reservation-") for each in pods)

    await eventually(gone, within=30, saying="the placeholder is gone")


async def _emptied(api: Api) -> None:
    for each in await api.all(RESERVATIONS):
        await api.delete(RESERVATIONS, each["metadata"]["name"])
    await api.delete_collection(PODS, namespace="default", grace_seconds=0)

    async def gone() -> bool:
        return not await api.all(PODS, namespace="default") and not await api.all(RESERVATIONS)

    await eventually(gone, within=30, saying="nothing is left of the case")


@pytest.mark.parametrize("count", [pytest.param(1, id="some"), pytest.param(40, id="many", marks=pytest.mark.long)])
async def test_it_says_what_becomes_of_reservations_and_their_owners(
    emptied: Api, target: Target, count: int, remark: Callable[[str], None]
) -> None:
    verdicts = Verdicts()
    for seed in range(1, count + 1):  # the first says little
        await _played(target, emptied, Random(seed), f"case {seed}", verdicts)  # noqa: S311 - chance that repeats itself
        await _emptied(emptied)
    counts = ", ".join(f"{number} {what}" for what, number in sorted(verdicts.counts.items()))
    remark(f"simulate: {count} cases with reservations: {counts}; {len(verdicts.told)} decisions differ")
    assert not verdicts.told, "\n".join(verdicts.told)
    assert verdicts.counts["pods in reservations"] >= count / 2  # the cases say something
