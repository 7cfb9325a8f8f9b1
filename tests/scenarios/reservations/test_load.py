"""A thousand pods, half of them owners, on fifty nodes with a hundred reservations; the extender dies in the middle."""

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


async def test_nothing_for_once_is_used_twice_and_nothing_is_eaten(
    fifty: Api, extender: Process, remark: Callable[[str], None]
) -> None:
    once = [f"once-{number}" for number in range(ONCE)]
    reused = [f"reused-{number}" for number in range(REUSED)]
    await fifty.create_all(reservation(name, cpu="4") for name in once)
    await fifty.create_all(reservation(name, cpu="8", allocateOnce=False) for name in reused)
    await eventually(
        lambda: fifty.all(RESERVATIONS),
        until=lambda found: sum(each.get("status", {}).get("phase") == "Available" for each in found) == ONCE + REUSED,
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

    async def bound() -> int:
        await asyncio.sleep(1.0)  # a list of a thousand pods is work, for the cores that all the others need
        return len(await fifty.all(PODS, namespace="default", fieldSelector="spec.nodeName!="))

    await eventually(bound, until=lambda count: count >= 300, within=60, saying="300 pods are bound")
    await asyncio.to_thread(extender.kill)
    await creating
    await asyncio.to_thread(extender.start)
    total = STRANGERS + ONCE + 4 * REUSED
    await eventually(bound, until=lambda count: count >= total, within=150, saying=f"{total} pods are bound")
    remark(f"reservations: {total} of {len(pods)} pods bound in {time.monotonic() - began:.0f} s, with a kill")
    await audit(fifty, within=total)


async def audit(api: Api, *, within: int) -> None:
    pods = [pod for pod in await api.all(PODS, namespace="default") if pod["spec"].get("nodeName")]
    assert len(pods) == within  # and the rest has no room
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
            assert len(inside[uid]) == 4, name
            assert {owner["uid"] for owner in status["currentOwners"]} == {
                pod["metadata"]["uid"] for pod in inside[uid]
            }
            loose[status["nodeName"]] += max(int(quantities.parse(status["allocatable"]["cpu"])), taken)
    assert {node: count for node, count in loose.items() if count > CPUS} == {}


def cpus(pod: Json) -> int:
    return sum(int(quantities.parse(each["resources"]["requests"]["cpu"])) for each in pod["spec"]["containers"])
