"""The GPUs that prepared claims hold: which cards, and with which time slices.

A claim's device names belong to cards (`device_names`), but the name in a checkpoint may be older than the names of
this build. So a prepared device contains the identity of its GPU. A build before this one recorded none, and drops it
when it writes the checkpoint: then the container edits tell the uuid, or the PCI address of a GPU without one.
"""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from kubeletplugin.contract import PreparedClaim, PreparedDevice
from kubeletplugin.drivers.gpu.container_edits import identity_in
from kubeletplugin.drivers.gpu.device_names import Card
from kubeletplugin.drivers.gpu.devices import DRIVER_NAME
from kubeletplugin.inventory.pci import normalize_pci_address


def identity_of(card: Card) -> Mapping[str, str]:
    """Return a card as the identity of a prepared device."""
    identity: dict[str, str] = msgspec.to_builtins(card)
    return identity


def held_card(device: PreparedDevice) -> Card:
    """Return the card of a prepared device; one without any identity if none was recorded."""
    if device.identity:
        return msgspec.convert(device.identity, Card)
    text = identity_in(device.edits)
    if address := normalize_pci_address(text):
        return Card(pci_bus_id=address)
    return Card() if text == device.device else Card(uuid=text)


def is_card(device: PreparedDevice, card: Card) -> bool:
    """Report whether a prepared device is certainly a card; cheap where both have a uuid, as nearly all have."""
    uuid = device.identity.get("uuid")
    return uuid == card.uuid if uuid and card.uuid else held_card(device).is_same(card)


def cards_by_name(preparations: Iterable[PreparedClaim]) -> Iterator[tuple[str, Card]]:
    """Yield name and card of each GPU of the claims."""
    for preparation in preparations:
        if preparation.driver == DRIVER_NAME:
            yield from ((device.device, held_card(device)) for device in preparation.devices)


def time_slices_of(preparation: PreparedClaim) -> Mapping[str, str]:
    """Return the time slices that a claim requests, by device name."""
    slices: Mapping[str, str] = preparation.state.get("timeSlices", {})
    return slices


def time_slices_by_uuid(preparations: Iterable[PreparedClaim]) -> dict[str, str]:
    """Return the time slices that claims request, by uuid of the GPU."""
    intervals: dict[str, str] = {}
    for preparation in preparations:
        slices = time_slices_of(preparation)
        for name, card in cards_by_name((preparation,)) if slices else ():
            if card.uuid and name in slices:
                intervals[card.uuid] = slices[name]
    return intervals
