"""The seam between a kubelet and the drivers of its devices, and the driver of the simulated ones.

A `Preparer` over the real sockets of a DRA plugin (``dra.wire``) fits here; it comes with the node plugin.
"""

from dataclasses import dataclass, field
from typing import Protocol

from dra.model.claims import DeviceRequestAllocationResult, ResourceClaim
from dra.model.meta import Key, Uid


@dataclass(frozen=True, slots=True)
class ClaimIdentity:
    """All that is known of a claim when it is given back."""

    key: Key
    uid: Uid

    @classmethod
    def of(cls, claim: ResourceClaim) -> "ClaimIdentity":
        """Return the identity of a claim."""
        return cls(claim.metadata.key, claim.metadata.uid)

    def __str__(self) -> str:
        return f"{'/'.join(self.key)} (uid {self.uid})"


@dataclass(frozen=True, slots=True, order=True)
class Device:
    """A device that is handed to the containers of a node."""

    driver: str
    pool: str
    name: str
    share: str = ""

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.name}"


class PrepareError(Exception):
    """A driver does not do what it was asked for; the text is the driver's."""


class Preparer(Protocol):
    """All drivers of all nodes; both calls may come again and must not mind."""

    async def prepare(self, node: str, claim: ResourceClaim) -> tuple[Device, ...]:
        """Make the devices of a claim usable on a node; raises `PrepareError`."""
        ...

    async def unprepare(self, node: str, claim: ClaimIdentity) -> None:
        """Undo that, whether or not it was ever done; raises `PrepareError`."""
        ...


@dataclass
class SimulatedDriver:
    """Stands for a driver of any name, well-behaved: it refuses devices of other nodes and those that a claim holds.

    Pools named like a node are on that node; all other pools are reached from everywhere.
    """

    nodes: frozenset[str]
    held: dict[str, dict[Device, ClaimIdentity]] = field(default_factory=dict)
    """By node: which claim has which device."""

    async def prepare(self, node: str, claim: ResourceClaim) -> tuple[Device, ...]:
        """Take note of the devices."""
        identity, allocation = ClaimIdentity.of(claim), claim.status.allocation
        results = (allocation.devices.results if allocation is not None else None) or []
        devices = tuple(dict.fromkeys(_device(result) for result in results))
        exempt = {_device(result) for result in results if result.admin_access}
        held = self.held.setdefault(node, {})
        for device in devices:
            if device.pool in self.nodes and device.pool != node:
                raise PrepareError(f"node {node}: device {device} is not here, refused to claim {identity}")
            holder = held.get(device)
            if device not in exempt and holder is not None and holder != identity:
                taken = f"node {node}: device {device} is held by claim {holder}"
                raise PrepareError(f"{taken}, refused to claim {identity}")
        held.update({device: identity for device in devices if device not in exempt})
        return devices

    async def unprepare(self, node: str, claim: ClaimIdentity) -> None:
        """Forget them."""
        held = self.held.get(node, {})
        for device in [device for device, holder in held.items() if holder == claim]:
            del held[device]


def _device(result: DeviceRequestAllocationResult) -> Device:
    return Device(result.driver, result.pool, result.device, result.share_id or "")
