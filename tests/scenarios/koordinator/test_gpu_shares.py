"""Shares of GPUs on the stock scheduler: Koordinator's arithmetic, with claims from templates for its requests.

The cards are published as the driver publishes them: node-000 has two of 16 GiB, node-001 one of 81559 MiB. Numbers are
the vectors of Koordinator's GPU sharing (koordinator-rest §4.6).
"""

from __future__ import annotations

from typing import Final

import msgspec
import pytest

from dra.engine.translation import template_names
from dra.engine.translation.requests import GpuShare
from dra.engine.translation.templates import template_manifest
from kubeletplugin.drivers.gpu.devices import DRIVER_NAME, GpuPublishOptions, build_gpu_devices
from kubeletplugin.inventory.gpus import Gpu
from tests.scenarios import objects
from tests.scenarios.api import Json
from tests.scenarios.controller import Controller
from tests.scenarios.eventually import eventually, steadily
from tests.scenarios.features import Feature
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import PodShape
from tests.scenarios.resources import CLAIM_TEMPLATES, CLAIMS, PODS
from tests.scenarios.target import Mode

pytestmark = [pytest.mark.needs(Feature.CONSUMABLE_CAPACITY), pytest.mark.modes(Mode.ALONGSIDE)]

MEBI: Final = 2**20
SMALL: Final = 16 * 2**10
LARGE: Final = 81559
SIZES: Final = (SMALL * MEBI, LARGE * MEBI)
NODES: Final = {"node-000": (SMALL, SMALL), "node-001": (LARGE,)}

HALF: Final = GpuShare(cards=1, core=50, ratio=50)

Card = tuple[str, str, str, str]
"""Node, device, memory and core of one result."""


def resource_slice(node: str, sizes: tuple[int, ...]) -> Json:
    """Return what the driver publishes for a node with cards of these MiB."""
    cards = [
        Gpu(minor=minor, index=minor, uuid=f"GPU-{node}-{minor}", memory=size * MEBI)
        for minor, size in enumerate(sizes)
    ]
    devices = [msgspec.to_builtins(each) for each in build_gpu_devices(cards, GpuPublishOptions(shares=True))]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-gpu"},
        "spec": {"driver": DRIVER_NAME, "nodeName": node, "pool": pool, "devices": devices},
    }


class Cards:
    """The cards of the cluster, and pods that ask for shares of them."""

    def __init__(self, namespace: Namespace) -> None:
        self.namespace: Final = namespace

    async def ask(self, name: str, share: GpuShare, *, node: str = "") -> None:
        """Create a pod that asks for a share, with the template for it unless there is one."""
        template = template_names.name_of(share)
        manifest = template_manifest(template, self.namespace.name, share, card_sizes=SIZES)
        if manifest is not None and await self.namespace.find(CLAIM_TEMPLATES, template) is None:
            await self.namespace.create(manifest)
        on = {"nodeSelector": {"kubernetes.io/hostname": node}} if node else {}
        await self.namespace.create(objects.pod(name, PodShape(claim_template=template, spec=on)))

    async def given(self, name: str) -> list[Card]:
        """Return the cards that a pod was given, in the order of their names."""
        pod = await eventually(
            lambda: self.namespace.get(PODS, name),
            until=lambda found: found["spec"].get("nodeName"),
            saying=f"pod {name} is bound",
        )
        claim = await self.namespace.get(CLAIMS, claim_of(pod))
        results = claim["status"]["allocation"]["devices"]["results"]
        assert {each["pool"] for each in results} == {pod["spec"]["nodeName"]}
        return sorted(card(each) for each in results)

    async def waits(self, name: str) -> None:
        """Check that a pod finds no cards, and that this stays so."""
        await eventually(
            lambda: self.namespace.get(PODS, name), until=unschedulable, saying=f"pod {name} was not scheduled"
        )
        await steadily(lambda: self.is_unbound(name), saying=f"pod {name} waits", lasting=1.0)

    async def is_unbound(self, name: str) -> bool:
        return "nodeName" not in (await self.namespace.get(PODS, name))["spec"]


def claim_of(pod: Json) -> str:
    status = pod["status"]
    if extended := status.get("extendedResourceClaimStatus"):
        return str(extended["resourceClaimName"])
    (found,) = status["resourceClaimStatuses"]
    return str(found["resourceClaimName"])


