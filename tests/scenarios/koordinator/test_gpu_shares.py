"""Shares of GPUs on the stock scheduler: Koordinator's arithmetic, with claims from templates for its requests.

Numbers are the vectors of Koordinator's GPU sharing (koordinator-rest §4.6).
"""

from __future__ import annotations

from typing import Final

import pytest

from dra.engine.translation.requests import GpuShare
from tests.scenarios import objects
from tests.scenarios.api import Json
from tests.scenarios.features import Feature
from tests.scenarios.koordinator.cards import Cards
from tests.scenarios.objects import PodShape
from tests.scenarios.target import Mode

pytestmark = [
    pytest.mark.long,
    pytest.mark.needs(Feature.CONSUMABLE_CAPACITY),
    pytest.mark.modes(Mode.ALONGSIDE),
    pytest.mark.usefixtures("controller"),
]

HALF: Final = GpuShare(cards=1, core=50, ratio=50)


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
