"""The GPUs that ResourceSlices publish: minor number, uuid and memory of each."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Final, TypeAlias

from dra.api.koordinator.well_known import GPU_DRIVER, GPU_MEMORY
from dra.model import quantities
from dra.model.meta import Struct
from dra.model.slices import Device, ResourceSlice

CardID: TypeAlias = tuple[str, str]
"""Pool and device."""

_MINOR: Final = "minor"
_UUID: Final = "uuid"


class Card(Struct, frozen=True):
    """A GPU that a ResourceSlice publishes."""

    minor: int
    uuid: str = ""
    memory: str = ""
    """Memory, as a quantity; empty if unknown."""

    @property
    def bytes(self) -> Fraction:
        """The memory in bytes; 0 if unknown."""
        return quantities.parse(self.memory) if self.memory else Fraction(0)


class CardIndex:
    """The published GPUs by pool and device; `observe` and `forget` follow the ResourceSlices."""

    def __init__(self) -> None:
        self._slices: dict[str, dict[CardID, Card]] = {}
        self._cards: dict[CardID, Card] = {}

    def find(self, pool: str, device: str) -> Card | None:
        """Return a GPU; None if no slice publishes the GPU."""
        return self._cards.get((pool, device))

    def observe(self, resource_slice: ResourceSlice) -> None:
        """Record the GPUs of a slice."""
        if resource_slice.spec.driver != GPU_DRIVER:
            return
        pool = resource_slice.spec.pool.name
        cards = {
            (pool, device.name): card
            for device in resource_slice.spec.devices or ()
            if (card := _card(device)) is not None
        }
        before = self._slices.get(resource_slice.metadata.name, {})
        self._slices[resource_slice.metadata.name] = cards
        for gone in before.keys() - cards.keys():
            self._cards.pop(gone, None)
        self._cards |= cards

    def forget(self, resource_slice: ResourceSlice) -> None:
        """Remove the GPUs of a deleted slice, except those that another slice publishes meanwhile."""
        for gone in self._slices.pop(resource_slice.metadata.name, {}):
            self._cards.pop(gone, None)
        for cards in self._slices.values():
            self._cards |= cards


def _card(device: Device) -> Card | None:
    """Return a device as a GPU; None without a number, which another driver of that name may leave out."""
    attributes: Mapping[str, Any] = device.attributes or {}
    minor = _value(attributes.get(_MINOR), "int")
    if not isinstance(minor, int):
        return None
    uuid = _value(attributes.get(_UUID), "string")
    memory = _value((device.capacity or {}).get(GPU_MEMORY), "value")
    return Card(
        minor=minor, uuid=uuid if isinstance(uuid, str) else "", memory=memory if isinstance(memory, str) else ""
    )


def _value(field: object, kind: str) -> object:
    return field.get(kind) if isinstance(field, Mapping) else None
