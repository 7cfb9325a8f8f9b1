"""Claims made ready for the allocator: device classes looked up, selectors compiled, request names qualified."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from dra.cel.device_selectors import CompiledSelector, MalformedSelectorError, compile_selector
from dra.engine.allocator.resource_slice_tracker import CandidateDevice
from dra.model.claims import ResourceClaim
from dra.model.device_classes import DeviceClass, DeviceSelector
from dra.model.device_requests import (
    AllocationMode,
    BaseDeviceRequest,
    DeviceClaim,
    DeviceClaimConfiguration,
    DeviceConstraint,
    ExactDeviceRequest,
)
from dra.model.meta import Key, Uid
from dra.model.taints import EXCLUDING_EFFECTS, DeviceTaint, DeviceToleration

ALLOCATION_RESULTS_MAX_SIZE: Final = 32
"""Maximum number of devices in the allocation of one claim (upstream ``AllocationResultsMaxSize``)."""


class UnsatisfiableError(Exception):
    """A claim that no device can satisfy at present, such as a missing device class or a malformed expression."""

    def __init__(self, text: str, *, missing_class: str = "") -> None:
        """Store the text, and in ``missing`` the name of a device class that does not exist."""
        super().__init__(text)
        self.missing_class = missing_class


@dataclass(frozen=True, slots=True, eq=False)
class RequestData:
    """A request of a claim, or one alternative of a request."""

    name: str
    """``request`` or ``request/alternative``, as in allocation results."""
    parent_request: str
    """``request``: constraints and configuration may name a request without its alternative."""
    selectors: tuple[CompiledSelector, ...]
    count: int | None
    """Number of devices; None for all matching devices."""
    admin_access: bool
    tolerations: tuple[DeviceToleration, ...]
    device_class: str
    class_config: tuple[dict[str, Any], ...]
    capacity_requests: Mapping[str, str] = field(default_factory=dict)
    """Quantity requested of each capacity of a device (``capacity.requests``)."""

    def matches(self, candidate: CandidateDevice) -> bool:
        """Report whether the request selects a device. Raises SelectorError."""
        return candidate.matches_selectors(self.selectors)

    def tolerates(self, taints: list[DeviceTaint] | None) -> bool:
        """Report whether the request tolerates all taints that exclude devices from allocation."""
        return not taints or all(
            taint.effect not in EXCLUDING_EFFECTS or any(by.tolerates(taint) for by in self.tolerations)
            for taint in taints
        )


@dataclass(frozen=True, slots=True, eq=False)
class Constraint:
    """A constraint on devices of a claim: equal or distinct values of one attribute."""

    attribute: str
    distinct: bool
    requests: frozenset[str] | None
    """Names of the requests that the constraint covers; None for all requests."""

    def covers(self, request: RequestData) -> bool:
        """Report whether the constraint covers the devices of a request."""
        return self.requests is None or request.name in self.requests or request.parent_request in self.requests


@dataclass(frozen=True, slots=True, eq=False)
class ClaimToAllocate:
    """A claim with everything that the allocator needs to know."""

    key: Key
    uid: Uid
    requests: tuple[tuple[RequestData, ...], ...]
    """The alternatives of each request, the most preferred first."""
    constraints: tuple[Constraint, ...]
    config: tuple[DeviceClaimConfiguration, ...]


def claim_to_allocate(claim: ResourceClaim, classes: Mapping[str, DeviceClass]) -> ClaimToAllocate:
    """Return a claim ready for the allocator. Raises UnsatisfiableError."""
    try:
        devices = DeviceClaim.of(claim.spec.devices)
    except msgspec.ValidationError as error:
        raise UnsatisfiableError(f"claim {claim.metadata.name}: {error}") from error
    requests: list[tuple[RequestData, ...]] = []
    for request in devices.requests or ():
        if request.exactly is not None:
            requests.append((_request_data(request.exactly, request.name, request.name, classes),))
        elif request.first_available:
            subs = request.first_available
            requests.append(tuple(_request_data(s, f"{request.name}/{s.name}", request.name, classes) for s in subs))
        else:
            raise UnsatisfiableError(
                f"request {request.name}: has neither exactly nor firstAvailable, and nothing else is supported"
            )
    _check_size(claim, requests)
    return ClaimToAllocate(
        key=claim.metadata.key,
        uid=claim.metadata.uid,
        requests=tuple(requests),
        constraints=tuple(
            _constraint(constraint, number) for number, constraint in enumerate(devices.constraints or ())
        ),
        config=tuple(devices.config or ()),
    )


def _constraint(constraint: DeviceConstraint, number: int) -> Constraint:
    attribute = constraint.match_attribute or constraint.distinct_attribute
    if not attribute:
        raise UnsatisfiableError(
            f"constraint #{number}: has neither matchAttribute nor distinctAttribute, and nothing else is supported"
        )
    requests = frozenset(constraint.requests) if constraint.requests else None
    return Constraint(attribute=attribute, distinct=not constraint.match_attribute, requests=requests)


def _request_data(
    request: BaseDeviceRequest, name: str, parent_request: str, classes: Mapping[str, DeviceClass]
) -> RequestData:
    if request.derived_attributes:
        raise UnsatisfiableError(
            f"request {name}: derivedAttributes (feature gate DRADerivedAttributes) are not supported"
        )
    device_class = classes.get(request.device_class_name)
    if device_class is None:
        missing = request.device_class_name
        raise UnsatisfiableError(f"request {name}: device class {missing} does not exist", missing_class=missing)
    if request.allocation_mode not in tuple(AllocationMode):
        raise UnsatisfiableError(f"request {name}: unsupported allocation mode {request.allocation_mode}")
    return RequestData(
        name=name,
        parent_request=parent_request,
        selectors=(
            *_compile_selectors(device_class.spec.selectors, f"device class {device_class.metadata.name}"),
            *_compile_selectors(request.selectors, f"request {name}"),
        ),
        count=request.count if request.allocation_mode == AllocationMode.EXACT_COUNT else None,
        admin_access=isinstance(request, ExactDeviceRequest) and request.admin_access is True,
        tolerations=tuple(request.tolerations or ()),
        device_class=device_class.metadata.name,
        class_config=tuple(device_class.spec.config or ()),
        capacity_requests=(request.capacity.requests if request.capacity is not None else None) or {},
    )


def _compile_selectors(selectors: list[DeviceSelector] | None, where: str) -> list[CompiledSelector]:
    if any(selector.cel is None for selector in selectors or ()):
        raise UnsatisfiableError(f"{where}: a selector is not a CEL expression, and other selectors are not supported")
    try:
        return [compile_selector(selector.cel.expression) for selector in selectors or () if selector.cel is not None]
    except MalformedSelectorError as error:
        raise UnsatisfiableError(f"{where}: {error}") from error


def _check_size(claim: ResourceClaim, requests: list[tuple[RequestData, ...]]) -> None:
    minimum = sum(min(request.count or 1 for request in alternatives) for alternatives in requests)
    if minimum > ALLOCATION_RESULTS_MAX_SIZE:
        name = claim.metadata.name
        raise UnsatisfiableError(
            f"claim {name}: {minimum} devices are more than the {ALLOCATION_RESULTS_MAX_SIZE} that a claim can have"
        )
