"""`kubectl dra explain pod` and `usage --by capacity` on a real cluster, for requests in Koordinator's form."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from tests.cluster.kubectl import kubectl
from tests.dra.engine.translation.examples import gpus, lsr, pod
from tests.scenarios import installation, objects, plugin_of_kubectl
from tests.scenarios.api import Json
from tests.scenarios.conftest import ALONE, StartController
from tests.scenarios.eventually import eventually
from tests.scenarios.features import Feature
from tests.scenarios.koordinator.cards import Cards
from tests.scenarios.koordinator.test_examples import place
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import PodShape
from tests.scenarios.resources import NAMESPACES, PODS
from tests.scenarios.target import Capability, Mode, Target

pytestmark = [
    pytest.mark.long,
    pytest.mark.modes(*Mode),
    pytest.mark.needs(Capability.RIGHTS, Feature.GATE_POLICY, Feature.CONSUMABLE_CAPACITY),
]

__all__ = ["place"]  # the fixture

DEPLOY: Final = installation.DEPLOY / "koordinator"


def on_fake_nodes(name: str, asking: Json) -> Json:
    """Return a pod with the requests of another, which fake nodes run."""
    found = objects.pod(name, PodShape())
    for given, asked in zip(found["spec"]["containers"], asking["spec"]["containers"], strict=True):
        given["resources"] = asked["resources"]
    found["metadata"]["labels"] = found["metadata"].get("labels", {}) | asking["metadata"]["labels"]
    return found


async def explained(target: Target, namespace: Namespace, name: str) -> str:
    _, told = await plugin_of_kubectl.dra(target.admin, "explain", "pod", name, f"--namespace={namespace.name}")
    return " ".join(told.split())


@pytest.fixture
def rights(target: Target) -> Iterator[None]:
    """The permissions of the controller, with what else deploy/koordinator installs."""
    installation.install(target.admin, kustomization=DEPLOY)
    yield
    kubectl("delete", "--ignore-not-found", f"--kustomize={DEPLOY}", kubeconfig=target.admin)


@pytest.mark.usefixtures("rights")
async def test_a_share_is_explained_from_the_request_to_the_card(
    target: Target, place: Namespace, cards: Cards, start_controller: StartController
) -> None:
    await place.create(on_fake_nodes("half", pod(gpus(gpu="50"))))
    found = await explained(target, place, "half")
    assert "template koord-gpu-c50-r50-s1 does not exist yet" in found
    assert "RequestTemplateMissing" in found

    await start_controller(configuration={**ALONE, "koordinator": True})
    assert await cards.given("half") == [("node-000", "gpu-0", "8Gi", "50")]
    found = await explained(target, place, "half")
    assert "koord-gpu-0: 50 % of the compute and 50 % of the memory of a card for container" in found
    assert "gpu-0 on node node-000: 8Gi of memory (50 %), 50 % of compute" in found
    _, table = await plugin_of_kubectl.dra(target.admin, "usage", "--by", "capacity")
    rows = [line.split() for line in table.splitlines()]
    assert ["gpu.reserve.dra/node-000/gpu-0", "node-000", "memory", "8Gi", "16Gi"] in [row[:5] for row in rows]
    assert ["gpu.reserve.dra/node-001/gpu-0", "node-001", "core", "0", "100"] in [row[:5] for row in rows]


async def test_a_pod_that_was_not_translated_is_told_why(target: Target, place: Namespace) -> None:
    await place.api.patch(NAMESPACES, place.name, {"metadata": {"labels": {"reserve.dra/koordinator": None}}})
    labelled = {"koordinator.sh/priority-class": "koord-prod"}
    wanted = on_fake_nodes("bound", lsr("1", labels=labelled))

    async def untranslated() -> bool:
        found = await place.api.request("POST", PODS.path(namespace=place.name), wanted, query={"dryRun": "All"})
        return "resourceClaims" not in found["spec"]

    await eventually(untranslated, saying="the namespace is left alone")
    await place.create(wanted)
    found = await explained(target, place, "bound")
    assert "not translated, the namespace is not enabled: 1 CPU as LSR" in found
    assert "NamespaceNotEnabled" in found

    await place.api.patch(NAMESPACES, place.name, {"metadata": {"labels": {"reserve.dra/koordinator": "enabled"}}})
    assert "RequestNotTranslated" in await explained(target, place, "bound")
