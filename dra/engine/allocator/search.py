"""The search for devices: finds devices on one node for claims, if there are any.

The search is depth-first over all requests of all claims, alternatives and devices in their order, so the first
solution has the most preferred alternatives of the first requests. As in kube-scheduler's allocator, a request gets a
device only once, shared or not, and some failures end the search whatever other devices offer
(`AllocationFailure.fatal`): a selector that fails on a device that is looked at, a constraint between all devices of a
request, and up to Kubernetes 1.37 a pool that is being updated while a request asks for all devices. Otherwise the
search is complete: if it fails, there is no solution. Three rules keep it from trying everything:

1. A request with fewer devices left than it needs fails before any of them is picked.
2. Devices of a request are picked in ascending order: a set of them is one solution, not one for each permutation.
3. A device that is interchangeable with a device that has just failed fails, too. Two devices are interchangeable if no
   request, constraint, taint or counter of this search can distinguish them.

The remaining search can still be exponential (constraints over many unlike devices). After `SEARCH_STEPS_MAX` picks the
search gives up and reports an allocation failure that says so.

Devices with binding conditions are excluded unless the caller passes ``allow_binding_conditions``: the scheduler of
the local plane cannot wait for such a condition; `why`, `simulate` and the rule Unstick of claims ask whether
kube-scheduler could allocate them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, NamedTuple, TypeAlias

from dra.cel.device_selectors import SelectorError
from dra.engine.allocator.claims_to_allocate import ALLOCATION_RESULTS_MAX_SIZE, ClaimToAllocate, RequestData
from dra.engine.allocator.constraints import ConstraintTracker, UnusableAttributeError
from dra.engine.allocator.consumable_capacity import (
    ConsumedCapacity,
    ConsumedCapacityCollection,
    UnrepresentableError,
    as_device_names,
    calculate_consumed_capacity,
    has_capacity_left,
)
from dra.engine.allocator.resource_slice_tracker import CandidateDevice, NodeDevices, Pool, PoolState, PoolView
from dra.engine.allocator.shared_counters import counters_left, suffices
from dra.engine.devices.allocator_releases import RELEASE_1_37, AllocatorRelease
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

    request: RequestData
    candidate: CandidateDevice
    consumed_capacity: ConsumedCapacity
    """Capacity consumed, if the device is shared."""

    release: AllocatorRelease = RELEASE_1_37
    """The release whose allocator would have computed the consumed capacity."""


Solution: TypeAlias = tuple[tuple[PickedDevice, ...], ...]
"""The picked devices of each claim, in the order of its requests."""


class _StepLimitError(Exception):
    """The search has reached its maximum number of picks."""


def allocate(
    claims: Sequence[ClaimToAllocate],
    *,
    node_devices: NodeDevices,
    ledger: Ledger,
    consumed_capacity: ConsumedCapacityCollection,
    allow_binding_conditions: bool = False,
    max_steps: int = SEARCH_STEPS_MAX,
) -> Solution | AllocationFailure:
    """Return devices of one node for all claims at once, or the reason why there are none.

    `ledger` says which devices are held, `consumed_capacity` how much of shared devices is consumed.
    `allow_binding_conditions` admits devices with binding conditions. After `max_steps` picks the search gives up: an
    allocation failure.
    """
    search = _DeviceSearch(
        claims,
        node_devices,
        ledger,
        consumed_capacity,
        allow_binding_conditions=allow_binding_conditions,
        max_steps=max_steps,
    )
    try:
        search.prepare()
        if search.solve(0):
            return search.solution()
    except (SelectorError, UnrepresentableError, UnusableAttributeError, _AllocationImpossibleError) as error:
        return AllocationFailure(str(error), fatal=True)
    except _NodeRefusedError as error:
        return AllocationFailure(str(error))
    except _StepLimitError:
        return AllocationFailure(f"gave up after {max_steps} steps")
    return AllocationFailure("cannot allocate all claims")


class _AllocationImpossibleError(Exception):
    """An allocation failure that no other choice of devices and no other node can avoid."""


class _NodeRefusedError(Exception):
    """An allocation failure that no other choice of devices on this node can avoid."""


class _SelectedDevice(NamedTuple):
    """A device that a request selects, or on which a selector or a constraint of the request fails."""

    candidate: CandidateDevice
    error: SelectorError | UnusableAttributeError | None = None


@dataclass(slots=True)
class _RequestStep:
    """One request of one claim, as a level of the search."""

    claim: int
    alternatives: tuple[RequestData, ...]


class _DeviceSearch:
    """The state of one search, with the devices picked so far."""

    def __init__(
        self,
        claims: Sequence[ClaimToAllocate],
        node_devices: NodeDevices,
        ledger: Ledger,
        consumed_capacity: ConsumedCapacityCollection,
        *,
        allow_binding_conditions: bool,
        max_steps: int,
    ) -> None:
        self._claims = claims
        self._max_steps = max_steps
        self._node_devices = node_devices
        self._ledger = ledger
        self._capacity_of_claims = consumed_capacity
        self._steps = [_RequestStep(i, request) for i, claim in enumerate(claims) for request in claim.requests]
        self._constraints = [
            ConstraintTracker(i, c, node_devices.release) for i, claim in enumerate(claims) for c in claim.constraints
        ]
        self._constraints_of = {
            request: tuple(c for c in self._constraints if c.claim == step.claim and c.constraint.covers(request))
            for step in self._steps
            for request in step.alternatives
        }
        self._devices = {
            c: None
            for s in node_devices.pools
            for c in s.all_candidates
            if allow_binding_conditions or not c.device.binding_conditions
        }
        partly = (s for s in node_devices.pools if len(s.all_candidates) > len(s.candidates))
        self._unusable_here = {c for s in partly for c in set(s.all_candidates).difference(s.candidates)}
        """Devices in slices that match this node, too, but which only other nodes can use."""

        self._selected: dict[RequestData, list[_SelectedDevice]] = {}
        self._all_devices: dict[RequestData, dict[CandidateDevice, int]] = {}
        """For each request for all devices, its devices and the order in which they are picked."""

        self._picks: list[tuple[int, PickedDevice]] = []
        self._picked_for: dict[DeviceID, set[int]] = {}
        """Device that is not shared → claims for which it is picked; with adminAccess there can be several."""

        self._capacities_to_consume: dict[tuple[RequestData, CandidateDevice], ConsumedCapacity | None] = {}
        self._picked_capacity: dict[DeviceID, dict[str, Fraction]] = {}
        """Capacity picked so far of shared devices; the key "" counts the shares."""

        self._available_counters: dict[Pool, dict[tuple[str, str], Fraction]] = {}
        """Amounts left of the shared counters of each pool."""

        self._tried = 0

    def solution(self) -> Solution:
        """Return the picked devices by claim."""
        return tuple(tuple(p for claim, p in self._picks if claim == i) for i in range(len(self._claims)))

    def prepare(self) -> None:
        """Find the devices of requests for all devices.

        Raises SelectorError, UnrepresentableError, _AllocationImpossibleError and _NodeRefusedError.
        """
        for step in self._steps:
            for request in step.alternatives:
                if request.count is None:
                    self._all_devices[request] = {c: position for position, c in enumerate(self._all_of(request))}
        for claim in self._claims:
            minimum = sum(min(self._count(request) for request in alternatives) for alternatives in claim.requests)
            if minimum > ALLOCATION_RESULTS_MAX_SIZE:
                name = "/".join(claim.key)
                maximum = ALLOCATION_RESULTS_MAX_SIZE
                text = f"claim {name}: {minimum} devices are more than the {maximum} that a claim can have"
                raise _AllocationImpossibleError(text)

    def solve(self, index: int) -> bool:
        """Find devices for all requests from `index` on, and report whether there are any."""
        if index == len(self._steps):
            return True
        step = self._steps[index]
        return any(self._choose(index, request) for request in step.alternatives)

    def _choose(self, index: int, request: RequestData) -> bool:
        """Find devices for one alternative of a request and for all requests after it."""
        claim, count = self._steps[index].claim, self._count(request)
        if count == 0 or sum(1 for c, _ in self._picks if c == claim) + count > ALLOCATION_RESULTS_MAX_SIZE:
            return False
        if request.count is None:
            return self._pick_all(index, request, claim)
        return self._pick(index, request, self._usable(self._selected_devices(request), request, claim), count)

    def _count(self, request: RequestData) -> int:
        return len(self._all_devices[request]) if request.count is None else request.count

    def _pick_all(self, index: int, request: RequestData, claim: int) -> bool:
        """Pick all devices that a request selects, then go on with the next request."""
        picked: list[CandidateDevice] = []
        for candidate in self._all_devices[request]:
            if self._in_use(candidate, request, claim) or not self._has_counters_and_tolerates(candidate, request):
                break
            if not self._satisfies_constraints(candidate, request):
                reason = "because a claim constraint would not be satisfied"
                raise _AllocationImpossibleError(f"request {request.name}: cannot add device {candidate.item} {reason}")
            if not self._has_capacity(candidate, request):
                break
            self._pick_device(candidate, request, claim)
            picked.append(candidate)
        else:
            if self.solve(index + 1):
                return True
        for candidate in reversed(picked):
            self._unpick_device(candidate, request, claim)
        return False

    def _pick(self, index: int, request: RequestData, usable: Sequence[_SelectedDevice], count: int) -> bool:
        """Pick `count` more of the usable devices. Raises SelectorError where a selector failed before."""
        if count == 0:
            return self.solve(index + 1)
        claim = self._steps[index].claim
        failed: set[tuple[object, ...]] = set()
        left = sum(1 for device in usable if device.error is None)
        for i, (candidate, error) in enumerate(usable):
            if error is not None:
                raise error
            left -= 1
            if left + 1 < count or (failed and self._equivalence_key(candidate) in failed):
                continue
            self._tried += 1
            if self._tried > self._max_steps:
                raise _StepLimitError
            self._pick_device(candidate, request, claim)
            if self._pick(
                index, request, self._usable(usable[i + 1 :], request, claim) if count > 1 else (), count - 1
            ):
                return True
            self._unpick_device(candidate, request, claim)
            failed.add(self._equivalence_key(candidate))
        return False

    def _selected_devices(self, request: RequestData) -> Sequence[_SelectedDevice]:
        """Return all devices that a request selects, and the devices on which its selectors fail."""
        known = self._selected.get(request)
        if known is None:
            known = self._selected[request] = []
            for candidate in self._devices:
                try:
                    if request.matches(candidate) and candidate not in self._unusable_here:
                        known.append(_SelectedDevice(candidate))
                except SelectorError as error:
                    known.append(_SelectedDevice(candidate, error))
        return known

    def _usable(self, selected: Sequence[_SelectedDevice], request: RequestData, claim: int) -> list[_SelectedDevice]:
        """Return the devices of a request that are available beside the picked devices, and those on which it fails."""
        usable: list[_SelectedDevice] = []
        for device in selected:
            if self._in_use(device.candidate, request, claim):
                continue
            try:
                if device.error is not None or self._available(device.candidate, request):
                    usable.append(device)
            except UnusableAttributeError as error:
                usable.append(_SelectedDevice(device.candidate, error))
        return usable

    def _all_of(self, request: RequestData) -> Iterator[CandidateDevice]:
        """Yield the devices of a request for all devices, pool by pool: the first failure decides."""
        for view in self._node_devices.pools:
            self._check_pool(view, request)
            for candidate in view.all_candidates:
                if (
                    candidate in self._devices
                    and request.matches(candidate)
                    and candidate not in self._unusable_here
                    and self._capacity_to_consume(candidate, request) is not None
                ):
                    yield candidate

    def _check_pool(self, view: PoolView, request: RequestData) -> None:
        if view.state is not PoolState.COMPLETE:
            reason = "currently being updated" if view.state is PoolState.INCOMPLETE else "currently invalid"
            text = (
                f"request {request.name}: asks for all devices, but resource pool {'/'.join(view.pool.key)} is {reason}"
            )
            fatal = self._node_devices.release.unusable_pools_are_fatal
            raise _AllocationImpossibleError(text) if fatal else _NodeRefusedError(text)

    def _in_use(self, candidate: CandidateDevice, request: RequestData, claim: int) -> bool:
        """Report whether a device is held or picked as a whole; with adminAccess, whether this claim has it already."""
        taken = self._picked_for.get(candidate.item)
        if request.admin_access:
            return taken is not None and claim in taken
        held = (
            self._ledger.holder(candidate.item) is not None
            if _allows_multiple_allocations(candidate)
            else not self._is_free(candidate)
        )
        return bool(taken) or held

    def _available(self, candidate: CandidateDevice, request: RequestData) -> bool:
        """Report whether a device can be picked beside the devices picked so far."""
        return (
            self._has_capacity(candidate, request)
            and self._has_counters_and_tolerates(candidate, request)
            and self._satisfies_constraints(candidate, request)
        )

    def _has_capacity(self, candidate: CandidateDevice, request: RequestData) -> bool:
        """Report whether a device has enough capacity left beside the picked shares."""
        wanted = self._capacity_to_consume(candidate, request)
        return wanted is not None and (
            not wanted or has_capacity_left(candidate.device, wanted, self._consumed_capacity(candidate))
        )

    def _has_counters_and_tolerates(self, candidate: CandidateDevice, request: RequestData) -> bool:
        """Report whether enough is left of the counters that a device consumes, and its taints are tolerated."""
        device = candidate.device
        if (
            device.consumes_counters
            and not self._has_consumed_counters(candidate)
            and not self._has_counters_left(candidate)
        ):
            return False
        return not device.taints or request.tolerates(device.taints)

    def _satisfies_constraints(self, candidate: CandidateDevice, request: RequestData) -> bool:
        """Report whether a device satisfies the constraints together with the devices picked so far."""
        return all(picked.admits(candidate) for picked in self._constraints_of[request])

    def _capacity_to_consume(self, candidate: CandidateDevice, request: RequestData) -> ConsumedCapacity | None:
        """Return the capacity that a request consumes of a device; None if even an unused device has too little.

        Raises UnrepresentableError.
        """
        if not request.capacity_requests and not _allows_multiple_allocations(candidate):
            return _WHOLE_DEVICE
        key = (request, candidate)
        if key not in self._capacities_to_consume:
            self._capacities_to_consume[key] = calculate_consumed_capacity(
                candidate.device,
                request.capacity_requests,
                driver=candidate.item.driver,
                release=self._node_devices.release,
            )
        return self._capacities_to_consume[key]

    def _is_free(self, candidate: CandidateDevice) -> bool:
        """Report whether no claim had any share of the device before this search."""
        return self._ledger.is_free(candidate.item)

    def _has_consumed_counters(self, candidate: CandidateDevice) -> bool:
        """Report whether a shared device has already consumed its counters, which happens once for all its shares."""
        item = candidate.item
        if item in self._picked_capacity:
            return True
        return (
            _allows_multiple_allocations(candidate)
            and self._ledger.holder(item) is None
            and not self._is_free(candidate)
        )

    def _consumed_capacity(self, candidate: CandidateDevice) -> ConsumedCapacity:
        """Return the capacity consumed of a shared device, including picked shares."""
        item, release = candidate.item, self._node_devices.release
        used, given = self._capacity_of_claims.consumed(item), self._picked_capacity.get(item)
        used = as_device_names(candidate.device, used, driver=item.driver, release=release)
        return {n: used.get(n, _ZERO) + (given or {}).get(n, _ZERO) for n in {*used, *given}} if given else used

    def _pick_device(self, candidate: CandidateDevice, request: RequestData, claim: int) -> None:
        wanted = self._capacity_to_consume(candidate, request) or _WHOLE_DEVICE
        self._picks.append((claim, PickedDevice(request, candidate, wanted, self._node_devices.release)))
        for picked in self._constraints_of[request]:
            picked.add(candidate)
        if not self._has_consumed_counters(candidate):
            self._consume_counters(candidate, 1)
        if _allows_multiple_allocations(candidate):
            given = self._picked_capacity.setdefault(candidate.item, {"": _ZERO})
            given[""] += 1
            for name, amount in wanted.items():
                given[name] = given.get(name, _ZERO) + amount
        else:
            self._picked_for.setdefault(candidate.item, set()).add(claim)

    def _unpick_device(self, candidate: CandidateDevice, request: RequestData, claim: int) -> None:
        _, pick = self._picks.pop()
        for picked in self._constraints_of[request]:
            picked.remove()
        if _allows_multiple_allocations(candidate):
            given = self._picked_capacity[candidate.item]
            given[""] -= 1
            for name, amount in pick.consumed_capacity.items():
                given[name] -= amount
            if not given[""]:
                del self._picked_capacity[candidate.item]
        else:
            self._picked_for[candidate.item].discard(claim)
        if not self._has_consumed_counters(candidate):
            self._consume_counters(candidate, -1)

    def _equivalence_key(self, candidate: CandidateDevice) -> tuple[object, ...]:
        """Return all that the rest of this search can see of a device: devices with equal keys are interchangeable."""
        device, item = candidate.device, candidate.item
        counted = (
            (self._pool(candidate), tuple(sorted(candidate.consumed_counters.items())))
            if device.consumes_counters
            else ()
        )
        return (
            self._is_free(candidate),
            self._ledger.holder(item) is None,
            frozenset(self._picked_for.get(item, ())),
            tuple(
                self._matches_or_none(request, candidate)
                for step in self._steps
                for request in step.alternatives
                if request.count
            ),
            tuple(self._pick_order(a, candidate) for s in self._steps for a in s.alternatives if a.count is None),
            tuple(picked.values_of(candidate) for picked in self._constraints),
            tuple((t.key, t.value, t.effect) for t in device.taints or ()),
            counted,
            bool(device.binding_conditions),
            device.capacity and repr(sorted(device.capacity.items())),
            _allows_multiple_allocations(candidate) and repr(sorted(self._consumed_capacity(candidate).items())),
        )

    def _pick_order(self, request: RequestData, candidate: CandidateDevice) -> int | None:
        """Return the position at which a request for all devices picks a device; None if it does not select the device.

        The order matters only with a constraint: the first device that violates it ends the search, the first device in
        use ends only this alternative.
        """
        place = self._all_devices[request].get(candidate)
        return place if place is None or self._constraints_of[request] else 0

    def _matches_or_none(self, request: RequestData, candidate: CandidateDevice) -> bool | None:
        """Return whether a request selects a device; None where its selectors fail."""
        try:
            return request.matches(candidate)
        except SelectorError:
            return None

    def _has_counters_left(self, candidate: CandidateDevice) -> bool:
        """Report whether enough is left of all counters of the pool, none of which is overdrawn."""
        return suffices(self._counters_left(candidate), candidate)

    def _consume_counters(self, candidate: CandidateDevice, sign: int) -> None:
        if candidate.device.consumes_counters:
            left = self._counters_left(candidate)
            for counter, amount in candidate.consumed_counters.items():
                left[counter] = left.get(counter, _ZERO) - sign * amount

    def _counters_left(self, candidate: CandidateDevice) -> dict[tuple[str, str], Fraction]:
        """Return the amounts left of the counters of a device's pool, without those of devices that claims hold."""
        pool = self._pool(candidate)
        known = self._available_counters.get(pool)
        if known is None:
            known = self._available_counters[pool] = counters_left(pool, self._ledger)
        return known

    def _pool(self, candidate: CandidateDevice) -> Pool:
        key = (candidate.item.driver, candidate.item.pool)
        return next(share.pool for share in self._node_devices.pools if share.pool.key == key)


def _allows_multiple_allocations(candidate: CandidateDevice) -> bool:
    return candidate.device.allow_multiple_allocations
