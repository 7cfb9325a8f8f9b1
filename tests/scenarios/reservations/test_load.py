"""A thousand pods on fifty nodes with a hundred reservations; the extender dies in the middle.

The nodes have 1,200 CPUs. 600 are held: 50 reservations for once of 4 (two owners of 4 want each) and 50 others of 8
(six owners of 2 want each). All is used in the end. If what is held is all that owners get (Restricted), 850 pods run:
50 owners, four times 50, and 600 strangers of one CPU. If they may have more of the node (Default), a fifth and sixth
owner race with strangers for what is free: how many pods run is open, how many CPUs they have is not.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable
from typing import Final

import pytest

from dra.model import quantities
from tests.cluster.cluster import Cluster
from tests.cluster.fake_nodes import FAKE
from tests.cluster.kubectl import kubectl
from tests.cluster.processes import Process
from tests.scenarios.api import Api, Json
from tests.scenarios.eventually import eventually
from tests.scenarios.reservations.test_manual import reservation, stranger
from tests.scenarios.resources import NODES, PODS, RESERVATIONS

pytestmark = pytest.mark.long

LOADED: Final = tuple(f"load-{number:02}" for number in range(50))
CPUS: Final = 24
WHOLE: Final = CPUS * len(LOADED)
ONCE, REUSED, STRANGERS = 50, 50, 600
ALLOCATED: Final = "scheduling.koordinator.sh/reservation-allocated"


@pytest.fixture
async def fifty(emptied: Api, cluster: Cluster) -> AsyncIterator[Api]:
    """The API, with fifty nodes of 24 CPUs, and the others cordoned."""
    admin = cluster.admin_kubeconfig
    kubectl("cordon", "--selector", FAKE, kubeconfig=admin)
    cluster.nodes.add(list(LOADED))
    kubectl("taint", "nodes", *LOADED, f"{FAKE}-", kubeconfig=admin)
    for name in LOADED:
        size = {"cpu": str(CPUS), "memory": "256Gi", "pods": "110"}
        await emptied.patch(NODES, name, {"status": {"allocatable": size, "capacity": size}}, subresource="status")
    yield emptied
    kubectl("delete", "nodes", *LOADED, "--wait=false", kubeconfig=admin)
    kubectl("uncordon", "--selector", FAKE, kubeconfig=admin)


def owners(name: str, count: int, *, cpu: str) -> list[Json]:
    """Return pods that run in the reservation of that name, or not at all."""
    found = [stranger(f"{name}-{number}", cpu=cpu, app=name) for number in range(count)]
    for pod in found:
        pod["metadata"]["annotations"] = {"scheduling.koordinator.sh/reservation-affinity": "{}"}
    return found


@pytest.mark.parametrize(
    "policy",
    [
        pytest.param({"allocatePolicy": "Restricted"}, id="owners-get-what-is-held"),
        pytest.param({}, id="owners-get-more-if-it-is-free"),
    ],
)
async def test_nothing_for_once_is_used_twice_and_nothing_is_eaten(
    fifty: Api, extender: Process, policy: dict[str, str], remark: Callable[[str], None]
) -> None:
    once = [f"once-{number}" for number in range(ONCE)]
    reused = [f"reused-{number}" for number in range(REUSED)]
    await fifty.create_all(reservation(name, cpu="4", **policy) for name in once)
    await fifty.create_all(reservation(name, cpu="8", allocateOnce=False, **policy) for name in reused)
    await eventually(
        lambda: phases(fifty),
        until=lambda found: found["Available"] == ONCE + REUSED,
        within=60,
        saying="all are available",
    )

    pods = [stranger(f"stranger-{number}", cpu="1") for number in range(STRANGERS)]
    for name in once:
        pods += owners(name, 2, cpu="4")
    for name in reused:
        pods += owners(name, 6, cpu="2")
    began = time.monotonic()
    creating = asyncio.create_task(fifty.create_all(sorted(pods, key=json.dumps), namespace="default"))

    async def bound() -> list[Json]:
        await asyncio.sleep(1.0)  # a list of a thousand pods is work, for the cores that all the others need
        return await fifty.all(PODS, namespace="default", fieldSelector="spec.nodeName!=")

    async def used() -> int:
        return sum(map(cpus, await bound()))

    await eventually(used, until=lambda count: count >= WHOLE // 3, within=120, saying="a third is used")
    await asyncio.to_thread(extender.kill)
    await creating
    await asyncio.to_thread(extender.start)
    await eventually(used, until=lambda count: count >= WHOLE, within=150, saying=f"all {WHOLE} CPUs are used")
    seconds = time.monotonic() - began
    remark(f"reservations: {len(await bound())} of {len(pods)} pods bound in {seconds:.0f} s, with a kill")
    await eventually(lambda: audited(fifty), saying="all is as it has to be")


async def phases(api: Api) -> Counter[str]:
    return Counter(each.get("status", {}).get("phase", "") for each in await api.all(RESERVATIONS))


async def audited(api: Api) -> bool:
    pods = [pod for pod in await api.all(PODS, namespace="default") if pod["spec"].get("nodeName")]
    assert sum(map(cpus, pods)) == WHOLE
    found = {each["metadata"]["uid"]: each for each in await api.all(RESERVATIONS)}
    inside: dict[str, list[Json]] = defaultdict(list)
    loose: Counter[str] = Counter()
    for pod in pods:
        told = pod["metadata"].get("annotations", {}).get(ALLOCATED)
        uid = json.loads(told)["uid"] if told else ""
        if uid:
            assert pod["metadata"]["labels"]["app"] == found[uid]["metadata"]["name"]
            inside[uid].append(pod)
        if not uid or found[uid]["status"]["phase"] != "Available":
            loose[pod["spec"]["nodeName"]] += cpus(pod)
    for uid, each in found.items():
        name, status = each["metadata"]["name"], each["status"]
        taken = sum(map(cpus, inside[uid]))
        if each["spec"]["allocateOnce"]:
            assert len(inside[uid]) == 1, name
            assert status["phase"] == "Succeeded"
        else:
            assert status["phase"] == "Available"
            assert len(inside[uid]) in ({4} if each["spec"].get("allocatePolicy") else {4, 5, 6}), name
            assert {owner["uid"] for owner in status["currentOwners"]} == {
                pod["metadata"]["uid"] for pod in inside[uid]
            }
            loose[status["nodeName"]] += max(int(quantities.parse(status["allocatable"]["cpu"])), taken)
    assert {node: count for node, count in loose.items() if count > CPUS} == {}
    return True


def cpus(pod: Json) -> int:
    return sum(int(quantities.parse(each["resources"]["requests"]["cpu"])) for each in pod["spec"]["containers"])
