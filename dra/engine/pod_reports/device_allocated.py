"""The annotation ``scheduling.koordinator.sh/device-allocated``: the GPUs of a pod and the part of each.

``{"gpu":[{"minor":1,"resources":{"koordinator.sh/gpu-core":"50","koordinator.sh/gpu-memory":"8Gi",
"koordinator.sh/gpu-memory-ratio":"50"},"id":"GPU-…"}]}``, one entry for each result of the pod's claims.

A GPU that is not shared is reported with all of its compute and memory. A share without compute has no ``gpu-core``.
The ratio is rounded down: bytes are what is accounted.
"""

from collections.abc import Iterable
from fractions import Fraction
from typing import Any, Final

import msgspec

from dra.api.koordinator import well_known
from dra.engine.pod_reports.cards import Card, CardIndex
from dra.model import quantities
from dra.model.claims import DeviceRequestAllocationResult

_WHOLE: Final = 100


class UnknownCardError(Exception):
    """A result names a GPU that no slice publishes yet."""


def device_allocated(results: Iterable[DeviceRequestAllocationResult], cards: CardIndex) -> str | None:
    """Return the value of the annotation; None if no result is a GPU of the driver that is published.

    A result with adminAccess takes no part of the GPU and is left out. Raises UnknownCardError.
    """
    entries = []
    for result in results:
        if result.driver != well_known.GPU_DRIVER or result.admin_access:
            continue
        card = cards.find(result.pool, result.device)
        if card is None:
            raise UnknownCardError(f"pool {result.pool}: device {result.device} is in no ResourceSlice")
        entries.append(_entry(result, card))
    if not entries:
        return None
    entries.sort(key=lambda entry: (entry["minor"], msgspec.json.encode(entry)))
    return msgspec.json.encode({"gpu": entries}).decode()


def _entry(result: DeviceRequestAllocationResult, card: Card) -> dict[str, Any]:
    entry: dict[str, Any] = {"minor": card.minor, "resources": card_resources(result, card)}
    return entry | ({"id": card.uuid} if card.uuid else {})


def card_resources(result: DeviceRequestAllocationResult, card: Card | None) -> dict[str, str]:
    """Return the part of a card that a result was given; without a card, what the result alone tells."""
    consumed = result.consumed_capacity or {}
    is_share = result.share_id is not None
    core = consumed.get(well_known.GPU_CORE, "0") if is_share else str(_WHOLE)
    memory = consumed.get(well_known.GPU_MEMORY, "") if is_share else card.memory if card else ""
    resources: dict[str, str] = {}
    if quantities.parse(core):
        resources[well_known.RESOURCE_GPU_CORE] = core
    if memory:
        resources[well_known.RESOURCE_GPU_MEMORY] = memory
        if card is not None and card.bytes:
            resources[well_known.RESOURCE_GPU_MEMORY_RATIO] = str(_ratio(quantities.parse(memory), card.bytes))
    return resources


def _ratio(part: Fraction, whole: Fraction) -> int:
    return _WHOLE * part // whole
