"""Masks of cache ways from percentages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.engine.resctrl.cache_masks import CacheMask, CacheRangeError, CacheWays, cache_mask
from tests.violations import for_each_case


@for_each_case(
    [
        pytest.param(0x3FF, 0, 100, 0x3FF, id="release-notes-of-koordinator-LS"),
        pytest.param(0x3FF, 0, 30, 0x7, id="release-notes-of-koordinator-BE-on-intel"),
        pytest.param(0xFFFF, 0, 30, 0x1F, id="release-notes-of-koordinator-BE-on-amd"),
        pytest.param(0x3FF, 10, 80, 0xFE, id="ten-ways-10-80"),
        pytest.param(0x7FF, 10, 50, 0x3C, id="eleven-ways-10-50"),
        pytest.param(0x3FF, 10, 85, 0x1FE, id="ten-ways-10-85"),
        pytest.param(0xFF, 0, 100, 0xFF, id="all-of-eight-ways"),
        pytest.param(0xFFFFF, 0, 30, 0x3F, id="twenty-ways"),
        pytest.param(0xFF, 0, 1, 0x1, id="one-percent-is-a-way"),
        pytest.param(0xFFF, 50, 100, 0xFC0, id="upper-half"),
        pytest.param(0xFFF, 0, 30, 0xF, id="lower-part-of-twelve"),
        pytest.param(0xFFF, 30, 100, 0xFF0, id="upper-part-shares-no-way-with-the-lower"),
        pytest.param(0x7FFF, 0, 30, 0x1F, id="fifteen-ways"),
    ]
)
def test_a_range_of_percentages_is_a_row_of_ways(full, start, end, mask):
    assert cache_mask(start, end, ways=CacheWays(full=full)) == CacheMask(bits=mask)


@for_each_case(
    [
        pytest.param(0x3FF, 1, 11, 19, 0x2, id="range-within-a-way-gets-that-way-and-is-never-empty"),
        pytest.param(0xFFFF, 1, 95, 99, 0x8000, id="range-within-the-last-way"),
        pytest.param(0x3FF, 1, 99, 100, 0x200, id="last-percent"),
        pytest.param(0xFF, 2, 0, 10, 0x3, id="one-way-where-the-machine-wants-two"),
        pytest.param(0xFF, 2, 95, 100, 0xC0, id="two-ways-at-the-top-grow-downwards"),
        pytest.param(0xFF, 3, 40, 41, 0x38, id="empty-range-where-the-machine-wants-three"),
        pytest.param(0x3, 8, 0, 1, 0x3, id="machine-wants-more-ways-than-there-are"),
    ]
)
def test_a_range_with_too_few_ways_is_widened_and_says_so(full, min_bits, start, end, mask):
    assert cache_mask(start, end, ways=CacheWays(full=full, min_bits=min_bits)) == CacheMask(bits=mask, widened=True)


def test_amd_reports_that_no_way_is_needed_and_an_empty_mask_is_widened_all_the_same():
    assert cache_mask(11, 19, ways=CacheWays(full=0x3FF, min_bits=0)) == CacheMask(bits=0x2, widened=True)


@pytest.mark.parametrize(
    ("start", "end"),
    [
        pytest.param(-10, 50, id="negative-start"),
        pytest.param(30, 30, id="start-is-end"),
        pytest.param(50, 30, id="reversed"),
        pytest.param(0, 101, id="more-than-all"),
        pytest.param(0, 0, id="nothing"),
    ],
)
def test_a_range_without_extent_is_refused(start, end):
    with pytest.raises(CacheRangeError, match=f"{start}-{end} %"):
        cache_mask(start, end, ways=CacheWays(full=0x3FF))


@pytest.mark.parametrize("full", [0x0, 0x5, 0x101, 0x4, -1])
def test_a_machine_mask_that_is_no_row_of_ways_is_refused(full):
    with pytest.raises(CacheRangeError, match="not a row of ways"):
        CacheWays(full=full)


@given(count=st.integers(1, 64), min_bits=st.integers(0, 4), ends=st.tuples(st.integers(0, 100), st.integers(0, 100)))
def test_each_mask_is_one_the_kernel_accepts_and_covers_the_range(count, min_bits, ends):
    start, end = sorted(ends)
    ways = CacheWays(full=(1 << count) - 1, min_bits=min_bits)
    if start == end:
        return
    bits = cache_mask(start, end, ways=ways).bits
    lowest = bits & -bits
    assert 0 < bits <= ways.full
    assert (bits // lowest + 1).bit_count() == 1  # adjacent
    assert bits.bit_count() >= min(min_bits, count)


@given(count=st.integers(2, 64), middle=st.integers(1, 99))
def test_two_ranges_that_touch_share_a_way_only_if_one_of_them_was_widened(count, middle):
    ways = CacheWays(full=(1 << count) - 1)
    lower, upper = cache_mask(0, middle, ways=ways), cache_mask(middle, 100, ways=ways)
    assert lower.widened or upper.widened or lower.bits & upper.bits == 0
