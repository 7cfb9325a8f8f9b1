"""The sizes of the cards that the cluster publishes for shares, from the ResourceSlices of the GPU driver.

Of a pool only the slices of the highest generation count, as for schedulers. Cards without shares have no size here: a
request for a share would take such a card whole.
"""

from collections import Counter
from typing import Any, NamedTuple

from dra.api.koordinator import well_known
from dra.model import quantities
from dra.model.slices import Device, ResourceSlice


class _Slice(NamedTuple):
    pool: str
    generation: int
    sizes: Counter[int]


class CardSizes:
    """The index of card sizes, in bytes of memory."""

    def __init__(self) -> None:
        self._slices: dict[str, _Slice] = {}
        self._by_frequency: tuple[int, ...] | None = ()
        """None: to be computed again."""

    def observe_slice(self, found: ResourceSlice) -> None:
        """Record a ResourceSlice from a list or a watch."""
        if found.spec.driver != well_known.GPU_DRIVER:
            return
        sizes = Counter(size for each in found.spec.devices or () if (size := _size(each)) is not None)
        after = _Slice(found.spec.pool.name, found.spec.pool.generation, sizes)
        if self._slices.get(found.metadata.name) != after:
            self._slices[found.metadata.name] = after
            self._by_frequency = None

    def forget_slice(self, deleted: ResourceSlice) -> None:
        """Forget a deleted slice."""
        if self._slices.pop(deleted.metadata.name, None) is not None:
            self._by_frequency = None

    def by_frequency(self) -> tuple[int, ...]:
        """Return the sizes: those of most cards first, the larger first among equals."""
        if self._by_frequency is None:
            newest: dict[str, int] = {}
            for each in self._slices.values():
                newest[each.pool] = max(each.generation, newest.get(each.pool, each.generation))
            total: Counter[int] = Counter()
            for each in self._slices.values():
                if each.generation == newest[each.pool]:
                    total.update(each.sizes)
            self._by_frequency = tuple(sorted(total, key=lambda size: (-total[size], -size)))
        return self._by_frequency


def _size(device: Device) -> int | None:
    """Return the memory of a card that can be shared; None for other devices, and for text that is no quantity."""
    memory: Any = (device.capacity or {}).get(well_known.GPU_MEMORY)
    if not device.allow_multiple_allocations or not isinstance(memory, dict):
        return None
    try:
        return int(quantities.parse(str(memory.get("value", "")))) or None
    except quantities.MalformedQuantityError:
        return None
