"""Administrators taint devices by rules, where the API server has such rules."""

from __future__ import annotations

from typing import Final

import pytest

from tests.scenarios import taints
from tests.scenarios.controller import Controller
from tests.scenarios.eventually import eventually, steadily
from tests.scenarios.features import Feature
from tests.scenarios.namespaces import Namespace
from tests.scenarios.resources import DEVICE_TAINT_RULES, PODS
from tests.scenarios.taints import for_a_while
from tests.scenarios.target import Capability

pytestmark = pytest.mark.needs(Capability.COMPONENTS, Feature.TAINT_RULES)

SOON: Final = 3.0


@pytest.mark.usefixtures("controller")
async def test_unlisted_pods_leave_the_devices_that_a_rule_selects(namespace: Namespace) -> None:
    devices = await taints.offer(namespace, 3)
    claims = {"mild": [for_a_while(3)], "strict": [], "other": []}
    for claim, tolerations in claims.items():
        await taints.reserve(namespace, claim, devices=devices, tolerations=tolerations)
    pods = {claim: set(await taints.run_unlisted(namespace, claim, 2)) for claim in claims}
    everybody, driver = set[str]().union(*pods.values()), devices

    async def left() -> set[str]:
        return {pod["metadata"]["name"] for pod in await namespace.all(PODS)}

    async def no_one_goes() -> bool:
        return await left() == everybody

    await namespace.create(taints.rule(f"{namespace.name}-elsewhere", {"driver": "nobody.example.com"}))
    await namespace.create(taints.rule(f"{namespace.name}-nowhere", None))
    await namespace.create(taints.rule(f"{namespace.name}-later", {"driver": driver}, effect="None"))
    await steadily(no_one_goes, lasting=1.0, saying="no rule is about them")

    for claim in ("mild", "strict"):
        device = await taints.device_of(namespace, claim)
        await namespace.create(taints.rule(f"{namespace.name}-{claim}", {"driver": driver, "device": device}))
    await eventually(left, until=lambda now: now == pods["mild"] | pods["other"], within=SOON, saying="strict ones go")
    await eventually(left, until=lambda now: now == pods["other"], within=3 + SOON, saying="mild ones go, too")

    enforced = {"spec": {"taint": {"effect": "NoExecute"}}}
    await namespace.api.patch(DEVICE_TAINT_RULES, f"{namespace.name}-later", enforced)
    await eventually(left, until=lambda now: not now, within=SOON, saying="a rule may be put in force later")


async def test_a_rule_that_goes_in_time_ends_nobody(namespace: Namespace, controller: Controller) -> None:
    devices = await taints.offer(namespace, 1)
    await taints.reserve(namespace, "shared", devices=devices, tolerations=[for_a_while(3)])
    pods = await taints.run_unlisted(namespace, "shared")

    async def they_stay() -> bool:
        return [pod["metadata"]["name"] for pod in await namespace.all(PODS)] == pods

    await namespace.create(taints.rule(namespace.name, {"driver": devices}))
    await steadily(they_stay, lasting=1.0, saying="the taint is tolerated")
    await namespace.api.delete(DEVICE_TAINT_RULES, namespace.name)
    await steadily(they_stay, lasting=4.0, saying="the rule is gone")
    assert (await controller.metrics())['dra_reserve_pods_evicted_total{source="rule"}'] == 0
