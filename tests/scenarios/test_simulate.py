"""`kubectl dra simulate` says what the scheduler then does: random cases, each with nodes, devices, claims and pods.

The first look is one simulation of a whole case, before any of its pods is there. It may place pods on other nodes than
the scheduler does, where several are as good. So each case is gone through once more, pod by pod, each with what the
scheduler had done before it: then both must say the same of every pod.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pytest

from dra.cli.kubectl.simulate.simulated_manifests import Manifests, parse_manifests
from dra.cli.kubectl.simulate.simulation import simulate_scheduling
from dra.cli.kubectl.snapshots import bundle_file
from dra.engine.diagnosis.snapshot import Snapshot
from dra.model.claims import ResourceClaim
from tests.cluster import fake_nodes
from tests.scenarios import namespaces, objects, plugin_of_kubectl, steps
from tests.scenarios.claims import condition
from tests.scenarios.eventually import eventually
from tests.scenarios.resources import CLAIMS, NODES, PODS
from tests.scenarios.target import Mode, Target

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.scenarios.api import Api
    from tests.scenarios.namespaces import Namespace

pytestmark = pytest.mark.modes(Mode.REPLACE)

Json = dict[str, Any]

TEAMS: Final = 5
"""Cases at a time: each has nodes of its own, so that they do not meet."""

NODES_EACH: Final = 3
LIVE: Final = 10
"""Every so many cases the command reads the cluster itself."""

MODELS: Final = ("a", "b")
TEAM: Final = "scenario.dra/team"
DISK: Final = "scenario.dra/disk"


@dataclass(slots=True)
class Case:
    """What there is, and what comes."""

    slices: list[Json] = field(default_factory=list)
    claims: list[Json] = field(default_factory=list)
    pods: list[Json] = field(default_factory=list)
    cordoned: list[str] = field(default_factory=list)


def drawn(chance: Random, namespace: str, nodes: list[str], *, cpus: float) -> Case:
    """Return a random case; what is asked for and what is there are about as much."""
    driver = f"{namespace}.scenario.dra"
    case = Case(cordoned=[each for each in nodes if chance.random() < 0.15])
    for node in nodes:
        if count := chance.choice((0, 1, 2, 2, 4)):
            made = objects.resource_slice(
                f"{namespace}-{node}", driver=driver, devices=[f"device-{n}" for n in range(count)], node=node
            )
            for device in made["spec"]["devices"]:
                device["attributes"] = {"model": {"string": chance.choice(MODELS)}}
            case.slices.append(made)
    if chance.random() < 0.2:
        case.slices.append(objects.resource_slice(f"{namespace}-shared", driver=driver, devices=["device-0"]))
    case.claims = [_claim(chance, f"c{number}", driver) for number in range(chance.randint(1, 5))]
    names = [each["metadata"]["name"] for each in case.claims]
    for number in range(chance.randint(2, 7)):
        selector = {fake_nodes.FAKE: "true", TEAM: nodes[0]}
        if chance.random() < 0.2:
            selector[DISK] = chance.choice(("fast", "slow"))
        pod = objects.pod(f"p{number}", objects.PodShape(spec={"nodeSelector": selector}))
        asked = f"{int(cpus * chance.choice((0.01, 0.1, 0.4, 0.7)) * 1000)}m"
        pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": asked}}
        used = [*chance.sample(names, min(len(names), chance.choice((0, 1, 1, 1, 2))))]
        if chance.random() < 0.05:
            used.append("nowhere")
        pod["spec"]["resourceClaims"] = [{"name": name, "resourceClaimName": name} for name in used]
        case.pods.append(pod)
    return case


def _claim(chance: Random, name: str, driver: str) -> Json:
    claim = objects.claim(name, device_class=driver, devices=chance.choice((1, 1, 1, 2, 3)))
    exactly = claim["spec"]["devices"]["requests"][0]["exactly"]
    if chance.random() < 0.3:
        model = chance.choice(MODELS)
        wanted = f"device.attributes['{driver}'].?model.orValue('') == '{model}'"
        exactly["selectors"] = [{"cel": {"expression": wanted}}]
    if chance.random() < 0.1:
        exactly.pop("count")
        exactly["allocationMode"] = "All"
    return claim


@dataclass(slots=True)
class Verdicts:
    """What came of all cases."""

    cases: int = 0
    pods: Counter[str] = field(default_factory=Counter)
    alike: int = 0
    """Cases in which the same pods were placed as had been said at first."""

    told: list[str] = field(default_factory=list)
    """What was said and did not happen."""

    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Commands in this process write to one stdout."""


