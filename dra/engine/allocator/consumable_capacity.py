"""Devices that several claims may have a part of (``allowMultipleAllocations``): how much a part is, and what is left.

A claim may say how much of each capacity it wants; what it does not mention is given by the capacity's
``requestPolicy``, or is all of it. The policy may also round up, or refuse an amount: then the device is not for the
claim. Parts of one device add up to no more than it has. A device that is not shared must just have what is asked for.

Ranges with steps are computed in whole numbers, each of them rounded up. With ``DRAFractionalCapacityRange`` they are
computed in thousandths where all of their bounds are such: ``fractional``. That gate is off in Kubernetes 1.37 unless
its components are told that none of them is older (``--min-compatibility-version=1.37``). An amount beyond 64 bits
makes kube-scheduler give up the pod, whatever other devices offer: `UnrepresentableError`.
"""

from collections.abc import Mapping
from fractions import Fraction
from math import ceil
from typing import Any, Final, NamedTuple, TypeAlias

from dra.engine.devices.ledger import DeviceID
from dra.model import quantities
from dra.model.claims import AllocationResult
from dra.model.meta import Uid
from dra.model.quantities import MalformedQuantityError
from dra.model.slices import Device

ConsumedCapacity: TypeAlias = Mapping[str, Fraction]
"""Capacity, as the device calls it → amount."""

_NO_CAPACITY: Final[ConsumedCapacity] = {}

_THOUSANDTH: Final = Fraction(1, 1000)
_INT64_MAX: Final = 2**63 - 1


class UnrepresentableError(Exception):
    """An amount that kube-scheduler cannot compute with: no device is allocated to the pod."""


class RequestedQuantity(NamedTuple):
    """How much of a capacity a request takes, and how kube-scheduler writes that down."""

    value: Fraction
    text: str

    @classmethod
    def of(cls, text: str) -> "RequestedQuantity":
        """Return what a quantity says. Raises MalformedQuantityError."""
        return cls(quantities.parse(text), quantities.reserialize(text))


def calculate_consumed_capacity(
    device: Device, asked: Mapping[str, str], *, fractional: bool = False
) -> ConsumedCapacity | None:
    """Return how much of a device such a request takes: nothing of one that is not shared; None if it cannot.

    What others have of the device is left out of account. A request names a capacity as the device does: to
    kube-scheduler up to 1.37, a name with the driver's domain and one without are different. Raises
    UnrepresentableError.
    """
    found = _consumed_quantities(device, asked, fractional=fractional)
    if found is None:
        return None
    return {name: amount.value for name, amount in found.items()} if device.allow_multiple_allocations else _NO_CAPACITY


def consumed_capacity_quantities(
    device: Device, asked: Mapping[str, str], *, fractional: bool = False
) -> dict[str, str]:
    """Return ``consumedCapacity`` for such a request, for which `part` has found a part of the device.

    Amounts have the format of what they come from: of the request, of the policy's default, least or valid value, of
    the range's ``step`` where they were rounded up to it, or of the capacity.
    """
    if not device.allow_multiple_allocations:
        return {}
    found = _consumed_quantities(device, asked, fractional=fractional) or {}
    return {name: amount.text for name, amount in found.items()}


def _consumed_quantities(
    device: Device, asked: Mapping[str, str], *, fractional: bool
) -> dict[str, RequestedQuantity] | None:
    """Return how much such a request takes of each capacity of a device; None if it cannot."""
    try:
        wanted = {name: RequestedQuantity.of(text) for name, text in asked.items()}
        found: dict[str, RequestedQuantity] = {}
        for name, capacity in (device.capacity or {}).items():
            amount = _consumed_quantity(capacity, wanted.pop(name, None), fractional=fractional)
            if amount is None or amount.value > quantities.parse(capacity["value"]):
                return None
            found[name] = amount
    except (KeyError, ZeroDivisionError, MalformedQuantityError):
        return None
    return None if wanted else found  # what is left is of a capacity that the device does not have


def has_capacity_left(device: Device, wanted: ConsumedCapacity, used: ConsumedCapacity) -> bool:
    """Whether a part is still there."""
    capacity = device.capacity or {}
    return all(quantities.parse(capacity[n]["value"]) - used.get(n, 0) >= amount for n, amount in wanted.items())


