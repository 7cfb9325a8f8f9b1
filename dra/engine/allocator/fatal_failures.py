"""Nodes on which the allocator may fail fatally, found without a search.

kube-scheduler runs its allocator on every node that its other filters pass, and gives up the pod as soon as the
allocator fails fatally on one of them (`AllocationFailure.fatal`), whatever other nodes offer. A scheduler that looks
for devices on the best node only must therefore know on which other nodes such a failure is possible. Ordinary claims
can fail fatally nowhere, so a cheap check that errs towards "possible" spares nearly all searches.
"""

from collections.abc import Sequence
from typing import Final, TypeAlias

from dra.cel.device_selectors import CompiledSelector, SelectorError
from dra.engine.allocator.claims_to_allocate import ALLOCATION_RESULTS_MAX_SIZE, ClaimToAllocate, RequestData
from dra.engine.allocator.resource_slice_tracker import CandidateDevice, NodeDevices, PoolState

RequestProfile: TypeAlias = tuple[tuple[CompiledSelector, ...], bool]
"""Selectors of a request, and whether it asks for capacity, which may not be computable."""

PROFILES_MAX: Final = 64
"""Maximum number of request profiles that are remembered for a node; claims may bring any number of selectors."""

_SCALAR_TYPES: Final = frozenset({"string", "int", "bool", "version"})


class FatalFailures:
    """Remembers for each node which requests can fail fatally there, until the node's devices change."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[NodeDevices, dict[tuple[object, ...], bool]]] = {}

    def are_possible(self, claims: Sequence[ClaimToAllocate], node_devices: NodeDevices) -> bool:
        """Report whether the allocator may fail fatally for claims on a node; False only if it cannot."""
        constrained = any(claim.constraints for claim in claims)
        requests = [r for claim in claims for alternatives in claim.requests for r in alternatives]
        if any(request.count is None for request in requests):
            if constrained or any(view.state is not PoolState.COMPLETE for view in node_devices.pools):
                return True
            devices = sum(len(view.all_candidates) for view in node_devices.pools)
            counts = (devices if request.count is None else request.count for request in requests)
            if sum(counts) > ALLOCATION_RESULTS_MAX_SIZE:
                return True
        return any(self._is_possible(_profile(request), node_devices, constrained=constrained) for request in requests)

    def _is_possible(self, profile: RequestProfile, node_devices: NodeDevices, *, constrained: bool) -> bool:
        known = self._known.get(node_devices.node)
        if known is None or known[0] is not node_devices or len(known[1]) >= PROFILES_MAX:
            known = self._known[node_devices.node] = (node_devices, {})
        selectors, capacity = profile
        key = (tuple(selector.expression for selector in selectors), capacity, constrained)
        answer = known[1].get(key)
        if answer is None:
            devices = (device for view in node_devices.pools for device in view.all_candidates)
            answer = known[1][key] = capacity or any(
                _may_fail(device, selectors, constrained=constrained) for device in devices
            )
        return answer


def _profile(request: RequestData) -> RequestProfile:
    return request.selectors, bool(request.capacity_requests)


def _may_fail(device: CandidateDevice, selectors: Sequence[CompiledSelector], *, constrained: bool) -> bool:
    """Report whether a device may end the search: a selector fails, or its amounts or attributes cannot be compared."""
    if device.device.allow_multiple_allocations:
        return True
    if constrained and any(len(_SCALAR_TYPES & a.keys()) != 1 for a in (device.device.attributes or {}).values()):
        return True
    try:
        device.matches_selectors(selectors)
    except SelectorError:
        return True
    return False