async def _played(
    target: Target, team: Namespace, nodes: list[str], seed: int, verdicts: Verdicts, folder: Path
) -> None:
    """Simulate a case, let it happen, and compare."""
    node = await team.api.get(NODES, nodes[0])
    cpus = float(node["status"]["allocatable"]["cpu"])
    async with namespaces.temporary(team.api, purpose=f"simulated-{seed}") as namespace:
        case = drawn(Random(seed), namespace.name, nodes, cpus=cpus)  # noqa: S311 - chance that repeats itself
        driver = f"{namespace.name}.scenario.dra"
        for each in (objects.device_class(driver, driver=driver), *case.slices, *case.claims):
            await namespace.create(each)
        for name in nodes:
            await team.api.patch(NODES, name, {"spec": {"unschedulable": name in case.cordoned}})
            if name not in case.cordoned:  # else the taint may go between the look and the scheduler's
                await eventually(partial(team.api.get, NODES, name), until=_usable, saying=f"node {name} is open")
        manifest, taken = folder / f"{seed}.json", folder / f"{seed}.tgz"
        text = json.dumps({"kind": "List", "items": case.pods})
        await asyncio.to_thread(manifest.write_text, text, encoding="utf-8")
        async with verdicts.turn:
            await plugin_of_kubectl.dra(target.admin, "bundle", f"--file={taken}")
            told = await _told(target, namespace.name, manifest, taken, live=seed % LIVE == 0)
        for pod in case.pods:
            await namespace.create(pod)
            if not _hopeless(pod):
                look = partial(namespace.get, PODS, pod["metadata"]["name"])
                await eventually(look, until=_settled, within=30, saying=f"case {seed}: the scheduler has decided")
        happened = {each["metadata"]["name"]: each for each in await namespace.all(PODS)}
        claims = await namespace.all(CLAIMS)
        await namespace.api.delete_collection(PODS, namespace=namespace.name, grace_seconds=0)
        await eventually(
            lambda: namespace.all(PODS), until=lambda found: not found, within=30, saying="its pods are gone"
        )
    bound = {name: pod["spec"].get("nodeName", "") for name, pod in happened.items()}
    verdicts.cases += 1
    verdicts.pods.update("placed" if node else "waits" for node in bound.values())
    if told == {name for name, node in bound.items() if node}:
        verdicts.alike += 1
    taken_then = await asyncio.to_thread(bundle_file.read_bundle, taken)
    verdicts.told += [f"case {seed}: {each}" for each in _differences(taken_then, case, bound, claims, namespace.name)]


async def _told(target: Target, namespace: str, manifest: Path, taken: Path, *, live: bool) -> set[str]:
    """Return the pods that are said to be placed: by the command, of the cluster, or of the bundle just taken."""
    if live:
        options = (f"--filename={manifest}", f"--namespace={namespace}", "--output=json")
        _, text = await plugin_of_kubectl.dra(target.admin, "simulate", *options)
        return {each["metadata"]["name"] for each in json.loads(text)["items"] if each["placed"]}
    manifests = parse_manifests(
        [json.loads(await asyncio.to_thread(manifest.read_text, encoding="utf-8"))], namespace=namespace
    )
    return {
        each.pod.metadata.name
        for each in simulate_scheduling(bundle_file.read_bundle(taken), manifests).outcomes
        if each.is_from_manifests and each.node
    }


def _hopeless(pod: Json) -> bool:
    """Whether a claim of the pod is not there: the scheduler does not even say so, it leaves such pods aside."""
    return any(each["name"] == "nowhere" for each in pod["spec"]["resourceClaims"])


