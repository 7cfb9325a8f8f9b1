"""The seam between a kubelet and the drivers of its devices, and the driver of the simulated ones.

`localplane.nodes.plugins` has the `Preparer` that asks DRA plugins over their sockets.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from dra.model.claims import DeviceRequestAllocationResult, ResourceClaim
from dra.model.meta import Key, Uid


@dataclass(frozen=True, slots=True)
class ClaimIdentity:
    """All that is known of a claim when it is given back."""

    key: Key
    uid: Uid
    drivers: tuple[str, ...] = field(default=(), compare=False)
    """Whose devices it has, or had."""

    @classmethod
    def of(cls, claim: ResourceClaim) -> "ClaimIdentity":
        """Return the identity of a claim."""
        return cls(claim.metadata.key, claim.metadata.uid, drivers_of(claim))

    def __str__(self) -> str:
        return f"{'/'.join(self.key)} (uid {self.uid})"


@dataclass(frozen=True, slots=True, order=True)
class Device:
    """A device that is handed to the containers of a node."""

    driver: str
    pool: str
    name: str
    share: str = ""
    requests: tuple[str, ...] = field(default=(), compare=False)
    """Which requests of the claim it answers; none: all of them."""
    cdi: tuple[str, ...] = field(default=(), compare=False)
    """What the container runtime knows it by."""

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.name}"


@dataclass(frozen=True, slots=True)
class DeviceHealthStatus:
    """What is known of the health of a device, in the words of a pod's ``allocatedResourcesStatus``."""

    state: str = "Unknown"
    message: str = ""


class DeviceHealthSource(Protocol):
    """What is known of the health of devices on their nodes."""

    def health(self, node: str, device: Device) -> DeviceHealthStatus:
        """Return what is known of a device now."""
        ...

    def listen(self, changed: Callable[[str], None]) -> None:
        """Have somebody told the node of each device whose health has changed."""
        ...


class DriverError(Exception):
    """A driver is not there, or does not do what it was asked for; the text is the kubelet's."""


class Preparer(Protocol):
    """All drivers of all nodes; prepare and unprepare may come again and must not mind."""

    def require(self, node: str, drivers: Collection[str]) -> None:
        """Make sure that these drivers can be asked at all; raises `PrepareError`."""
        ...

    async def prepare(self, node: str, claims: Sequence[ResourceClaim]) -> Mapping[Uid, tuple[Device, ...]]:
        """Make the devices of a pod's claims usable on a node, and return them; raises `PrepareError`.

        Nothing counts as prepared if it does.
        """
        ...

    async def unprepare(self, node: str, claims: Sequence[ClaimIdentity]) -> None:
        """Undo that, whether or not it was ever done; raises `PrepareError`."""
        ...

    def restarted(self, node: str) -> None:
        """Take note that the node has rebooted, and its kubelet with it."""
        ...


@dataclass
class SimulatedDriver:
    """Stands for a driver of any name, well-behaved: it refuses devices of other nodes and those that a claim holds.

    Pools named like a node are on that node; all other pools are reached from everywhere.
    """

    nodes: frozenset[str]
    only: str | None = None
    """Which driver it stands for; None: for all."""
    held: dict[str, dict[Device, ClaimIdentity]] = field(default_factory=dict)
    """By node: which claim has which device."""

    def require(self, node: str, drivers: Collection[str]) -> None:
        """Be there."""

    async def prepare(self, node: str, claims: Sequence[ResourceClaim]) -> Mapping[Uid, tuple[Device, ...]]:
        """Take note of the devices."""
        return {claim.metadata.uid: self._prepare(node, claim) for claim in claims}

    async def unprepare(self, node: str, claims: Sequence[ClaimIdentity]) -> None:
        """Forget them."""
        held = self.held.get(node, {})
        for device in [device for device, holder in held.items() if holder in claims]:
            del held[device]

    def restarted(self, node: str) -> None:
        """Remember everything: a driver has its checkpoint."""

    def _prepare(self, node: str, claim: ResourceClaim) -> tuple[Device, ...]:
        identity = ClaimIdentity.of(claim)
        results = [result for result in allocation_results(claim) if self.only in (None, result.driver)]
        devices = tuple(dict.fromkeys(_device(result) for result in results))
        exempt = {_device(result) for result in results if result.admin_access}
        held = self.held.setdefault(node, {})
        failed = f"NodePrepareResources failed for ResourceClaim {claim.metadata.name}: node {node}:"
        for device in devices:
            if device.pool in self.nodes and device.pool != node:
                raise DriverError(f"{failed} device {device} is not here, refused to claim {identity}")
            holder = held.get(device)
            if device not in exempt and holder is not None and holder != identity:
                raise DriverError(f"{failed} device {device} is held by claim {holder}, refused to claim {identity}")
        held.update({device: identity for device in devices if device not in exempt})
        return devices


def allocation_results(claim: ResourceClaim) -> list[DeviceRequestAllocationResult]:
    """Return what a claim was given; nothing where it was given nothing."""
    allocation = claim.status.allocation
    return (allocation.devices.results if allocation is not None else None) or []


def drivers_of(claim: ResourceClaim) -> tuple[str, ...]:
    """Return the drivers of its devices, each once."""
    return tuple(dict.fromkeys(result.driver for result in allocation_results(claim)))


def union_of_names(first: Iterable[str], second: Iterable[str]) -> tuple[str, ...]:
    """Return the names of both, each once."""
    return tuple(dict.fromkeys((*first, *second)))


def _device(result: DeviceRequestAllocationResult) -> Device:
    request = result.request.partition("/")[0]
    return Device(result.driver, result.pool, result.device, result.share_id or "", requests=(request,))
