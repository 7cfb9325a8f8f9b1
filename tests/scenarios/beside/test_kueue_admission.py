"""Kueue 0.18 and later, as it is by default: it admits no pod that names a claim, and `kubectl dra explain` says so.

Pods with a ResourceClaimTemplate are admitted beside such pods. The pod keeps Kueue's gates for ever, and ours leaves
last; without a word about the cause a person would look for it at the wrong place.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from dra.engine.diagnosis.problem_codes import ProblemCode
from tests.cluster import fake_nodes
from tests.scenarios import objects, plugin_of_kubectl, steps
from tests.scenarios.beside.kueue import ADMISSION, TOPOLOGY, Kueue, queued
from tests.scenarios.conftest import SOUND_NODES
from tests.scenarios.eventually import eventually, steadily
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import GATE, PodShape
from tests.scenarios.resources import PODS
from tests.scenarios.target import Target

Json = dict[str, Any]

LASTING: Final = 3.0
"""Seconds for which nothing happens to a pod of which nothing is expected."""


@pytest.mark.usefixtures("controller")
async def test_a_pod_that_names_a_claim_is_told_to_wait_for_kueue(namespace: Namespace, target: Target) -> None:
    devices = await namespace.offer_devices(2)
    await namespace.create(objects.claim("shared", device_class=devices))
    await namespace.create(objects.claim_template("own", device_class=devices))
    shared = PodShape(claim="shared", gated=True)
    kueue = Kueue(namespace, quota=10, nodes=fake_nodes.names(SOUND_NODES), takes_claims=False)
    async with kueue.running():
        await namespace.create(queued("names-it", shared, queue="team"))
        await namespace.create(queued("names-it-ungated", PodShape(claim="shared"), queue="team"))
        await namespace.create(queued("has-its-own", PodShape(claim_template="own", gated=True), queue="team"))
        await namespace.create(objects.pod("left-out-of-kueue", shared))
        await steps.pods_run(namespace, "has-its-own", "left-out-of-kueue")
        await eventually(lambda: kueue.inadmissible == {"names-it", "names-it-ungated"}, saying="Kueue refuses two")
        await steadily(
            lambda: waits(namespace, "names-it", ADMISSION, TOPOLOGY, GATE), lasting=LASTING, saying="its gates stay"
        )
    for name in ("names-it", "names-it-ungated"):
        told = await plugin_of_kubectl.explained(target.admin, f"pod/{name}", namespace.name)
        assert codes(told) == {ProblemCode.NOT_ADMITTED}, told
    _, text = await plugin_of_kubectl.dra(target.admin, "explain", "pod/names-it", f"--namespace={namespace.name}")
    assert f"names claim shared and waits behind scheduling gate {ADMISSION}" in " ".join(text.split())
    told = await plugin_of_kubectl.explained(target.admin, "pod/has-its-own", namespace.name)
    assert not codes(told), told
    await steps.end_pods(namespace, "has-its-own", "left-out-of-kueue")
    for name in ("names-it", "names-it-ungated", "has-its-own"):
        await namespace.patch(PODS, name, {"metadata": {"finalizers": None}})


def codes(told: Json) -> set[str]:
    """Return the codes of an answer's problems about the pod; no controller's lease tells of the one that runs here."""
    return {each["trouble"] for each in told["problems"]} - {ProblemCode.GATED, ProblemCode.NO_CONTROLLER}


async def waits(namespace: Namespace, name: str, *gates: str) -> bool:
    return steps.gates(await namespace.get(PODS, name)) == [*gates]