def _settled(pod: Json) -> bool:
    return bool(pod["spec"].get("nodeName")) or steps.unschedulable(pod)


def _differences(
    snapshot: Snapshot, case: Case, bound: dict[str, str], claims: list[Json], namespace: str
) -> list[str]:
    """Go through the case with what the scheduler did; return where a decision of ours would have been another one."""
    found = []
    allocated = {each["metadata"]["name"]: msgspec.convert(each, ResourceClaim) for each in claims}
    for manifest in case.pods:
        name, node = manifest["metadata"]["name"], bound[manifest["metadata"]["name"]]
        manifests = parse_manifests([manifest], namespace=namespace)
        (outcome,) = (each for each in simulate_scheduling(snapshot, manifests).outcomes if each.is_from_manifests)
        if bool(outcome.node) != bool(node):
            found.append(f"{name}: said {outcome.node or outcome.reason!r}, is on {node or 'no node'!r}")
        elif node and outcome.node != node and not _possible(snapshot, manifests, node):
            found.append(f"{name}: is on {node}, where it could not be")
        if node:
            snapshot = _after(snapshot, manifests, node, allocated)
    return found


def _possible(snapshot: Snapshot, manifests: Manifests, node: str) -> bool:
    """Whether a pod could be placed on that node."""
    only = tuple(each for each in snapshot.nodes if each.metadata.name == node)
    return any(
        each.node
        for each in simulate_scheduling(msgspec.structs.replace(snapshot, nodes=only), manifests).outcomes
        if each.is_from_manifests
    )


def _after(snapshot: Snapshot, manifests: Manifests, node: str, allocated: dict[str, ResourceClaim]) -> Snapshot:
    """Return the cluster with the pod where the scheduler has put it, and its claims as they were then."""
    (pod,) = manifests.pods
    pod = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=node))
    used = {each.resource_claim_name for each in pod.spec.resource_claims or ()}
    claims = tuple(
        allocated[each.metadata.name]
        if each.metadata.namespace == pod.metadata.namespace and each.metadata.name in used
        else each
        for each in snapshot.claims
    )
    return msgspec.structs.replace(snapshot, pods=(*snapshot.pods, pod), claims=claims)


async def nodes_of_a_team(team: Namespace) -> list[str]:
    """Register the nodes of a team."""
    names = [f"sim{number}-{team.name}" for number in range(NODES_EACH)]
    for name in names:
        node = fake_nodes.node(name)
        node["metadata"]["labels"] |= {TEAM: names[0], DISK: "fast" if name == names[0] else "slow"}
        await team.create(node)
    for name in names:
        await eventually(partial(team.api.get, NODES, name), until=_usable, within=60, saying=f"node {name} is usable")
    return names


def _usable(node: Json) -> bool:
    ready = condition(node, "Ready") == "True" and "cpu" in node["status"].get("allocatable", {})
    return ready and all(taint["key"] == fake_nodes.FAKE for taint in node["spec"]["taints"])


@pytest.mark.parametrize("count", [pytest.param(11, id="some"), pytest.param(200, id="many", marks=pytest.mark.long)])
async def test_it_says_what_the_scheduler_then_does(
    target: Target, api: Api, count: int, tmp_path: Path, remark: Callable[[str], None]
) -> None:
    verdicts, seeds = Verdicts(), iter(range(count))

    async def team() -> None:
        async with namespaces.temporary(api, purpose="team") as found:
            nodes = await nodes_of_a_team(found)
            for seed in seeds:
                await _played(target, found, nodes, seed, verdicts, tmp_path)

    async with asyncio.TaskGroup() as group:
        for _ in range(min(TEAMS, count)):
            group.create_task(team())
    remark(
        f"simulate: {verdicts.cases} cases, {verdicts.pods['placed']} pods placed, {verdicts.pods['waits']} wait; "
        f"in {verdicts.alike} cases all was as said at first, {len(verdicts.told)} decisions differ"
    )
    assert not verdicts.told, "\n".join(verdicts.told)
    assert verdicts.alike >= count * 0.8
    assert min(verdicts.pods.values()) > count / 2  # the cases say something
