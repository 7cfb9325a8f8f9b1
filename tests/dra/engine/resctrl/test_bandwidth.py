"""Numbers of memory bandwidth from percentages, by machine."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.engine.resctrl.bandwidth import BandwidthError, BandwidthSteps, BandwidthUnit, bandwidth, bandwidth_unit
from tests.violations import for_each_case

INTEL = BandwidthSteps(unit=BandwidthUnit.PERCENT)
AMD = BandwidthSteps(unit=BandwidthUnit.EIGHTH_GIGABYTES, minimum=1, step=1, unlimited=2048)
MBPS = BandwidthSteps(unit=BandwidthUnit.MEGABYTES)


@for_each_case(
    [
        *(pytest.param(INTEL, *pair, id=f"intel-{pair[0]}") for pair in [(1, 10), (7, 10), (30, 30), (55, 60)]),
        *(pytest.param(INTEL, *pair, id=f"intel-{pair[0]}") for pair in [(85, 90), (91, 100), (99, 100), (100, 100)]),
        pytest.param(BandwidthSteps(unit=BandwidthUnit.PERCENT, minimum=20, step=20), 15, 20, id="steps-of-20-least"),
        pytest.param(BandwidthSteps(unit=BandwidthUnit.PERCENT, minimum=20, step=20), 55, 60, id="steps-of-20"),
        pytest.param(BandwidthSteps(unit=BandwidthUnit.PERCENT, minimum=5, step=10), 7, 20, id="as-the-kernel-rounds"),
        pytest.param(BandwidthSteps(unit=BandwidthUnit.PERCENT, minimum=1, step=1), 37, 37, id="steps-of-1"),
        pytest.param(BandwidthSteps(unit=BandwidthUnit.PERCENT, minimum=10, step=0), 37, 37, id="step-of-nothing"),
        *(pytest.param(AMD, *pair, id=f"amd-{pair[0]}") for pair in [(10, 16), (25, 40), (30, 48), (55, 88), (60, 96)]),
        *(pytest.param(AMD, *pair, id=f"amd-{pair[0]}") for pair in [(75, 120), (80, 128), (85, 136), (99, 158)]),
        pytest.param(AMD, 100, 2048, id="amd-no-limit"),
        pytest.param(
            BandwidthSteps(unit=BandwidthUnit.EIGHTH_GIGABYTES, unlimited=4096), 100, 4096, id="wider-register"
        ),
    ],
)
def test_a_percentage_becomes_the_number_of_the_machine(steps, percent, number):
    assert bandwidth(percent, steps=steps) == number


@pytest.mark.parametrize(
    ("steps", "percent", "text"),
    [
        pytest.param(AMD, 1, "would stall", id="amd-below-the-least"),
        pytest.param(AMD, 9, "the least is 10", id="amd-just-below-the-least"),
        pytest.param(MBPS, 30, "mba_MBps", id="mount-in-megabytes"),
        pytest.param(INTEL, 0, "not within 1-100", id="zero"),
        pytest.param(INTEL, -10, "not within 1-100", id="negative"),
        pytest.param(AMD, 101, "not within 1-100", id="more-than-all"),
    ],
)
def test_a_percentage_that_the_machine_cannot_express_is_refused(steps, percent, text):
    with pytest.raises(BandwidthError, match=text):
        bandwidth(percent, steps=steps)


@for_each_case(
    [
        pytest.param("GenuineIntel", ["rw"], [100, 50], BandwidthUnit.PERCENT, id="intel"),
        pytest.param("AuthenticAMD", ["rw"], [2048], BandwidthUnit.EIGHTH_GIGABYTES, id="amd"),
        pytest.param("HygonGenuine", ["rw"], [2048], BandwidthUnit.EIGHTH_GIGABYTES, id="hygon"),
        pytest.param("", ["rw"], [100], BandwidthUnit.PERCENT, id="arm-has-no-vendor"),
        pytest.param("GenuineIntel", ["rw", "mba_MBps"], [4294967295], BandwidthUnit.MEGABYTES, id="mount-option"),
        pytest.param("AuthenticAMD", ["mba_MBps"], [], BandwidthUnit.MEGABYTES, id="mount-option-comes-first"),
        pytest.param("GenuineIntel", [], [4294967295], BandwidthUnit.MEGABYTES, id="mount-table-of-another-namespace"),
    ]
)
def test_the_unit_follows_from_mount_vendor_and_present_numbers(vendor, options, numbers, unit):
    assert bandwidth_unit(vendor=vendor, mount_options=options, numbers=numbers) is unit


@given(percent=st.integers(1, 100), minimum=st.integers(1, 40), step=st.integers(1, 40))
def test_a_number_reads_back_as_it_was_written(percent, minimum, step):
    number = bandwidth(percent, steps=BandwidthSteps(unit=BandwidthUnit.PERCENT, minimum=minimum, step=step))
    assert min(percent, 100) <= number <= 100
    assert number >= minimum
    assert number == 100 or number % step == 0
