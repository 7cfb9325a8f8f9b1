"""CPUs of one's own on a real kubelet: what containers may run on, as they read it themselves, from the first line on.

A machine of two CPUs has one to give: three containers share a claim on it, three and more run beside it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.cluster.node import RealNode
from tests.scenarios import objects
from tests.scenarios.eventually import INTERVAL, eventually
from tests.scenarios.features import Feature
from tests.scenarios.namespaces import Namespace
from tests.scenarios.real_node import plugin as gpus
from tests.scenarios.real_node.cpus import DRIVER, WITHIN, Sight, StartCpus, device_class, kill, run, sees, sights
from tests.scenarios.real_node.pods import failures
from tests.scenarios.resources import CLAIMS, NODES, PODS
from tests.scenarios.target import Capability, Mode

pytestmark = [pytest.mark.needs(Capability.KUBELET, Capability.COMPONENTS), pytest.mark.modes(Mode.ALONGSIDE)]

OWNERS: Final = ("owner-0", "owner-1", "owner-2")
OTHERS: Final = ("other-0", "other-1", "other-2")

CHURN: Final = 30.0
"""Seconds during which others come and go."""

WIDE_AGAIN: Final = 10.0
"""Seconds from a claim's end on the node to containers that have its CPUs again."""


@pytest.fixture
def namespace(cpu_namespace: Namespace) -> Namespace:
    """One with a class of CPUs."""
    return cpu_namespace


async def test_owners_and_others_are_apart_from_their_first_line_through_churn_and_restarts(
    start_cpus: StartCpus,
    namespace: Namespace,
    real_node: RealNode,
    remark: Callable[[str], None],
) -> None:
    everything = "0-1"
    plugin = start_cpus("one")
    await plugin.start()
    await namespace.create(objects.claim("cpus", device_class=device_class(namespace)))
    await run(namespace, *OTHERS)
    for each in OTHERS:
        await sees(real_node, namespace, each, everything)

    await run(namespace, *OWNERS, claim="cpus")
    first = min([await sees(real_node, namespace, each, "1") for each in OWNERS])
    for each in OTHERS:
        await sees(real_node, namespace, each, "0")

    ends, number = time.monotonic() + CHURN, 0
    churned = []
    second = start_cpus("two")
    while time.monotonic() < ends:
        pod = f"churn-{number}"
        await run(namespace, pod)
        await sees(real_node, namespace, pod, "0")
        churned.append(pod)
        if number < len(OWNERS):
            kill(namespace, real_node, OWNERS[number])
        if number == 4:
            await second.start()  # a rolling update
            plugin.stop()
        if number == 8:
            real_node.restart_kubelet()
        number += 1
    owned = [each for pod in OWNERS for each in sights(real_node, namespace, pod)]
    beside = [each for pod in (*OTHERS, *churned) for each in sights(real_node, namespace, pod) if each.at >= first.at]
    assert {each.mask for each in owned} == {"1"}
    assert {each.mask for each in beside} == {"0"}
    assert max(each.at for each in beside) - first.at > CHURN - 1

    for each in (*OWNERS, *churned):
        await namespace.delete(PODS, each)
    await eventually(
        lambda: gpus.cdi_files(real_node),
        until=lambda left: not left,
        within=WITHIN,
        longest=INTERVAL,
        saying="nothing is prepared",
    )
    released = uptime()
    for each in OTHERS:
        await sees(real_node, namespace, each, everything)
    took = max(wide_from(sights(real_node, namespace, each), first.at) for each in OTHERS) - released
    assert took < WIDE_AGAIN
    remark(
        f"CPUs: {len(owned)} lines of owners and {len(beside)} of {len(churned) + len(OTHERS)} others, none overlaps; "
        f"wide again {max(took, 0):.2f} s after the last CDI file went"
    )


@pytest.mark.needs(Feature.CONSUMABLE_CAPACITY)
async def test_cpus_of_a_numa_node_are_taken_by_number(
    start_cpus: StartCpus, namespace: Namespace, real_node: RealNode
) -> None:
    await start_cpus("grouped", devices="grouped").start()
    claim = objects.claim("cpus", device_class=device_class(namespace))
    (request,) = claim["spec"]["devices"]["requests"]
    request["exactly"]["capacity"] = {"requests": {"dra.cpu/cpu": "1"}}
    parameters = {"apiVersion": "reserve.dra/v1alpha1", "kind": "CpuConfig", "requiredCPUBindPolicy": "SpreadByPCPUs"}
    claim["spec"]["devices"]["config"] = [{"opaque": {"driver": DRIVER, "parameters": parameters}}]
    await namespace.create(claim)
    await run(namespace, "other")
    await run(namespace, "owner", claim="cpus")
    await sees(real_node, namespace, "owner", "1")
    await sees(real_node, namespace, "other", "0")
    assert {each.mask for each in sights(real_node, namespace, "owner")} == {"1"}

    await namespace.delete(PODS, "owner")
    await sees(real_node, namespace, "other", "0-1")


@pytest.mark.long
async def test_the_next_owner_of_a_cpu_starts_when_the_last_one_has_ended(
    start_cpus: StartCpus, namespace: Namespace, real_node: RealNode, remark: Callable[[str], None]
) -> None:
    await start_cpus("one").start()
    for name in ("first", "second"):
        await namespace.create(objects.claim(name, device_class=device_class(namespace)))
    await run(namespace, "owner", claim="first")
    await sees(real_node, namespace, "owner", "1")
    await run(namespace, "next", claim="second")  # waits for a CPU
    deleted = uptime()
    await namespace.delete(PODS, "owner")  # without a grace period: its object is gone before its container is
    await namespace.delete(CLAIMS, "first")
    await sees(real_node, namespace, "next", "1")
    first, *_ = sights(real_node, namespace, "next")
    last = sights(real_node, namespace, "owner")[-1]
    assert last.at < first.at, "never both at once"
    refusals = [each for each in await failures(namespace) if "held by" in each]
    remark(
        f"CPUs: the next owner runs {first.at - deleted:.1f} s after the last one was deleted, {len(refusals)} refusals"
    )


@pytest.mark.long
async def test_a_cpu_that_the_node_keeps_is_no_containers_over_a_restart_and_an_annotation_that_is_invalid(
    start_cpus: StartCpus, namespace: Namespace, real_node: RealNode
) -> None:
    async def keeps(text: str | None) -> None:
        await namespace.api.patch(NODES, real_node.name, {"metadata": {"annotations": {KEPT: text}}})

    first = start_cpus("before")
    await first.start()
    await run(namespace, "other")
    await sees(real_node, namespace, "other", "0-1")
    try:
        await keeps('{"reservedCPUs": "1", "applyPolicy": "ReservedCPUsOnly"}')
        await sees(real_node, namespace, "other", "0")
        await keeps('{"reservedCPUs": "1-0"}')
        first.stop()
        second = start_cpus("after")
        await second.start()
        await run(namespace, "later")
        await sees(real_node, namespace, "later", "0")
        assert {each.mask for each in sights(real_node, namespace, "later")} == {"0"}
        assert sights(real_node, namespace, "other")[-1].mask == "0"
    finally:
        await keeps(None)
    for each in ("other", "later"):
        await sees(real_node, namespace, each, "0-1")


KEPT: Final = "node.koordinator.sh/reservation"


def wide_from(seen: list[Sight], since: float) -> float:
    """Return when a container saw more than one CPU for the first time since then."""
    return next(each.at for each in seen if each.at > since and each.mask != "0")


def uptime() -> float:
    return float(Path("/proc/uptime").read_text(encoding="ascii").split()[0])
