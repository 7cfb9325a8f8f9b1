"""Profiles on a real API server: the policies of deploy/colocation-profiles and the stock scheduler."""

from __future__ import annotations

import pytest

from tests.dra.engine.profiles.examples import (
    BATCH_CPU,
    BATCH_MEMORY,
    ENABLED,
    MANIFESTS,
    QOS,
    container,
    manifest,
    pod,
)
from tests.scenarios.features import Feature
from tests.scenarios.profiles import agreement
from tests.scenarios.profiles.conftest import Place
from tests.scenarios.target import Capability, Mode

pytestmark = [
    pytest.mark.modes(Mode.ALONGSIDE),
    pytest.mark.needs(Capability.RIGHTS, Feature.GATE_POLICY),
]

BATCH = {"qosClass": "BE", "priorityClassName": "koord-batch"}


@pytest.mark.parametrize("text", MANIFESTS, ids=["manual", "spark", "quick-start"])
async def test_manifests_of_koordinator_work_as_they_are(place: Place, text: str) -> None:
    given = manifest(text)
    labels = given["spec"]["selector"]["matchLabels"]
    profiles = await place.apply(given)
    asked = pod(
        container(requests={"cpu": "1", "memory": "3456Mi"}, limits={"cpu": "1", "memory": "3456Mi"}), labels=labels
    )
    made = await place.send(asked)
    amounts = {BATCH_CPU: "1k", BATCH_MEMORY: "3456Mi"}
    assert made["spec"]["containers"][0]["resources"] == {"requests": amounts, "limits": amounts}
    assert (made["spec"]["priority"], made["spec"]["priorityClassName"]) == (5500, "koord-batch")
    assert made["spec"]["preemptionPolicy"] == "PreemptLowerPriority"
    assert made["metadata"]["labels"][QOS] == "BE"
    assert made["status"]["qosClass"] == "BestEffort"
    wanted = agreement.by_the_engine(asked, profiles, namespace_labels=ENABLED)
    assert await agreement.by_the_policies(place.api, asked, namespace=place.namespace.name) == wanted
