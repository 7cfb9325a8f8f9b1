"""Consumable capacity (KEP-5075): shares of devices that several claims may use (``allowMultipleAllocations``).

A request may name a quantity for each capacity of a device. Where the request names none, the ``requestPolicy`` of the
capacity decides; without a policy, the request consumes the whole capacity. The policy may also round the quantity up
or reject it; after a rejection the claim cannot use the device. The shares of a device never add up to more than its
capacity. A device that is not shared only has to have the requested quantities.

Ranges with steps are computed in whole numbers, each of them rounded up. With ``DRAFractionalCapacityRange`` they are
computed in thousandths if all bounds of the range are multiples of a thousandth: ``fractional``. That gate is off in
Kubernetes 1.37 unless its components run with ``--min-compatibility-version=1.37`` (no component is older). A quantity
beyond 64 bits makes kube-scheduler give up the pod, whatever other devices offer: `UnrepresentableError`.
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
"""Name of a capacity, as the device has it → consumed amount."""

_NO_CAPACITY: Final[ConsumedCapacity] = {}

_THOUSANDTH: Final = Fraction(1, 1000)
_INT64_MAX: Final = 2**63 - 1


class UnrepresentableError(Exception):
    """A quantity that kube-scheduler cannot compute with: no device is allocated to the pod."""


class RequestedQuantity(NamedTuple):
    """A quantity that a request consumes of a capacity, with the text that kube-scheduler writes for it."""

    value: Fraction
    text: str

    @classmethod
    def of(cls, text: str) -> "RequestedQuantity":
        """Return the quantity that a text stands for. Raises MalformedQuantityError."""
        return cls(quantities.parse(text), quantities.reserialize(text))


def calculate_consumed_capacity(
    device: Device, requested: Mapping[str, str], *, fractional: bool = False
) -> ConsumedCapacity | None:
    """Return what a request consumes of a device: nothing of a device that is not shared; None if the request cannot.

    The shares of other claims are not counted. A request names a capacity as the device does: for kube-scheduler up to
    1.37, a name with the driver's domain and a name without it are different. Raises UnrepresentableError.
    """
    found = _consumed_quantities(device, requested, fractional=fractional)
    if found is None:
        return None
    return {name: amount.value for name, amount in found.items()} if device.allow_multiple_allocations else _NO_CAPACITY


def consumed_capacity_quantities(
    device: Device, requested: Mapping[str, str], *, fractional: bool = False
) -> dict[str, str]:
    """Return ``consumedCapacity`` for a request, if `calculate_consumed_capacity` has found a share of the device.

    Quantities have the format of their source: the request, the default, minimum or valid value of the policy, the
    ``step`` of the range to which they were rounded up, or the capacity.
    """
    if not device.allow_multiple_allocations:
        return {}
    found = _consumed_quantities(device, requested, fractional=fractional) or {}
    return {name: amount.text for name, amount in found.items()}


def _consumed_quantities(
    device: Device, requested: Mapping[str, str], *, fractional: bool
) -> dict[str, RequestedQuantity] | None:
    """Return the quantity that a request consumes of each capacity of a device; None if the device cannot serve it."""
    try:
        wanted = {name: RequestedQuantity.of(text) for name, text in requested.items()}
        found: dict[str, RequestedQuantity] = {}
        for name, capacity in (device.capacity or {}).items():
            amount = _consumed_quantity(capacity, wanted.pop(name, None), fractional=fractional)
            if amount is None or amount.value > quantities.parse(capacity["value"]):
                return None
            found[name] = amount
    except (KeyError, ZeroDivisionError, MalformedQuantityError):
        return None
    return None if wanted else found  # the rest names capacities that the device does not have


def has_capacity_left(device: Device, wanted: ConsumedCapacity, used: ConsumedCapacity) -> bool:
    """Report whether a device has the wanted capacity left beside the used capacity."""
    capacity = device.capacity or {}
    return all(quantities.parse(capacity[n]["value"]) - used.get(n, 0) >= amount for n, amount in wanted.items())


class ConsumedCapacityCollection:
    """The capacity that claims consume of shared devices."""

    def __init__(self) -> None:
        self._by_claim: dict[Uid, list[tuple[DeviceID, ConsumedCapacity]]] = {}
        self._consumed: dict[DeviceID, dict[str, Fraction]] = {}

    def observe_allocation(self, uid: Uid, allocation: AllocationResult | None) -> None:
        """Replace the shares of a claim with those of its current allocation."""
        for item, amounts in self._by_claim.pop(uid, ()):
            self._add(item, amounts, -1)
        if allocation is None:
            return
        parts = [
            (DeviceID(driver=r.driver, pool=r.pool, device=r.device), _parse_capacity(r.consumed_capacity))
            for r in allocation.devices.results or ()
            if r.consumed_capacity and not r.admin_access
        ]
        if parts:
            self._by_claim[uid] = parts
        for item, amounts in parts:
            self._add(item, amounts, 1)

    def consumed(self, item: DeviceID) -> ConsumedCapacity:
        """Return the capacity that claims consume of a device."""
        return self._consumed.get(item, _NO_CAPACITY)

    def _add(self, item: DeviceID, amounts: ConsumedCapacity, sign: int) -> None:
        used = self._consumed.setdefault(item, {})
        for name, amount in amounts.items():
            used[name] = used.get(name, Fraction(0)) + sign * amount
        if not any(used.values()):
            del self._consumed[item]


def _parse_capacity(amounts: Mapping[str, str]) -> ConsumedCapacity:
    return {name: quantities.parse(text) for name, text in amounts.items()}


def _consumed_quantity(
    capacity: Mapping[str, Any], wanted: RequestedQuantity | None, *, fractional: bool
) -> RequestedQuantity | None:
    """Return the quantity consumed of a capacity for a requested quantity; None if the policy rejects it."""
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
    """Return the least quantity that a policy offers and that suffices; ``wanted`` itself if there is none."""
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
    """Return the unit in which a range is counted: a thousandth or one."""
    amounts = [quantities.parse(bounds[name]) / _THOUSANDTH for name in ("min", "max", "step") if name in bounds]
    fine = fractional and all(amount.denominator == 1 and amount <= _INT64_MAX for amount in amounts)
    return _THOUSANDTH if fine else Fraction(1)
