"""The interface between a kubelet and the drivers of its devices, and the driver of simulated devices.

`localplane.nodes.plugins` has the `Preparer` that calls DRA plugins over their sockets.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from dra.model.claims import DeviceRequestAllocationResult, ResourceClaim
from dra.model.meta import Key, Uid


@dataclass(frozen=True, slots=True)
class ClaimIdentity:
    """The identity of a claim: all that a driver needs to unprepare the claim."""

    key: Key
    uid: Uid
    drivers: tuple[str, ...] = field(default=(), compare=False)
    """Drivers of the devices that are or were allocated to the claim."""

    @classmethod
    def of(cls, claim: ResourceClaim) -> "ClaimIdentity":
        """Return the identity of a claim."""
        return cls(claim.metadata.key, claim.metadata.uid, drivers_of(claim))

    def __str__(self) -> str:
        return f"{'/'.join(self.key)} (uid {self.uid})"


@dataclass(frozen=True, slots=True, order=True)
class Device:
    """A prepared device that containers of a node can use."""

    driver: str
    pool: str
    name: str
    share: str = ""
    requests: tuple[str, ...] = field(default=(), compare=False)
    """Requests of the claim that the device serves; empty for all of them."""
    cdi: tuple[str, ...] = field(default=(), compare=False)
    """CDI names by which the container runtime knows the device."""

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.name}"


@dataclass(frozen=True, slots=True)
class DeviceHealthStatus:
    """The health of a device, in the words of a pod's ``allocatedResourcesStatus``."""

    state: str = "Unknown"
    message: str = ""


class DeviceHealthSource(Protocol):
    """Reports the health of devices on their nodes."""

    def health(self, node: str, device: Device) -> DeviceHealthStatus:
        """Return the current health of a device."""
        ...

    def add_health_listener(self, on_change: Callable[[str], None]) -> None:
        """Register a callback that gets the node of each device whose health has changed."""
        ...


class DriverError(Exception):
    """A driver is not registered or a call to it failed; the text is the kubelet's."""


class Preparer(Protocol):
    """Prepares and unprepares claims with all drivers of all nodes; both calls must be idempotent."""

    def check_registered(self, node: str, drivers: Collection[str]) -> None:
        """Raise `DriverError` unless these drivers can be called."""
        ...

    async def prepare(self, node: str, claims: Sequence[ResourceClaim]) -> Mapping[Uid, tuple[Device, ...]]:
        """Make the devices of a pod's claims usable on a node, and return them; raises `DriverError`.

        After an error, no claim counts as prepared.
        """
        ...

    async def unprepare(self, node: str, claims: Sequence[ClaimIdentity]) -> None:
        """Unprepare claims, whether or not they were ever prepared; raises `DriverError`."""
        ...

    def node_rebooted(self, node: str) -> None:
        """Handle a reboot of the node, which restarts its kubelet."""
        ...


@dataclass
class SimulatedDriver:
    """A well-behaved driver of any name: it rejects devices of other nodes and devices that another claim holds.

    A pool with the name of a node is on that node; all other pools are reachable from every node.
    """

    nodes: frozenset[str]
    driver: str | None = None
    """Name of the driver that is simulated; None for all drivers."""
    prepared: dict[str, dict[Device, ClaimIdentity]] = field(default_factory=dict)
    """Claim that holds each device, by node."""

    def check_registered(self, node: str, drivers: Collection[str]) -> None:
        """Do nothing, because the simulated driver is always registered."""

    async def prepare(self, node: str, claims: Sequence[ResourceClaim]) -> Mapping[Uid, tuple[Device, ...]]:
        """Record the devices of the claims as held; raises `DriverError`."""
        return {claim.metadata.uid: self._prepare(node, claim) for claim in claims}

    async def unprepare(self, node: str, claims: Sequence[ClaimIdentity]) -> None:
        """Release the devices of the claims."""
        prepared = self.prepared.get(node, {})
        for device in [device for device, holder in prepared.items() if holder in claims]:
            del prepared[device]

    def node_rebooted(self, node: str) -> None:
        """Keep all devices, as a driver with a checkpoint does."""

    def _prepare(self, node: str, claim: ResourceClaim) -> tuple[Device, ...]:
        identity = ClaimIdentity.of(claim)
        results = [result for result in allocation_results(claim) if self.driver in (None, result.driver)]
        devices = tuple(dict.fromkeys(_device(result) for result in results))
        exempt = {_device(result) for result in results if result.admin_access}
        prepared = self.prepared.setdefault(node, {})
        failed = f"NodePrepareResources failed for ResourceClaim {claim.metadata.name}: node {node}:"
        for device in devices:
            if device.pool in self.nodes and device.pool != node:
                raise DriverError(f"{failed} device {device} is not here, refused to claim {identity}")
            holder = prepared.get(device)
            if device not in exempt and holder is not None and holder != identity:
                raise DriverError(f"{failed} device {device} is held by claim {holder}, refused to claim {identity}")
        prepared.update({device: identity for device in devices if device not in exempt})
        return devices


def allocation_results(claim: ResourceClaim) -> list[DeviceRequestAllocationResult]:
    """Return the allocated devices of a claim; empty if the claim is not allocated."""
    allocation = claim.status.allocation
    return (allocation.devices.results if allocation is not None else None) or []


def drivers_of(claim: ResourceClaim) -> tuple[str, ...]:
    """Return the drivers of a claim's devices, each once."""
    return tuple(dict.fromkeys(result.driver for result in allocation_results(claim)))


def union_of_names(first: Iterable[str], second: Iterable[str]) -> tuple[str, ...]:
    """Return the names of both arguments, each once."""
    return tuple(dict.fromkeys((*first, *second)))


def _device(result: DeviceRequestAllocationResult) -> Device:
    request = result.request.partition("/")[0]
    return Device(result.driver, result.pool, result.device, result.share_id or "", requests=(request,))
