"""Consumable capacity (KEP-5075): shares of devices that several claims may use (``allowMultipleAllocations``).

A request may name a quantity for each capacity of a device. Where the request names none, the ``requestPolicy`` of the
capacity decides; without a policy, the request consumes the whole capacity. The policy may also round the quantity up
or reject it; after a rejection the claim cannot use the device. The shares of a device never add up to more than its
capacity. A device that is not shared only has to have the requested quantities.

Ranges with steps are computed in whole numbers, each of them rounded up. With ``DRAFractionalCapacityRange`` they are
computed in thousandths if all bounds of the range are multiples of a thousandth. That gate is off in Kubernetes 1.37
unless its components run with ``--min-compatibility-version=1.37`` (no component is older), and on since 1.38. A
quantity beyond 64 bits makes kube-scheduler give up the pod, whatever other devices offer: `UnrepresentableError`.

Since 1.38 a name without a domain is in the driver's domain, in requests, in consumed amounts and on devices; up to
1.37 the two spellings are different capacities. Amounts have the spelling of the device in either case.
"""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from math import ceil
from typing import Any, Final, NamedTuple, TypeAlias

from dra.engine.devices.allocator_releases import RELEASE_1_37, AllocatorRelease
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
    """A request that kube-scheduler cannot compute with: no device is allocated to the pod."""


class RequestedQuantity(NamedTuple):
    """A quantity that a request consumes of a capacity, with the text that kube-scheduler writes for it."""

    value: Fraction
    text: str

    @classmethod
    def of(cls, text: str) -> "RequestedQuantity":
        """Return the quantity that a text stands for. Raises MalformedQuantityError."""
        return cls(quantities.parse(text), quantities.reserialize(text))


def calculate_consumed_capacity(
    device: Device, requested: Mapping[str, str], *, driver: str, release: AllocatorRelease = RELEASE_1_37
) -> ConsumedCapacity | None:
    """Return what a request consumes of a device: nothing of a device that is not shared; None if the request cannot.

    The shares of other claims are not counted. Raises UnrepresentableError.
    """
    amounts = _consumed_quantities(device, requested, driver=driver, release=release)
    if amounts is None:
        return None
    return {n: amount.value for n, amount in amounts.items()} if device.allow_multiple_allocations else _NO_CAPACITY


def consumed_capacity_quantities(
    device: Device, requested: Mapping[str, str], *, driver: str, release: AllocatorRelease = RELEASE_1_37
) -> dict[str, str]:
    """Return ``consumedCapacity`` for a request, if `calculate_consumed_capacity` has found a share of the device.

    Quantities have the format of their source: the request, the default, minimum or valid value of the policy, the
    ``step`` of the range to which they were rounded up, or the capacity.
    """
    if not device.allow_multiple_allocations:
        return {}
    amounts = _consumed_quantities(device, requested, driver=driver, release=release) or {}
    return {name: amount.text for name, amount in amounts.items()}


def as_device_names(
    device: Device, amounts: ConsumedCapacity, *, driver: str, release: AllocatorRelease
) -> ConsumedCapacity:
    """Return amounts that claims consume by the names that the device has now, which may be spelt otherwise."""
    if not release.full_names:
        return amounts
    names = device_names(device, amounts, driver=driver, release=release)
    if all(name == known for name, known in names.items()):
        return amounts
    renamed: dict[str, Fraction] = {}
    for name, amount in amounts.items():
        renamed[names[name]] = renamed.get(names[name], Fraction(0)) + amount
    return renamed


def device_names(device: Device, named: Iterable[str], *, driver: str, release: AllocatorRelease) -> dict[str, str]:
    """Return the name that a device has for each named capacity; the same name for what the device does not have."""
    names = _device_names(device, driver=driver, release=release)
    return {name: names.get(_key(name, driver=driver, release=release), name) for name in named}


def _key(name: str, *, driver: str, release: AllocatorRelease) -> str:
    """Return the name by which an allocator of a release compares a capacity."""
    return name if "/" in name or not release.full_names else f"{driver}/{name}"


def _device_names(device: Device, *, driver: str, release: AllocatorRelease) -> dict[str, str]:
    """Return the name that a device has for each capacity, by `_key`. Of both spellings the one with domain counts."""
    names: dict[str, str] = {}
    for name in device.capacity or ():
        key = _key(name, driver=driver, release=release)
        names[key] = name if "/" in name else names.get(key, name)
    return names


def _consumed_quantities(
    device: Device, requested: Mapping[str, str], *, driver: str, release: AllocatorRelease
) -> dict[str, RequestedQuantity] | None:
    """Return the quantity that a request consumes of each capacity of a device; None if the device cannot serve it."""
    names = _device_names(device, driver=driver, release=release)
    keys = [_key(name, driver=driver, release=release) for name in requested]
    if not names.keys() >= set(keys):
        return None
    if twice := next((key for i, key in enumerate(keys) if key in keys[:i]), None):
        raise UnrepresentableError(f"capacity {twice} is requested twice, with the domain of the driver and without it")
    try:
        wanted = {key: RequestedQuantity.of(text) for key, text in zip(keys, requested.values(), strict=True)}
        capacities = {name: (device.capacity or {})[name] for name in names.values()}
        amounts = {
            name: _consumed_quantity(capacities[name], wanted.get(key), fractional=release.fractional)
            for key, name in names.items()
        }
        for name, amount in amounts.items():
            allowed = _is_default(capacities[name], amount) or _satisfies_policy(
                capacities[name].get("requestPolicy") or {}, amount.value, fractional=release.fractional
            )
            if not allowed or amount.value > quantities.parse(capacities[name]["value"]):
                return None
    except (KeyError, ZeroDivisionError, MalformedQuantityError):
        return None
    return amounts


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
) -> RequestedQuantity:
    """Return the quantity consumed of a capacity for a requested quantity, whether or not the policy allows it."""
    policy = capacity.get("requestPolicy") or {}
    if wanted is None:
        amount = RequestedQuantity.of(capacity["value"] if policy.get("default") is None else policy["default"])
    else:
        amount = wanted if wanted.value < 0 else _round_up(policy, wanted, fractional=fractional)
    if amount.value < 0:
        raise UnrepresentableError(f"capacity value {amount.text} is negative")
    return amount


def _is_default(capacity: Mapping[str, Any], amount: RequestedQuantity) -> bool:
    """Report whether an amount is the default of its policy, which need not be in the range of the policy."""
    default = (capacity.get("requestPolicy") or {}).get("default")
    return default is not None and amount.value == quantities.parse(default)


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
    step, first, amount = (ceil(quantity / unit) for quantity in (by, least.value, wanted.value))
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
