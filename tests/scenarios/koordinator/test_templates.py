"""The templates of translated pods: made by the controller for the first pod, in both modes, and deleted by it."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Final

import pytest

from dra.engine.translation.requests import GpuShare
from dra.engine.translation.template_names import name_of
from dra.kube.clock import SYSTEM
from tests.scenarios import api as kubernetes
from tests.scenarios import objects, steps
from tests.scenarios.api import ApiError, Json
from tests.scenarios.conftest import ALONE, StartController
from tests.scenarios.eventually import eventually
from tests.scenarios.features import Feature
from tests.scenarios.koordinator.cards import LARGE, SMALL, Cards, resource_slice
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import PodShape
from tests.scenarios.resources import CLAIM_TEMPLATES, CLAIMS, PODS
from tests.scenarios.target import Capability, Mode, Target

pytestmark = pytest.mark.needs(Feature.CONSUMABLE_CAPACITY, Capability.POLICIES)

HALF: Final = "koord-gpu-c50-r50-s1"
UNUSED_SINCE: Final = "reserve.dra/unused-since"
SOON: Final = 60.0


@pytest.fixture
async def translating(installed: None, start_controller: StartController) -> None:
    """The controller with what deploy/koordinator lets it do."""
    del installed
    await start_controller(configuration={**ALONE, "koordinator": True})


def pod(name: str, template: str = HALF, *, node: str = "") -> Json:
    return objects.pod(name, PodShape(claim_template=template, spec=steps.on(node) if node else {}))


async def exists(namespace: Namespace) -> None:
    await eventually(lambda: namespace.find(CLAIM_TEMPLATES, HALF), within=SOON, saying=f"template {HALF} exists")


async def unused_since(namespace: Namespace) -> str | None:
    found = await namespace.get(CLAIM_TEMPLATES, HALF)
    text: str | None = found["metadata"].get("annotations", {}).get(UNUSED_SINCE)
    return text


@pytest.mark.usefixtures("translating")
async def test_halves_of_cards_need_no_template_of_a_user(
    cards: Cards, target: Target, remark: Callable[[str], None]
) -> None:
    """Vector 1 of koordinator-rest §4.6, without a template that somebody has made before."""
    await _measure_first_template(cards.namespace, target, remark)
    found = await cards.given("half-0")
    for number in range(1, 6):
        await cards.namespace.create(pod(f"half-{number}"))
        found += await cards.given(f"half-{number}")
    assert found == [
        *[("node-000", "gpu-0", "8Gi", "50")] * 2,
        *[("node-000", "gpu-1", "8Gi", "50")] * 2,
        *[("node-001", "gpu-0", "40779Mi", "50")] * 2,
    ]


async def _measure_first_template(namespace: Namespace, target: Target, remark: Callable[[str], None]) -> None:
    began = time.monotonic()
    await namespace.create(pod("half-0"))
    await exists(namespace)
    made = time.monotonic() - began
    await steps.pod_is(namespace, "half-0", lambda found: found["spec"].get("nodeName"), within=SOON, saying="bound")
    bound = time.monotonic() - began
    remark(f"template of a pod, mode {target.mode}: made after {made:.2f} s, pod bound after {bound:.2f} s")


@pytest.mark.usefixtures("translating")
async def test_pods_that_ask_as_koordinators_users_do(cards: Cards) -> None:
    """From `koordinator.sh/gpu` to the card: policy, template, claim, scheduler."""
    await cards.namespace.create(await translated(cards.namespace, asking("half", {"koordinator.sh/gpu": "50"})))
    assert await cards.given("half") == [("node-000", "gpu-0", "8Gi", "50")]
    await cards.namespace.create(asking("whole", {"koordinator.sh/gpu": "100"}))
    assert await cards.given("whole") == [("node-000", "gpu-1", "16Gi", "100")]


def asking(name: str, resources: dict[str, str]) -> Json:
    found = objects.pod(name, PodShape())
    found["spec"]["containers"][0]["resources"] = {"requests": resources, "limits": resources}
    return found


async def translated(namespace: Namespace, given: Json) -> Json:
    """Return the pod once the policies, which were just installed, translate it."""

    async def is_translated() -> bool:
        path = PODS.path(namespace=namespace.name)
        made = await namespace.api.request("POST", path, given, query={"dryRun": "All"})
        return "resourceClaims" in made["spec"]

    await eventually(is_translated, within=30.0, saying="the policies are in force")
    return given


@pytest.mark.usefixtures("translating")
async def test_many_new_templates_at_once(cards: Cards, target: Target, remark: Callable[[str], None]) -> None:
    """Each pod precedes its template: whoever generates claims tries again soon enough."""
    shares = [GpuShare(cards=1, memory_mebibytes=number) for number in range(1, 31)]

    def all_there(found: list[Json]) -> bool:
        pods = [each for each in found if "containers" in each["spec"]]
        return len(found) == len(shares) and all(each["spec"].get("nodeName") for each in pods)

    began = time.monotonic()
    await cards.namespace.create_all([pod(f"p-{each.memory_mebibytes}", name_of(each)) for each in shares])
    seconds = {"created": time.monotonic() - began}
    for what, resource in (("templates", CLAIM_TEMPLATES), ("claims", CLAIMS), ("pods bound", PODS)):
        await eventually(
            lambda resource=resource: cards.namespace.all(resource), until=all_there, within=SOON, saying=f"all {what}"
        )
        seconds[what] = time.monotonic() - began
    told = ", ".join(f"{what} {when:.2f} s" for what, when in seconds.items())
    remark(f"{len(shares)} pods with as many new templates, mode {target.mode}: {told}")


@pytest.mark.usefixtures("translating")
async def test_a_template_is_marked_when_nobody_names_it_and_deleted_after_an_hour(cards: Cards) -> None:
    namespace = cards.namespace
    await namespace.create(pod("p"))
    await exists(namespace)
    await namespace.delete(PODS, "p", grace_seconds=0)
    await eventually(lambda: unused_since(namespace), within=SOON, saying="the template is marked as unused")
    await namespace.create(pod("q"))
    await eventually(
        lambda: unused_since(namespace), until=lambda text: text is None, within=SOON, saying="it is used again"
    )
    await namespace.delete(PODS, "q", grace_seconds=0)
    await eventually(lambda: unused_since(namespace), within=SOON, saying="it is unused again")
    hour_ago = (SYSTEM.wall() - timedelta(hours=1)).isoformat()
    await namespace.patch(CLAIM_TEMPLATES, HALF, {"metadata": {"annotations": {UNUSED_SINCE: hour_ago}}})
    await eventually(
        lambda: namespace.find(CLAIM_TEMPLATES, HALF),
        until=lambda found: found is None,
        within=SOON,
        saying="the template is deleted",
    )


@pytest.mark.usefixtures("translating", "card_class")
async def test_a_waiting_pod_learns_of_a_new_size_of_card(namespace: Namespace, target: Target) -> None:
    """Vector 13: the pod was created before the size existed."""
    await namespace.create(pod("early"))
    await steps.told(namespace, "early", "WaitsForCards", within=SOON)
    await namespace.create(resource_slice("node-000", (SMALL,)))
    cards = Cards(namespace)
    assert await cards.given("early") == [("node-000", "gpu-0", "8Gi", "50")]

    await namespace.create(pod("waiting", node="node-001"))
    await cards.waits("waiting")
    await namespace.create(resource_slice("node-001", (LARGE,)))
    if target.mode is Mode.ALONGSIDE:
        await steps.told(namespace, "waiting", "ClaimLacksCardSizes", within=SOON)
        await namespace.delete(PODS, "waiting", grace_seconds=0)
        await eventually(
            lambda: namespace.find(PODS, "waiting"), until=lambda found: found is None, saying="the pod is gone"
        )
        await namespace.create(pod("waiting", node="node-001"))
    else:
        await steps.told(namespace, "waiting", "ClaimRenewed", within=SOON)
    assert await cards.given("waiting") == [("node-001", "gpu-0", "40779Mi", "50")]
    assert await cards.given("early") == [("node-000", "gpu-0", "8Gi", "50")]


@pytest.mark.modes(Mode.ALONGSIDE)
@pytest.mark.usefixtures("translating", "card_class")
async def test_of_ten_sizes_the_two_of_fewest_cards_are_left_out(namespace: Namespace) -> None:
    """The rarest sizes are the smallest, which a pod would get first."""
    sizes = [number * 2**10 for number in range(10, 20)]
    await namespace.create(resource_slice("node-000", tuple(sizes)))
    await namespace.create(resource_slice("node-001", tuple(sizes[2:])))
    await namespace.create(pod("p"))
    text = await steps.note(namespace, "p", "CardSizesExceeded")
    assert "cannot use cards of 10Gi, 11Gi: a claim has room for 8 sizes" in text
    ((_, _, memory, core),) = await Cards(namespace).given("p")
    assert (memory, core) == ("6Gi", "50")


@pytest.mark.modes(Mode.ALONGSIDE)
@pytest.mark.usefixtures("translating")
async def test_a_template_of_a_user_stays_and_the_controller_may_write_no_other(cards: Cards, target: Target) -> None:
    namespace = cards.namespace
    own = objects.claim_template(HALF, device_class="gpu.reserve.dra")
    before = await namespace.create(own)
    await namespace.create(pod("p"))
    await steps.told(namespace, "p", "ForeignTemplate", within=SOON)
    after = await namespace.get(CLAIM_TEMPLATES, HALF)
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]

    async with kubernetes.connect(target.controller) as controller:
        mine = {**own, "metadata": {"name": "mine"}}
        with pytest.raises(ApiError, match="named after a translated request"):
            await controller.create(mine, namespace=namespace.name)
        with pytest.raises(ApiError, match="with the label"):
            await controller.delete(CLAIM_TEMPLATES, HALF, namespace=namespace.name)
        with pytest.raises(ApiError, match="with the label"):
            await controller.create({**own, "metadata": {"name": "koord-gpu-m1-s1"}}, namespace=namespace.name)
