"""Card sizes: those of the newest slices of each pool, of cards for shares, by number of cards."""

import pytest

from dra.engine.translation.card_sizes import CardSizes
from dra.model.slices import Device, ResourceSlice, ResourceSliceSpec
from tests.dra.engine.translation.cluster_objects import GIBI, cards
from tests.violations import for_each_case


def sizes_of(*slices: ResourceSlice) -> tuple[int, ...]:
    index = CardSizes()
    for each in slices:
        index.observe_slice(each)
    return index.by_frequency()


@for_each_case(
    [
        pytest.param([], (), id="none"),
        pytest.param([cards("a", "16Gi", "16Gi"), cards("b", "80Gi")], (16 * GIBI, 80 * GIBI), id="most-cards-first"),
        pytest.param([cards("a", "16Gi", "80Gi")], (80 * GIBI, 16 * GIBI), id="the-larger-first-among-equals"),
        pytest.param(
            [cards("a", "16Gi", pool="n"), cards("b", "80Gi", pool="n", generation=2)],
            (80 * GIBI,),
            id="the-newest-generation-of-a-pool",
        ),
        pytest.param([cards("a", "16Gi", driver="gpu.example.com")], (), id="no-cards-of-other-drivers"),
        pytest.param([cards("a", "16Gi", shared=False)], (), id="no-cards-without-shares"),
        pytest.param([cards("a", "much", "16Gi")], (16 * GIBI,), id="no-text-that-is-no-quantity"),
        pytest.param([cards("a", "0")], (), id="no-card-without-memory"),
    ]
)
def test_sizes(slices: list[ResourceSlice], sizes: tuple[int, ...]) -> None:
    assert sizes_of(*slices) == sizes


def test_a_device_without_memory_has_no_size() -> None:
    without = cards("a", "16Gi")
    device = Device(name="gpu-0", capacity={"core": {"value": "100"}}, allow_multiple_allocations=True)
    spec = ResourceSliceSpec(driver=without.spec.driver, pool=without.spec.pool, devices=[device])
    assert sizes_of(ResourceSlice(metadata=without.metadata, spec=spec)) == ()


def test_a_change_and_a_deletion_count_at_once() -> None:
    index = CardSizes()
    index.observe_slice(cards("a", "16Gi"))
    assert index.by_frequency() == (16 * GIBI,)
    index.observe_slice(cards("a", "80Gi"))
    assert index.by_frequency() == (80 * GIBI,)
    index.forget_slice(cards("other"))
    index.forget_slice(cards("a"))
    assert index.by_frequency() == ()
