"""The annotations that report what pods were given: written by the controller, and by nobody without the right to."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from dra.engine.translation.requests import GpuShare
from tests.scenarios import accounts, objects
from tests.scenarios.api import Api, ApiError, Json
from tests.scenarios.conftest import ALONE, StartController
from tests.scenarios.eventually import eventually
from tests.scenarios.features import Feature
from tests.scenarios.koordinator.cards import Cards
from tests.scenarios.koordinator.conftest import label
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import PodShape
from tests.scenarios.resources import PODS
from tests.scenarios.target import Capability, Mode, Target

pytestmark = [
    pytest.mark.needs(Feature.CONSUMABLE_CAPACITY, Capability.POLICIES),
    pytest.mark.modes(Mode.ALONGSIDE),
]

DEVICES: Final = "scheduling.koordinator.sh/device-allocated"
STATUS: Final = "scheduling.koordinator.sh/resource-status"


async def reported(namespace: Namespace, pod: str) -> Any:
    found = await namespace.get(PODS, pod)
    return json.loads(found["metadata"].get("annotations", {}).get(DEVICES, "null"))


def share(core: str, memory: str, ratio: str) -> Json:
    amounts = {"core": core, "memory": memory, "memory-ratio": ratio}
    return {f"koordinator.sh/gpu-{name}": amount for name, amount in amounts.items()}


async def test_pods_are_told_what_they_were_given(
    cards: Cards, installed: None, start_controller: StartController
) -> None:
    del installed
    await start_controller(configuration={**ALONE, "koordinator": True})
    await cards.ask("half", GpuShare(cards=1, core=50, ratio=50), node="node-001")
    await cards.ask("spread", GpuShare(cards=2, core=50, ratio=50))
    wanted = {
        "half": [{"minor": 0, "resources": share("50", "40779Mi", "49"), "id": "GPU-node-001-0"}],
        "spread": [
            {"minor": minor, "resources": share("25", "4Gi", "25"), "id": f"GPU-node-000-{minor}"} for minor in (0, 1)
        ],
    }
    for pod, gpus in wanted.items():
        assert await eventually(lambda pod=pod: reported(cards.namespace, pod), saying=f"pod {pod} has its report") == {
            "gpu": gpus
        }


async def test_only_accounts_with_the_right_to_write_reports(
    namespace: Namespace, target: Target, installed: None
) -> None:
    del installed
    rule = {"apiGroups": ["scheduling.koordinator.sh"], "resources": ["reservations"], "verbs": ["report"]}
    path = await accounts.create(target, namespace, "tenant", in_namespace=["edit"])
    other = await accounts.create(target, namespace, "reporter", in_namespace=["edit"], rules=[rule])
    async with accounts.acting(path, namespace) as tenant, accounts.acting(other, namespace) as reporter:
        for name in (DEVICES, STATUS):
            await eventually(
                lambda name=name: told(tenant, namespace, {name: "{}"}),
                until=lambda text: "report what a pod was given" in text,
                saying="the policy is in force",
            )
            assert await told(reporter, namespace, {name: "{}"}) == ""
        assert await told(tenant, namespace, {"other": "x"}) == ""

        await namespace.create(objects.pod("plain", PodShape(annotations={"other": "x"})))
        for annotations in ({DEVICES: "{}"}, {STATUS: "{}"}):
            patch = {"metadata": {"annotations": annotations}}
            with pytest.raises(ApiError, match="report what a pod was given"):
                await tenant.patch(PODS, "plain", patch, namespace=namespace.name)
        await tenant.patch(PODS, "plain", {"metadata": {"labels": {"a": "b"}}}, namespace=namespace.name)
        await reporter.patch(PODS, "plain", {"metadata": {"annotations": {DEVICES: "{}"}}}, namespace=namespace.name)
        with pytest.raises(ApiError, match="report what a pod was given"):
            await tenant.patch(PODS, "plain", {"metadata": {"annotations": {DEVICES: None}}}, namespace=namespace.name)

        await label(namespace, None)
        await eventually(
            lambda: told(tenant, namespace, {DEVICES: "{}"}), until=lambda text: not text, saying="it is lifted"
        )


async def told(api: Api, namespace: Namespace, annotations: dict[str, str]) -> str:
    """Return why the creation of a pod with these annotations is refused; nothing if it is not."""
    pod = objects.pod("tried", PodShape(annotations=annotations))
    try:
        await api.request("POST", PODS.path(namespace=namespace.name), pod, query={"dryRun": "All"})
    except ApiError as error:
        return str(error)
    return ""
