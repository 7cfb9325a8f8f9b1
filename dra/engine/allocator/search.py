"""The search for devices: finds devices on one node for claims, if there are any.

The search is depth-first over all requests of all claims, alternatives and devices in their order, so the first
solution has the most preferred alternatives of the first requests. As in kube-scheduler's allocator, a request gets a
device only once, shared or not, and some failures end the search whatever other devices offer
(`AllocationFailure.fatal`): a selector that fails on a device that is looked at, a pool that is being updated while a
request asks for all devices, and a constraint between all devices of a request. Otherwise the search is complete: if it
fails, there is no solution. Three rules keep it from trying everything:

1. A request with fewer devices left than it needs fails before any of them is picked.
2. Devices of a request are picked in ascending order: a set of them is one solution, not one for each permutation.
3. A device that is interchangeable with a device that has just failed fails, too. Two devices are interchangeable if no
   request, constraint, taint or counter of this search can distinguish them.

The remaining search can still be exponential (constraints over many unlike devices). After `SEARCH_STEPS_MAX` picks the
search gives up and reports an allocation failure that says so.

Devices with binding conditions are excluded unless the caller admits them (``conditional``): the scheduler of the local
plane cannot wait for such a condition; `why`, `simulate` and rule 9 ask whether kube-scheduler could allocate them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, NamedTuple, TypeAlias

from dra.cel.device_selectors import SelectorError
from dra.engine.allocator.claims_to_allocate import ALLOCATION_RESULTS_MAX_SIZE, ClaimToAllocate, RequestData
from dra.engine.allocator.constraints import ConstraintTracker
from dra.engine.allocator.consumable_capacity import (
    ConsumedCapacity,
    ConsumedCapacityCollection,
    UnrepresentableError,
    calculate_consumed_capacity,
    has_capacity_left,
)
from dra.engine.allocator.resource_slice_tracker import CandidateDevice, NodeDevices, Pool, PoolState
from dra.engine.devices.ledger import DeviceID, Ledger

SEARCH_STEPS_MAX: Final = 20_000
"""Maximum number of picks of one search, reached after a second at most."""


_ZERO: Final = Fraction(0)
_WHOLE_DEVICE: Final[ConsumedCapacity] = {}


class AllocationFailure(NamedTuple):
    """The reason why the allocator finds no devices."""

    text: str
    fatal: bool = False
    """Whether kube-scheduler would give up the pod for this attempt, whatever other nodes offer."""


class PickedDevice(NamedTuple):
    """A device, or a share of a device, that is picked for one request."""

    ask: RequestData
    candidate: CandidateDevice
    part: ConsumedCapacity
    """Capacity consumed, if the device is shared."""

    fractional: bool = False
    """Whether the consumed capacity was computed in thousandths."""


Solution: TypeAlias = tuple[tuple[PickedDevice, ...], ...]
"""The picked devices of each claim, in the order of its requests."""


class _StepLimitError(Exception):
    """The search has reached its maximum number of picks."""


def allocate(
    wanted: Sequence[ClaimToAllocate],
    *,
    offer: NodeDevices,
    ledger: Ledger,
    shares: ConsumedCapacityCollection,
    conditional: bool = False,
    steps: int = SEARCH_STEPS_MAX,
) -> Solution | AllocationFailure:
    """Return devices of one node for all claims at once, or the reason why there are none.

    `ledger` says which devices are held, `shares` how much of shared devices is consumed. `conditional` admits devices
    with binding conditions. After `steps` picks the search gives up, which is an allocation failure.
    """
    search = _DeviceSearch(wanted, offer, ledger, shares, conditional=conditional, steps=steps)
    try:
        search.prepare()
        if search.solve(0):
            return search.solution()
    except (SelectorError, UnrepresentableError, _AllocationImpossibleError) as error:
        return AllocationFailure(str(error), fatal=True)
    except _StepLimitError:
        return AllocationFailure(f"gave up after {steps} steps")
    return AllocationFailure("cannot allocate all claims")


class _AllocationImpossibleError(Exception):
    """An allocation failure on this node that no other choice of devices can avoid."""


class _SelectedDevice(NamedTuple):
    """A device that a request selects, or on which a selector of the request fails."""

    candidate: CandidateDevice
    error: SelectorError | None = None


@dataclass(slots=True)
class _RequestStep:
    """One request of one claim, as a level of the search."""

    claim: int
    alternatives: tuple[RequestData, ...]


class _DeviceSearch:
    """The state of one search, with the devices picked so far."""

    def __init__(
        self,
        wanted: Sequence[ClaimToAllocate],
        offer: NodeDevices,
        ledger: Ledger,
        shares: ConsumedCapacityCollection,
        *,
        conditional: bool,
        steps: int,
    ) -> None:
        self._wanted = wanted
        self._steps_max = steps
        self._offer = offer
        self._ledger = ledger
        self._shares = shares
        self._steps = [_RequestStep(i, each) for i, claim in enumerate(wanted) for each in claim.requests]
        self._constraints = [ConstraintTracker(i, c) for i, claim in enumerate(wanted) for c in claim.constraints]
        self._covering = {
            ask: tuple(c for c in self._constraints if c.claim == step.claim and c.constraint.covers(ask))
            for step in self._steps
            for ask in step.alternatives
        }
        self._devices = [c for s in offer.shares for c in s.listed if conditional or not c.device.binding_conditions]
        partly = (s for s in offer.shares if len(s.listed) > len(s.candidates))
        self._elsewhere = {c for s in partly for c in set(s.listed).difference(s.candidates)}
        """Devices in slices that match this node, too, but which only other nodes can use."""

        self._meant: dict[RequestData, list[_SelectedDevice]] = {}
        self._all: dict[RequestData, dict[CandidateDevice, int]] = {}
        """For each request for all devices, its devices and the order in which they are picked."""

        self._picks: list[tuple[int, PickedDevice]] = []
        self._taken: dict[DeviceID, set[int]] = {}
        """Device that is not shared → claims for which it is picked; with adminAccess there can be several."""

        self._parts: dict[tuple[RequestData, CandidateDevice], ConsumedCapacity | None] = {}
        self._given: dict[DeviceID, dict[str, Fraction]] = {}
        """Capacity picked so far of shared devices; the key "" counts the shares."""

        self._left: dict[Pool, dict[tuple[str, str], Fraction]] = {}
        """Amounts left of the shared counters of each pool."""

        self._tried = 0

    def solution(self) -> Solution:
        """Return the picked devices by claim."""
        return tuple(tuple(p for claim, p in self._picks if claim == i) for i in range(len(self._wanted)))

    def prepare(self) -> None:
        """Find the devices of requests for all devices. Raises SelectorError, UnrepresentableError."""
        for step in self._steps:
            for ask in step.alternatives:
                if ask.count is None:
                    self._check_pools(ask)
                    meant = [c for c in self._devices if ask.means(c) and c not in self._elsewhere]
                    enough = (c for c in meant if self._part(c, ask) is not None)
                    self._all[ask] = {c: place for place, c in enumerate(enough)}
        for claim in self._wanted:
            least = sum(min(self._count(ask) for ask in alternatives) for alternatives in claim.requests)
            if least > ALLOCATION_RESULTS_MAX_SIZE:
                name = "/".join(claim.key)
                most = ALLOCATION_RESULTS_MAX_SIZE
                text = f"claim {name}: {least} devices are more than the {most} that a claim can have"
                raise _AllocationImpossibleError(text)

    def solve(self, index: int) -> bool:
        """Find devices for all requests from `index` on, and report whether there are any."""
        if index == len(self._steps):
            return True
        step = self._steps[index]
        return any(self._choose(index, ask) for ask in step.alternatives)

    def _choose(self, index: int, ask: RequestData) -> bool:
        """Find devices for one alternative of a request and for all requests after it."""
        claim, count = self._steps[index].claim, self._count(ask)
        if count == 0 or sum(1 for c, _ in self._picks if c == claim) + count > ALLOCATION_RESULTS_MAX_SIZE:
            return False
        if ask.count is None:
            return self._pick_all(index, ask, claim)
        return self._pick(index, ask, self._usable(self._asked(ask), ask, claim), count)

    def _count(self, ask: RequestData) -> int:
        return len(self._all[ask]) if ask.count is None else ask.count

    def _pick_all(self, index: int, ask: RequestData, claim: int) -> bool:
        """Pick all devices that a request selects, then go on with the next request."""
        picked: list[CandidateDevice] = []
        for candidate in self._all[ask]:
            if self._in_use(candidate, ask, claim) or not self._open(candidate, ask):
                break
            if not self._admitted(candidate, ask):
                why = "because a claim constraint would not be satisfied"
                raise _AllocationImpossibleError(f"request {ask.name}: cannot add device {candidate.item} {why}")
            if not self._enough(candidate, ask):
                break
            self._take(candidate, ask, claim)
            picked.append(candidate)
        else:
            if self.solve(index + 1):
                return True
        for candidate in reversed(picked):
            self._put_back(candidate, ask, claim)
        return False

    def _pick(self, index: int, ask: RequestData, usable: Sequence[_SelectedDevice], count: int) -> bool:
        """Pick `count` more of the usable devices. Raises SelectorError where a selector failed before."""
        if count == 0:
            return self.solve(index + 1)
        claim = self._steps[index].claim
        failed: set[tuple[object, ...]] = set()
        left = sum(1 for each in usable if each.error is None)
        for i, (candidate, error) in enumerate(usable):
            if error is not None:
                raise error
            left -= 1
            if left + 1 < count or (failed and self._look(candidate) in failed):
                continue
            self._tried += 1
            if self._tried > self._steps_max:
                raise _StepLimitError
            self._take(candidate, ask, claim)
            if self._pick(index, ask, self._usable(usable[i + 1 :], ask, claim) if count > 1 else (), count - 1):
                return True
            self._put_back(candidate, ask, claim)
            failed.add(self._look(candidate))
        return False

    def _asked(self, ask: RequestData) -> Sequence[_SelectedDevice]:
        """Return all devices that a request selects, and the devices on which its selectors fail."""
        known = self._meant.get(ask)
        if known is None:
            known = self._meant[ask] = []
            for candidate in self._devices:
                try:
                    if ask.means(candidate) and candidate not in self._elsewhere:
                        known.append(_SelectedDevice(candidate))
                except SelectorError as error:
                    known.append(_SelectedDevice(candidate, error))
        return known

    def _usable(self, asked: Sequence[_SelectedDevice], ask: RequestData, claim: int) -> list[_SelectedDevice]:
        """Return the devices of a request that are available beside the picked devices, and failures of selectors."""
        return [
            each
            for each in asked
            if not self._in_use(each.candidate, ask, claim)
            and (each.error is not None or self._available(each.candidate, ask))
        ]

    def _check_pools(self, ask: RequestData) -> None:
        for share in self._offer.shares:
            if share.state is not PoolState.COMPLETE:
                why = "currently being updated" if share.state is PoolState.INCOMPLETE else "currently invalid"
                pool = "/".join(share.pool.key)
                raise _AllocationImpossibleError(
                    f"request {ask.name}: asks for all devices, but resource pool {pool} is {why}"
                )

    def _in_use(self, candidate: CandidateDevice, ask: RequestData, claim: int) -> bool:
        """Report whether a device is held or picked as a whole; with adminAccess, whether this claim has it already."""
        taken = self._taken.get(candidate.item)
        if ask.admin:
            return taken is not None and claim in taken
        held = (
            self._ledger.holder(candidate.item) is not None
            if _allows_multiple_allocations(candidate)
            else not self._free(candidate)
        )
        return bool(taken) or held

    def _available(self, candidate: CandidateDevice, ask: RequestData) -> bool:
        """Report whether a device can be picked beside the devices picked so far."""
        return self._enough(candidate, ask) and self._open(candidate, ask) and self._admitted(candidate, ask)

    def _enough(self, candidate: CandidateDevice, ask: RequestData) -> bool:
        """Report whether a device has enough capacity left beside the picked shares."""
        wanted = self._part(candidate, ask)
        return wanted is not None and (
            not wanted or has_capacity_left(candidate.device, wanted, self._gone(candidate.item))
        )

    def _open(self, candidate: CandidateDevice, ask: RequestData) -> bool:
        """Report whether enough is left of the counters that a device consumes, and its taints are tolerated."""
        device = candidate.device
        if device.consumes_counters and not self._drawn(candidate) and not self._fits(candidate):
            return False
        return not device.taints or ask.tolerates(device.taints)

    def _admitted(self, candidate: CandidateDevice, ask: RequestData) -> bool:
        """Report whether a device satisfies the constraints together with the devices picked so far."""
        return all(picked.admit(candidate) for picked in self._covering[ask])

    def _part(self, candidate: CandidateDevice, ask: RequestData) -> ConsumedCapacity | None:
        """Return the capacity that a request consumes of a device; None if even an unused device has too little.

        Raises UnrepresentableError.
        """
        if not ask.shares and not _allows_multiple_allocations(candidate):
            return _WHOLE_DEVICE
        key = (ask, candidate)
        if key not in self._parts:
            self._parts[key] = calculate_consumed_capacity(
                candidate.device, ask.shares, fractional=self._offer.fractional
            )
        return self._parts[key]

    def _free(self, candidate: CandidateDevice) -> bool:
        """Report whether no claim had any share of the device before this search."""
        return self._ledger.is_free(candidate.item)

    def _drawn(self, candidate: CandidateDevice) -> bool:
        """Report whether a shared device has already consumed its counters, which happens once for all its shares."""
        item = candidate.item
        if item in self._given:
            return True
        return (
            _allows_multiple_allocations(candidate) and self._ledger.holder(item) is None and not self._free(candidate)
        )

    def _gone(self, item: DeviceID) -> ConsumedCapacity:
        """Return the capacity consumed of a shared device, including picked shares."""
        used, given = self._shares.used(item), self._given.get(item)
        return {n: used.get(n, _ZERO) + (given or {}).get(n, _ZERO) for n in {*used, *given}} if given else used

    def _take(self, candidate: CandidateDevice, ask: RequestData, claim: int) -> None:
        wanted = self._part(candidate, ask) or _WHOLE_DEVICE
        self._picks.append((claim, PickedDevice(ask, candidate, wanted, self._offer.fractional)))
        for picked in self._covering[ask]:
            picked.push(candidate)
        if not self._drawn(candidate):
            self._draw(candidate, 1)
        if _allows_multiple_allocations(candidate):
            given = self._given.setdefault(candidate.item, {"": _ZERO})
            given[""] += 1
            for name, amount in wanted.items():
                given[name] = given.get(name, _ZERO) + amount
        else:
            self._taken.setdefault(candidate.item, set()).add(claim)

    def _put_back(self, candidate: CandidateDevice, ask: RequestData, claim: int) -> None:
        _, pick = self._picks.pop()
        for picked in self._covering[ask]:
            picked.pop()
        if _allows_multiple_allocations(candidate):
            given = self._given[candidate.item]
            given[""] -= 1
            for name, amount in pick.part.items():
                given[name] -= amount
            if not given[""]:
                del self._given[candidate.item]
        else:
            self._taken[candidate.item].discard(claim)
        if not self._drawn(candidate):
            self._draw(candidate, -1)

    def _look(self, candidate: CandidateDevice) -> tuple[object, ...]:
        """Return all that the rest of this search can see of a device: devices with equal keys are interchangeable."""
        device, item = candidate.device, candidate.item
        counted = (
            (self._pool(candidate), tuple(sorted(candidate.consumption.items()))) if device.consumes_counters else ()
        )
        return (
            self._free(candidate),
            self._ledger.holder(item) is None,
            frozenset(self._taken.get(item, ())),
            tuple(self._told(ask, candidate) for step in self._steps for ask in step.alternatives if ask.count),
            tuple(self._place(a, candidate) for s in self._steps for a in s.alternatives if a.count is None),
            tuple(candidate.values(picked.constraint.attribute) for picked in self._constraints),
            tuple((t.key, t.value, t.effect) for t in device.taints or ()),
            counted,
            bool(device.binding_conditions),
            device.capacity and repr(sorted(device.capacity.items())),
            _allows_multiple_allocations(candidate) and repr(sorted(self._gone(item).items())),
        )

    def _place(self, ask: RequestData, candidate: CandidateDevice) -> int | None:
        """Return the position at which a request for all devices picks a device; None if it does not select the device.

        The order matters only with a constraint: the first device that violates it ends the search, the first device in
        use ends only this alternative.
        """
        place = self._all[ask].get(candidate)
        return place if place is None or self._covering[ask] else 0

    def _told(self, ask: RequestData, candidate: CandidateDevice) -> bool | None:
        """Return whether a request selects a device; None where its selectors fail."""
        try:
            return ask.means(candidate)
        except SelectorError:
            return None

    def _fits(self, candidate: CandidateDevice) -> bool:
        """Report whether enough is left of all counters of the pool, none of which is overdrawn."""
        left, wanted = self._counters(candidate), candidate.consumption
        return all(amount >= wanted.get(counter, _ZERO) for counter, amount in left.items())

    def _draw(self, candidate: CandidateDevice, sign: int) -> None:
        if candidate.device.consumes_counters:
            left = self._counters(candidate)
            for counter, amount in candidate.consumption.items():
                left[counter] = left.get(counter, _ZERO) - sign * amount

    def _counters(self, candidate: CandidateDevice) -> dict[tuple[str, str], Fraction]:
        """Return the amounts left of the counters of a device's pool, without those of devices that claims hold."""
        pool = self._pool(candidate)
        known = self._left.get(pool)
        if known is None:
            known = self._left[pool] = dict(pool.counters)
            for each in pool.candidates:
                if each.device.consumes_counters and not self._ledger.is_free(each.item):
                    for counter, amount in each.consumption.items():
                        known[counter] = known.get(counter, _ZERO) - amount
        return known

    def _pool(self, candidate: CandidateDevice) -> Pool:
        key = (candidate.item.driver, candidate.item.pool)
        return next(share.pool for share in self._offer.shares if share.pool.key == key)


def _allows_multiple_allocations(candidate: CandidateDevice) -> bool:
    return candidate.device.allow_multiple_allocations
