"""Devices that several claims may have a part of (``allowMultipleAllocations``): how much a part is, and what is left.

A claim may say how much of each capacity it wants; what it does not mention is given by the capacity's
``requestPolicy``, or is all of it. The policy may also round up. Parts of one device add up to no more than it has.
A device that is not shared must just have what is asked for.
"""

from collections.abc import Mapping
from fractions import Fraction
from math import ceil
from typing import Any, Final, TypeAlias

from dra.engine.ledger import Item
from dra.model import quantities
from dra.model.claims import AllocationResult
from dra.model.meta import Uid
from dra.model.quantities import MalformedQuantityError
from dra.model.slices import Device

Part: TypeAlias = Mapping[str, Fraction]
"""Capacity, as the device calls it → amount."""

_NONE: Final[Part] = {}


def part(device: Device, asked: Mapping[str, str], *, driver: str) -> Part | None:
    """Return how much of a device such a request takes: nothing of one that is not shared; None if it cannot."""
    try:
        wanted = {_whole(name, driver): quantities.parse(text) for name, text in asked.items()}
        found: dict[str, Fraction] = {}
        for name, capacity in (device.capacity or {}).items():
            amount = _amount(capacity, wanted.pop(_whole(name, driver), None))
            if amount is None or amount > quantities.parse(capacity["value"]):
                return None
            found[name] = amount
    except (KeyError, MalformedQuantityError):
        return None
    if wanted:  # of a capacity that the device does not have
        return None
    return found if device.allow_multiple_allocations else _NONE


def fits(device: Device, wanted: Part, used: Part) -> bool:
    """Whether a part is still there."""
    capacity = device.capacity or {}
    return all(quantities.parse(capacity[n]["value"]) - used.get(n, 0) >= amount for n, amount in wanted.items())


def written(amount: Fraction) -> str:
    """Return an amount as a quantity: whole, or in the greatest unit that shows all of it."""
    if amount.denominator == 1:
        for suffix, unit in _UNITS.items():
            if amount and amount % unit == 0:
                return f"{amount // unit}{suffix}"
        return str(amount)
    return f"{ceil(amount * 1000)}m"


_UNITS: Final = {"Ti": 2**40, "Gi": 2**30, "Mi": 2**20, "Ki": 2**10}


class Shares:
    """What claims have of shared devices."""

    def __init__(self) -> None:
        self._of: dict[Uid, list[tuple[Item, Part]]] = {}
        self._used: dict[Item, dict[str, Fraction]] = {}

    def put(self, uid: Uid, allocation: AllocationResult | None) -> None:
        """Take in what a claim has now."""
        for item, amounts in self._of.pop(uid, ()):
            self._add(item, amounts, -1)
        if allocation is None:
            return
        parts = [
            (Item(driver=r.driver, pool=r.pool, device=r.device), _parsed(r.consumed_capacity))
            for r in allocation.devices.results or ()
            if r.consumed_capacity and not r.admin_access
        ]
        if parts:
            self._of[uid] = parts
        for item, amounts in parts:
            self._add(item, amounts, 1)

    def used(self, item: Item) -> Part:
        """Return what is given away of a device."""
        return self._used.get(item, _NONE)

    def _add(self, item: Item, amounts: Part, sign: int) -> None:
        used = self._used.setdefault(item, {})
        for name, amount in amounts.items():
            used[name] = used.get(name, Fraction(0)) + sign * amount
        if not any(used.values()):
            del self._used[item]


def _whole(name: str, driver: str) -> str:
    return name if "/" in name else f"{driver}/{name}"


def _parsed(amounts: Mapping[str, str]) -> Part:
    return {name: quantities.parse(text) for name, text in amounts.items()}


def _amount(capacity: Mapping[str, Any], wanted: Fraction | None) -> Fraction | None:
    """Return what is taken of a capacity when that much is wanted; None if its policy does not allow it."""
    policy = capacity.get("requestPolicy") or {}
    if wanted is None:
        return quantities.parse(policy["default"]) if "default" in policy else quantities.parse(capacity["value"])
    if policy.get("validValues"):
        return min((v for v in map(quantities.parse, policy["validValues"]) if v >= wanted), default=None)
    bounds = policy.get("validRange")
    if not bounds:
        return wanted
    least = quantities.parse(bounds.get("min", "0"))
    amount = max(wanted, least)
    if "step" in bounds:
        step = quantities.parse(bounds["step"])
        amount = least + ceil((amount - least) / step) * step
    return None if "max" in bounds and amount > quantities.parse(bounds["max"]) else amount
