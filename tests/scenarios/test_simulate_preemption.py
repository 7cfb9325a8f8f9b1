"""`kubectl dra simulate` names whom the real scheduler then ends: random cases with priorities, budgets and devices.

Each case fills three nodes with pods of several priorities, some behind PodDisruptionBudgets, some with devices; then
important pods come, one after the other. Before each it is asked what becomes of it, and then seen.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.cluster import fake_nodes
from tests.scenarios import namespaces, objects, simulated, steps
from tests.scenarios.eventually import eventually
from tests.scenarios.preempted import difference
from tests.scenarios.resources import DISRUPTION_BUDGETS, NODES, PODS
from tests.scenarios.target import Capability, Mode, Target
from tests.scenarios.test_simulate import TEAM, nodes_of_a_team

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.scenarios.api import Api
    from tests.scenarios.namespaces import Namespace

pytestmark = [pytest.mark.modes(Mode.REPLACE), pytest.mark.needs(Capability.PREEMPTION)]

Json = dict[str, Any]

TEAMS: Final = 3
CLASSES: Final = {"low": 10, "middle": 100, "high": 1000, "never": 1000}
APPS: Final = ("x", "y", "z")


@dataclass(slots=True)
class Case:
    """Who is there, and who comes."""

    slices: list[Json] = field(default_factory=list)
    claims: list[Json] = field(default_factory=list)
    budgets: list[Json] = field(default_factory=list)
    there: list[Json] = field(default_factory=list)
    coming: list[Json] = field(default_factory=list)


@dataclass(slots=True)
class Verdicts:
    """What came of all cases."""

    pods: Counter[str] = field(default_factory=Counter)
    told: list[str] = field(default_factory=list)


def drawn(chance: Random, namespace: str, nodes: list[str], *, cpus: float) -> Case:
    """Return a random case: the nodes are about full before anybody comes."""
    driver = f"{namespace}.scenario.dra"
    case = Case(claims=[objects.claim(f"c{number}", device_class=driver) for number in range(4)])
    for node in nodes:
        devices = [f"device-{number}" for number in range(chance.choice((1, 2)))]
        case.slices.append(objects.resource_slice(f"{namespace}-{node}", driver=driver, devices=devices, node=node))
    for app in APPS[:2]:
        if chance.random() < 0.6:
            spec = {"selector": {"matchLabels": {"app": app}}, "minAvailable": chance.randint(0, 4)}
            made = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": app}, "spec": spec}
            case.budgets.append(made)

    def pod(name: str, share: float, priority: str, *, claimed: float) -> Json:
        spec: Json = {
            "nodeSelector": {fake_nodes.FAKE: "true", TEAM: nodes[0]},
            "priorityClassName": f"{namespace}-{priority}",
            "terminationGracePeriodSeconds": 0,
        }
        made = objects.pod(name, objects.PodShape(spec=spec, labels={"app": chance.choice(APPS)}))
        made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": f"{int(cpus * share * 1000)}m"}}
        if chance.random() < claimed:
            claim = f"c{chance.randrange(4)}"
            made["spec"]["resourceClaims"] = [{"name": claim, "resourceClaimName": claim}]
        return made

    for number in range(chance.randint(7, 12)):
        priority = chance.choice(("low", "low", "middle", "high"))
        case.there.append(pod(f"t{number}", chance.choice((0.2, 0.25, 0.4, 0.5)), priority, claimed=0.3))
    for number in range(3):
        priority = chance.choice(("high", "high", "middle", "never"))
        case.coming.append(pod(f"n{number}", chance.choice((0.3, 0.5, 0.75, 0.9)), priority, claimed=0.3))
    return case


async def _played(target: Target, team: Namespace, nodes: list[str], seed: int, verdicts: Verdicts) -> None:
    """Fill the nodes; then ask before each pod that comes, and look after it."""
    cpus = float((await team.api.get(NODES, nodes[0]))["status"]["allocatable"]["cpu"])
    async with namespaces.temporary(team.api, purpose=f"preempted-{seed}") as namespace:
        case = drawn(Random(seed), namespace.name, nodes, cpus=cpus)  # noqa: S311 - chance that repeats itself
        driver = f"{namespace.name}.scenario.dra"
        for each in (objects.device_class(driver, driver=driver), *_classes(namespace.name), *case.slices):
            await namespace.create(each)
        for each in case.claims:
            await namespace.create(each)
        for priority in ("high", "middle", "low"):  # so that nobody is ended before anybody is asked about
            wave = [each for each in case.there if each["spec"]["priorityClassName"].endswith(priority)]
            for each in wave:
                await namespace.create(each)
            for each in wave:
                await _over(namespace, each["metadata"]["name"], seed)
        for each in case.budgets:
            await namespace.create(each)
        for each in case.coming:
            await _counted(namespace, len(case.budgets))
            await _caught_up(namespace)
            snapshot = await simulated.look(target.admin, nodes=nodes)
            said = simulated.simulate_pod(snapshot, each, namespace=namespace.name)
            before = {pod["metadata"]["name"] for pod in await namespace.all(PODS)}
            name = each["metadata"]["name"]
            await namespace.create(each)
            node = await _over(namespace, name, seed)
            ended = before - {pod["metadata"]["name"] for pod in await namespace.all(PODS)}
            verdicts.pods["ends others" if ended else "placed" if node else "waits"] += 1
            if wrong := difference(snapshot, each, namespace.name, said, node, ended):
                verdicts.told.append(f"case {seed}, pod {name}: {wrong}")
        await namespace.api.delete_collection(PODS, namespace=namespace.name, grace_seconds=0)
        await eventually(
            lambda: namespace.all(PODS), until=lambda found: not found, within=30, saying="its pods are gone"
        )


def _classes(prefix: str) -> list[Json]:
    return [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": f"{prefix}-{name}"},
            "value": value,
            "preemptionPolicy": "Never" if name == "never" else "PreemptLowerPriority",
        }
        for name, value in CLASSES.items()
    ]


async def _over(namespace: Namespace, name: str, seed: int) -> str:
    """Wait until a pod runs, or is refused; such a one is taken away. Return its node."""

    def settled(pod: Json) -> bool:
        if pod["spec"].get("nodeName"):
            return bool(pod["status"]["phase"] == "Running")
        return steps.unschedulable(pod) and not pod["status"].get("nominatedNodeName")

    saying = f"case {seed}: pod {name} runs or waits"
    found = await eventually(partial(namespace.get, PODS, name), until=settled, within=30, saying=saying)
    node = str(found["spec"].get("nodeName") or "")
    if not node:
        await namespace.delete(PODS, name, grace_seconds=1)
    return node


async def _counted(namespace: Namespace, budgets: int) -> None:
    """Wait until the disruption controller has counted the pods of each budget."""

    async def right() -> bool:
        pods = await namespace.all(PODS)
        found = await namespace.all(DISRUPTION_BUDGETS)
        for each in found:
            app = each["spec"]["selector"]["matchLabels"]["app"]
            count = sum(pod["metadata"]["labels"].get("app") == app for pod in pods)
            status = each.get("status", {})
            numbers = (status.get("expectedPods"), status.get("currentHealthy"), status.get("disruptedPods") or {})
            if numbers != (count, count, {}):
                return False
        return len(found) == budgets

    if budgets:
        await eventually(right, within=60, saying="budgets are counted")


async def _caught_up(namespace: Namespace) -> None:
    """Wait until the scheduler has judged a pod that came after all others.

    Its watch shows pods in order, so its cache has by then when each pod began: victims are let back in that order, and
    one that has not begun, as far as the scheduler knows, comes last.
    """
    nowhere = objects.PodShape(spec={"nodeSelector": {TEAM: "nowhere"}})
    await namespace.create(objects.pod("last", nowhere))
    await steps.pod_is(namespace, "last", steps.unschedulable, saying="the scheduler has judged it")
    await namespace.delete(PODS, "last", grace_seconds=0)
    gone = partial(namespace.find, PODS, "last")
    await eventually(gone, until=lambda found: found is None, saying="it is gone")


@pytest.mark.parametrize("count", [pytest.param(3, id="some"), pytest.param(100, id="many", marks=pytest.mark.long)])
async def test_it_names_whom_the_scheduler_then_ends(
    target: Target, api: Api, count: int, remark: Callable[[str], None]
) -> None:
    verdicts, seeds = Verdicts(), iter(range(count))

    async def team() -> None:
        async with namespaces.temporary(api, purpose="team") as found:
            nodes = await nodes_of_a_team(found)
            for seed in seeds:
                await _played(target, found, nodes, seed, verdicts)

    async with asyncio.TaskGroup() as group:
        for _ in range(min(TEAMS, count)):
            group.create_task(team())
    counts = ", ".join(f"{number} {what}" for what, number in sorted(verdicts.pods.items()))
    remark(f"simulate: {count} cases with priorities: {counts}; {len(verdicts.told)} decisions differ")
    assert not verdicts.told, "\n".join(verdicts.told)
    assert verdicts.pods["ends others"] >= count / 3  # the cases say something
