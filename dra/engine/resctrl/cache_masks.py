"""Bit masks of L3 cache ways, from the percentages of a strategy.

A mask has one bit for each way of the cache. The kernel accepts a mask only if its bits are adjacent and there are at
least ``min_cbm_bits`` of them. So a range that is narrower than a way gets the way in which it lies: an empty mask
would be refused, and the group would keep whatever it had.
"""

from typing import Final

from dra.model.meta import Struct

PERCENT_MAX: Final = 100
"""The end of the range of all ways."""


class CacheRangeError(ValueError):
    """A range of percentages or a mask of the machine is unusable; the text says why."""


class CacheWays(Struct, frozen=True):
    """The ways of a cache, as ``info/L3/cbm_mask`` and ``info/L3/min_cbm_bits`` describe them."""

    full: int
    """The mask of all ways."""

    min_bits: int = 1
    """Number of ways that each mask must have at least."""

    def __post_init__(self) -> None:
        """Check the mask; raises CacheRangeError for one that is zero or has gaps."""
        if self.full <= 0 or self.full & (self.full + 1):
            raise CacheRangeError(f"cbm_mask {self.full:x} is not a row of ways")

    @property
    def count(self) -> int:
        """The number of ways."""
        return self.full.bit_length()


class CacheMask(Struct, frozen=True):
    """A mask that the kernel accepts."""

    bits: int
    widened: bool = False
    """Whether the range alone has fewer ways than the kernel accepts, or none."""


def cache_mask(start: int, end: int, *, ways: CacheWays) -> CacheMask:
    """Return the mask of the ways from one percentage to another; raises CacheRangeError for a range without extent.

    Both ends are rounded up to whole ways, as Koordinator does: a range that begins where another one ends never shares
    a way with it.
    """
    if not 0 <= start < end <= PERCENT_MAX:
        raise CacheRangeError(f"the cache range {start}-{end} % is not within 0-100 %, or has no extent")
    first, after = _way_at(start, ways), _way_at(end, ways)
    least = min(max(ways.min_bits, 1), ways.count)
    if after - first >= least:
        return CacheMask(bits=(1 << after) - (1 << first))
    first = min(ways.count * start // PERCENT_MAX if first == after else first, ways.count - least)
    return CacheMask(bits=((1 << least) - 1) << first, widened=True)


def _way_at(percent: int, ways: CacheWays) -> int:
    return -(-ways.count * percent // PERCENT_MAX)