def card(result: Json) -> Card:
    consumed = result["consumedCapacity"]
    return (result["pool"], result["device"], consumed["memory"], consumed["core"])


def unschedulable(pod: Json) -> bool:
    conditions = pod["status"].get("conditions", ())
    return any(each["type"] == "PodScheduled" and each["status"] == "False" for each in conditions)


@pytest.fixture
async def cards(namespace: Namespace, controller: Controller) -> Cards:
    """The cards, with a class that also serves the extended resource of whole cards."""
    del controller
    made = objects.device_class(DRIVER_NAME, driver=DRIVER_NAME)
    made["spec"]["extendedResourceName"] = "nvidia.com/gpu"
    await namespace.create(made)
    for node, sizes in NODES.items():
        await namespace.create(resource_slice(node, sizes))
    return Cards(namespace)


@pytest.mark.modes(*Mode)
async def test_halves_fill_one_card_after_the_other_and_the_smallest_first(cards: Cards) -> None:
    found = []
    for number in range(6):
        await cards.ask(f"half-{number}", HALF)
        found += await cards.given(f"half-{number}")
    assert found == [
        *[("node-000", "gpu-0", "8Gi", "50")] * 2,
        *[("node-000", "gpu-1", "8Gi", "50")] * 2,
        *[("node-001", "gpu-0", "40779Mi", "50")] * 2,
    ]
    await cards.ask("half-6", HALF)
    await cards.waits("half-6")


async def test_two_whole_cards_are_two_cards(cards: Cards) -> None:
    await cards.ask("whole", GpuShare(cards=2, core=200, ratio=200))
    assert await cards.given("whole") == [("node-000", f"gpu-{minor}", "16Gi", "100") for minor in (0, 1)]


async def test_shares_of_two_cards_lie_on_two_and_leave_the_rest(cards: Cards) -> None:
    await cards.ask("spread", GpuShare(cards=2, core=50, ratio=50))
    assert await cards.given("spread") == [("node-000", f"gpu-{minor}", "4Gi", "25") for minor in (0, 1)]
    await cards.ask("bytes", GpuShare(cards=1, memory_mebibytes=8 * 2**10), node="node-000")
    assert await cards.given("bytes") == [("node-000", "gpu-0", "8Gi", "0")]


async def test_memory_alone_takes_no_compute_and_compute_may_be_whole(cards: Cards) -> None:
    await cards.ask("memory", GpuShare(cards=2, ratio=100))
    assert await cards.given("memory") == [("node-000", f"gpu-{minor}", "8Gi", "0") for minor in (0, 1)]
    await cards.ask("large", GpuShare(cards=1, core=100, memory_mebibytes=64 * 2**10))
    assert await cards.given("large") == [("node-001", "gpu-0", "64Gi", "100")]
    await cards.ask("next", GpuShare(cards=1, core=1, memory_mebibytes=2**10), node="node-001")
    await cards.waits("next")


@pytest.mark.parametrize(
    ("ratio", "memory", "fit"),
    [
        pytest.param(25, "20389Mi", 4, id="quarters"),
        pytest.param(33, "26914Mi", 3, id="thirds"),
    ],
)
async def test_parts_of_an_odd_size_are_rounded_down_so_that_all_fit(
    cards: Cards, ratio: int, memory: str, fit: int
) -> None:
    for number in range(fit):
        await cards.ask(f"part-{number}", GpuShare(cards=1, ratio=ratio), node="node-001")
        assert await cards.given(f"part-{number}") == [("node-001", "gpu-0", memory, "0")]
    await cards.ask("more", GpuShare(cards=1, ratio=ratio), node="node-001")
    await cards.waits("more")


@pytest.mark.needs(Feature.EXTENDED_RESOURCES)
async def test_whole_cards_by_their_vendors_name(cards: Cards) -> None:
    await cards.namespace.create(whole_cards("two", 2))
    assert await cards.given("two") == [("node-000", f"gpu-{minor}", "16Gi", "0") for minor in (0, 1)]
    await cards.namespace.create(whole_cards("one", 1))
    assert await cards.given("one") == [("node-001", "gpu-0", "81559Mi", "0")]
    await cards.namespace.create(whole_cards("waiting", 1))
    await cards.waits("waiting")


def whole_cards(name: str, count: int) -> Json:
    """Return a pod that asks for whole cards as for an extended resource."""
    pod = objects.pod(name, PodShape())
    pod["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": str(count)}}
    return pod