class ConsumedCapacityCollection:
    """What claims have of shared devices."""

    def __init__(self) -> None:
        self._of: dict[Uid, list[tuple[DeviceID, ConsumedCapacity]]] = {}
        self._used: dict[DeviceID, dict[str, Fraction]] = {}

    def put(self, uid: Uid, allocation: AllocationResult | None) -> None:
        """Take in what a claim has now."""
        for item, amounts in self._of.pop(uid, ()):
            self._add(item, amounts, -1)
        if allocation is None:
            return
        parts = [
            (DeviceID(driver=r.driver, pool=r.pool, device=r.device), _parse_capacity(r.consumed_capacity))
            for r in allocation.devices.results or ()
            if r.consumed_capacity and not r.admin_access
        ]
        if parts:
            self._of[uid] = parts
        for item, amounts in parts:
            self._add(item, amounts, 1)

    def used(self, item: DeviceID) -> ConsumedCapacity:
        """Return what is given away of a device."""
        return self._used.get(item, _NO_CAPACITY)

    def _add(self, item: DeviceID, amounts: ConsumedCapacity, sign: int) -> None:
        used = self._used.setdefault(item, {})
        for name, amount in amounts.items():
            used[name] = used.get(name, Fraction(0)) + sign * amount
        if not any(used.values()):
            del self._used[item]


def _parse_capacity(amounts: Mapping[str, str]) -> ConsumedCapacity:
    return {name: quantities.parse(text) for name, text in amounts.items()}


def _consumed_quantity(
    capacity: Mapping[str, Any], wanted: RequestedQuantity | None, *, fractional: bool
) -> RequestedQuantity | None:
    """Return what is taken of a capacity when that much is wanted; None if its policy does not allow it."""
    policy = capacity.get("requestPolicy") or {}
    default = RequestedQuantity.of(policy["default"]) if policy.get("default") is not None else None
    if wanted is not None:
        amount = _round_up(policy, wanted, fractional=fractional)
    else:
        amount = RequestedQuantity.of(capacity["value"]) if default is None else default
    if amount.value < 0:
        raise UnrepresentableError(f"capacity value {amount.text} is negative")
    usual = default is not None and amount.value == default.value
    return amount if usual or _satisfies_policy(policy, amount.value, fractional=fractional) else None


def _round_up(policy: Mapping[str, Any], wanted: RequestedQuantity, *, fractional: bool) -> RequestedQuantity:
    """Return the least amount that a policy offers and that is enough; ``wanted`` itself if there is none."""
    bounds = policy.get("validRange") or {}
    if "min" not in bounds:
        values = map(RequestedQuantity.of, policy.get("validValues") or ())
        return wanted if bounds else next((value for value in values if value.value >= wanted.value), wanted)
    least = RequestedQuantity.of(bounds["min"])
    if wanted.value < least.value:
        return least
    if "step" not in bounds:
        return wanted
    unit, by = _range_unit(bounds, fractional=fractional), quantities.parse(bounds["step"])
    step, first, amount = (ceil(each / unit) for each in (by, least.value, wanted.value))
    rounded = first + -(-(amount - first) // step) * step
    if max(rounded, amount) > _INT64_MAX or (unit != 1 and (wanted.value / unit).denominator != 1):
        raise UnrepresentableError(f"capacity request {wanted.text} cannot be represented in the device's range")
    return RequestedQuantity(rounded * unit, quantities.canonical(rounded * unit, quantities.format_of(bounds["step"])))


def _satisfies_policy(policy: Mapping[str, Any], amount: Fraction, *, fractional: bool) -> bool:
    bounds = policy.get("validRange")
    if not bounds:
        values = policy.get("validValues")
        return not values or amount in map(quantities.parse, values)
    if "max" in bounds and amount > quantities.parse(bounds["max"]):
        return False
    if "step" not in bounds:
        return True
    unit = _range_unit(bounds, fractional=fractional)
    step, first = (ceil(quantities.parse(bounds.get(name, "0")) / unit) for name in ("step", "min"))
    return (ceil(amount / unit) - first) % step == 0


def _range_unit(bounds: Mapping[str, Any], *, fractional: bool) -> Fraction:
    """Return what a range is counted in."""
    amounts = [quantities.parse(bounds[name]) / _THOUSANDTH for name in ("min", "max", "step") if name in bounds]
    fine = fractional and all(amount.denominator == 1 and amount <= _INT64_MAX for amount in amounts)
    return _THOUSANDTH if fine else Fraction(1)
