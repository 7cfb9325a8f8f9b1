"""Limits of memory bandwidth, from a percentage to the number that the kernel of a machine takes.

=================  =====================================================================  ==============
machine            number in an ``MB`` line                                               no limit
=================  =====================================================================  ==============
Intel              percent, in the steps of ``info/MB``                                   100
AMD, Hygon         eighths of a GB/s for each L3 cache                                    2048, or more
``mba_MBps``       MB/s, whatever the machine is; no percentage can be expressed          4294967295
=================  =====================================================================  ==============

AMD's numbers have no relation to a maximum that the kernel knows. Koordinator takes 25 GB/s for the cores of one L3
cache (measured on EPYC Milan), less a fifth, since the maximum is hard to reach: 25 · 8 · 0.8 = 160 (koordinator#216).
Its documents call the unit Gb/s; the kernel's unit is 1/8 GB/s, and so is ours.
"""

from collections.abc import Iterable
from enum import Enum
from typing import Final

from dra.model.meta import Struct

PERCENT_MAX: Final = 100
AMD_FULL: Final = 160
"""Eighths of a GB/s that count as 100 % for one L3 cache."""

AMD_UNLIMITED: Final = 2048
"""Number of AMD's machines for no limit; those with a wider register start with a larger one."""

AMD_PERCENT_MIN: Final = 10
"""Smallest percentage on AMD: below, the cores behind a cache share less than 2 GB/s and stall."""

_ABSOLUTE_VENDORS: Final = frozenset({"AuthenticAMD", "HygonGenuine"})
MBPS_OPTION: Final = "mba_MBps"


class BandwidthError(ValueError):
    """A percentage cannot be set on this machine; the text says why."""


class BandwidthUnit(Enum):
    """The unit of the numbers in ``MB`` lines."""

    PERCENT = "percent"
    EIGHTH_GIGABYTES = "1/8 GB/s"
    MEGABYTES = "MB/s"


class BandwidthSteps(Struct, frozen=True):
    """The numbers that a machine accepts."""

    unit: BandwidthUnit
    minimum: int = 10
    """``info/MB/min_bandwidth``."""

    step: int = 10
    """``info/MB/bandwidth_gran``."""

    unlimited: int = PERCENT_MAX
    """The number for no limit."""


def bandwidth_unit(*, vendor: str, mount_options: Iterable[str], numbers: Iterable[int]) -> BandwidthUnit:
    """Return the unit of a machine's ``MB`` lines, by its vendor, its mount options and the present `numbers`.

    A number above 100 is no percentage, whatever the vendor is: the mount table may be that of another namespace.
    """
    if MBPS_OPTION in mount_options:
        return BandwidthUnit.MEGABYTES
    if vendor in _ABSOLUTE_VENDORS:
        return BandwidthUnit.EIGHTH_GIGABYTES
    return BandwidthUnit.PERCENT if max(numbers, default=0) <= PERCENT_MAX else BandwidthUnit.MEGABYTES


def bandwidth(percent: int, *, steps: BandwidthSteps) -> int:
    """Return the number for a percentage; raises BandwidthError for one that this machine cannot express."""
    if not 0 < percent <= PERCENT_MAX:
        raise BandwidthError(f"mbaPercent {percent} is not within 1-100")
    if steps.unit is BandwidthUnit.MEGABYTES:
        raise BandwidthError(
            f"the numbers of this mount are MB/s (option {MBPS_OPTION}), so that no percentage can be set"
        )
    if percent == PERCENT_MAX:
        return steps.unlimited
    if steps.unit is BandwidthUnit.EIGHTH_GIGABYTES:
        if percent < AMD_PERCENT_MIN:
            raise BandwidthError(f"mbaPercent {percent} would stall the cores of this machine; the least is 10")
        return AMD_FULL * percent // PERCENT_MAX
    return _round_up_to_step(percent, steps)


def _round_up_to_step(percent: int, steps: BandwidthSteps) -> int:
    """Return the next step, as the kernel shows it: it rounds what is written up to a multiple of the step.

    A number that reads back differently would be written again and again.
    """
    step = max(steps.step, 1)
    number = steps.minimum + max(0, -(-(percent - steps.minimum) // step)) * step
    return min(-(-number // step) * step, PERCENT_MAX)
