"""The sizes of the cards that the cluster publishes for shares, from the ResourceSlices of the GPU driver.

Of a pool only the slices of the highest generation count, as for schedulers. Cards without shares have no size here: a
request for a share would take such a card whole.
"""

from collections import Counter
from typing import Any, NamedTuple

from dra.api.koordinator import well_known
from dra.model import quantities
from dra.model.slices import Device, ResourceSlice, newest_of_pools


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

    def observe_slice(self, resource_slice: ResourceSlice) -> None:
        """Record a ResourceSlice from a list or a watch."""
        if resource_slice.spec.driver != well_known.GPU_DRIVER:
            return
        sizes = Counter(size for device in resource_slice.spec.devices or () if (size := _size(device)) is not None)
        after = _Slice(resource_slice.spec.pool.name, resource_slice.spec.pool.generation, sizes)
        if self._slices.get(resource_slice.metadata.name) != after:
            self._slices[resource_slice.metadata.name] = after
            self._by_frequency = None

    def forget_slice(self, deleted: ResourceSlice) -> None:
        """Forget a deleted slice."""
        if self._slices.pop(deleted.metadata.name, None) is not None:
            self._by_frequency = None

    def by_frequency(self) -> tuple[int, ...]:
        """Return the sizes: those of most cards first, the larger first among equals."""
        if self._by_frequency is None:
            total: Counter[int] = Counter()
            for published in newest_of_pools(self._slices.values()):
                total.update(published.sizes)
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
