"""`kubectl dra simulate` and `preflight` on requests in Koordinator's form: what they say is what then happens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
import yaml

from tests.dra.engine.translation.examples import RESOURCE_SPEC, gpus, lsr, pod
from tests.scenarios import plugin, steps
from tests.scenarios.features import Feature
from tests.scenarios.koordinator.cards import Cards
from tests.scenarios.koordinator.test_explained_requests import on_fake_nodes
from tests.scenarios.koordinator.test_templates import SOON, translated, translating
from tests.scenarios.target import Capability, Mode, Target

if TYPE_CHECKING:
    from pathlib import Path

    from tests.scenarios.api import Json

pytestmark = [pytest.mark.modes(Mode.REPLACE), pytest.mark.needs(Feature.CONSUMABLE_CAPACITY, Capability.POLICIES)]

__all__ = ["translating"]  # the fixture

ASKED: Final = [
    ("half", pod(gpus(gpu="50"))),
    ("whole", pod(gpus(gpu="100"))),
    ("bytes", pod(gpus(memory="6Gi"))),
    ("two", pod(gpus(gpu="200"))),
    ("large", pod(gpus(gpu="100"))),
    ("quarter", pod(gpus(gpu="25"))),
]


@pytest.mark.usefixtures("translating")
async def test_simulated_pods_are_placed_or_wait_as_the_scheduler_then_decides(
    cards: Cards, target: Target, tmp_path: Path
) -> None:
    namespace = cards.namespace
    for name, asked in ASKED:
        wanted = await translated(namespace, on_fake_nodes(name, asked))
        found = await simulated(target, tmp_path, {**wanted, "kind": "Pod", "apiVersion": "v1"}, of=namespace.name)
        entries = (await namespace.create(wanted))["spec"]["resourceClaims"]
        assert found["translated"] == {each["name"]: each["resourceClaimTemplateName"] for each in entries}
        if found["placed"]:
            assert len(await cards.given(name)) == len(found["devices"])
        else:
            await cards.waits(name)


async def simulated(target: Target, folder: Path, manifest: Json, *, of: str) -> Json:
    """Return what the command says of one pod."""
    file = folder / "pod.yaml"
    file.write_text(yaml.safe_dump(manifest))
    answer = await plugin.run(target.admin, "simulate", f"--filename={file}", f"--namespace={of}", "--output=json")
    (found,) = answer.content["items"]
    assert "translated: pod" in answer.messages
    assert isinstance(found, dict)
    return found


@pytest.mark.usefixtures("translating")
async def test_a_request_without_an_effect_is_told(cards: Cards) -> None:
    asked = lsr("1", labels={"koordinator.sh/priority-class": "koord-prod"})
    burst = on_fake_nodes("burst", asked)
    burst["metadata"]["annotations"] = {RESOURCE_SPEC: '{"preferredCPUBindPolicy": "ConstrainedBurst"}'}
    await cards.namespace.create(burst)
    assert "resourceClaims" not in (await cards.namespace.create(on_fake_nodes("typo", typing_error(asked))))["spec"]
    await steps.told(cards.namespace, "burst", "NoBoundCPUs", within=SOON)
    await steps.told(cards.namespace, "typo", "UnknownQoSClass", within=SOON)


def typing_error(asked: Json) -> Json:
    labels = asked["metadata"]["labels"] | {"koordinator.sh/qosClass": "lsr"}
    return {**asked, "metadata": {**asked["metadata"], "labels": labels}}


@pytest.mark.usefixtures("translating", "cards")
async def test_the_installation_is_complete_and_what_is_taken_away_is_named(target: Target) -> None:
    answer = await plugin.run(target.admin, "preflight", "--mode=replace", "--koordinator", "--output=json")
    (found,) = (each for each in answer.content["checks"] if each["check"] == "Koordinator requests")
    assert found["verdict"] in {"ok", "warning"}, found  # cpu.reserve.dra has no class here
    assert "rights" not in answer.missing()
