"""What a driver is to the rest of the plugin: the seams of docs/design/kubelet-plugin.md.

A driver turns an inventory into devices to publish, and a claim's allocation into what its containers get. It does so
as a function of data: no files, no sockets, no API server. What must be done to the machine beside the CDI file,
`enforce` does, level-triggered, from all preparations at once.
"""

from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any, Protocol, runtime_checkable

from dra.engine.devices.ledger import DeviceID
from dra.engine.reservations.amounts import NanoAmounts
from dra.engine.reservations.node_reservation import ReservedCpus
from dra.model.claims import DeviceRequestAllocationResult
from dra.model.meta import Key, Struct, Uid
from dra.model.slices import Device


class Refused(Exception):  # noqa: N818 - an answer, as in HTTP, not a defect
    """A claim is not prepared; the text begins with the object and says what to do. The kubelet shows it on the pod."""


class DevicesInUse(Refused):
    """Other claims have what the claim needs; they may be about to give it back."""


class NotEnforced(Refused):
    """Some claims cannot have what they want, each for a reason of its own; all others have what they should."""

    def __init__(self, reasons: Mapping[Uid, str]) -> None:
        super().__init__("; ".join(dict.fromkeys(reasons.values())))
        self.reasons = reasons


class ClaimIdentity(Struct, frozen=True):
    """All that the kubelet tells of a claim."""

    key: Key
    uid: Uid

    def __str__(self) -> str:
        return f"claim {'/'.join(self.key)} (uid {self.uid})"


class DeviceNode(Struct, frozen=True):
    """CDI ``deviceNodes``."""

    path: str
    host_path: str = ""
    permissions: str = ""


class Mount(Struct, frozen=True):
    """CDI ``mounts``."""

    host_path: str
    container_path: str
    options: tuple[str, ...] = ()


class Hook(Struct, frozen=True):
    """CDI ``hooks``; ``args`` includes the program's name."""

    hook_name: str
    path: str
    args: tuple[str, ...] = ()
    env: tuple[str, ...] = ()


class ContainerEdits(Struct, frozen=True):
    """CDI ``containerEdits``, as in specification 0.6."""

    env: tuple[str, ...] = ()
    device_nodes: tuple[DeviceNode, ...] = ()
    mounts: tuple[Mount, ...] = ()
    hooks: tuple[Hook, ...] = ()


class PreparedDevice(Struct, frozen=True):
    """A device as the containers of a claim get it."""

    requests: tuple[str, ...]
    """Base names of the requests it answers (no ``/subrequest``)."""

    pool: str
    device: str
    share: str = ""
    admin: bool = False
    """adminAccess: it is looked at, not held."""

    edits: ContainerEdits = ContainerEdits()


class PreparedClaim(Struct, frozen=True):
    """What is remembered of a prepared claim; enough to write its CDI file again and to unprepare it."""

    claim: ClaimIdentity
    driver: str
    devices: tuple[PreparedDevice, ...]
    common: ContainerEdits = ContainerEdits()
    """Edits of every device of the claim, once."""

    state: Mapping[str, Any] = {}
    """What the driver wants to know again when it enforces; plain JSON."""

    @property
    def items(self) -> frozenset[DeviceID]:
        """What the ledger holds for it."""
        held = (each for each in self.devices if not each.admin)
        return frozenset(DeviceID(driver=self.driver, pool=e.pool, device=e.device, share=e.share) for e in held)


class OpaqueParameters(Struct, frozen=True):
    """One entry of ``allocation.devices.config`` that is for this driver."""

    requests: tuple[str, ...]
    """Requests it is for, ``request/subrequest`` included; none: for all."""

    parameters: Mapping[str, Any]

    def applies_to(self, request: str) -> bool:
        """Whether it is for a result's request: named itself, or by what it is a subrequest of, or not at all."""
        return not self.requests or request in self.requests or base_request_name(request) in self.requests


def base_request_name(request: str) -> str:
    """Return a request's name without its subrequest, as the kubelet knows it."""
    return request.partition("/")[0]


class PrepareRequest(Struct, frozen=True):
    """A claim as a driver sees it: its own results, and the parameters that apply, weakest first."""

    claim: ClaimIdentity
    results: tuple[DeviceRequestAllocationResult, ...]
    configuration: tuple[OpaqueParameters, ...]
    """In upstream's order of precedence: of the class, then of the claim; of two for one request the later one wins."""

    def parameters_of(self, result: DeviceRequestAllocationResult) -> tuple[Mapping[str, Any], ...]:
        """Return the parameters that apply to one result, weakest first."""
        return tuple(each.parameters for each in self.configuration if each.applies_to(result.request))


class Pool(Struct, frozen=True):
    """Devices to publish under one pool name; a node's pool bears the node's name."""

    name: str
    devices: tuple[Device, ...]


class DeviceHealthState(Struct, frozen=True):
    """What is known of a device's health; ``healthy`` None: unknown."""

    pool: str
    device: str
    healthy: bool | None
    message: str = ""


@runtime_checkable
class Closable(Protocol):
    """A driver that keeps something open beside its answers."""

    async def close(self) -> None:
        """Let go of it; what is prepared stays as it is."""
        ...


@runtime_checkable
class Degradable(Protocol):
    """A driver that can serve though it is of little use: what is prepared can be given back, at least."""

    @property
    def trouble(self) -> str:
        """Why it is of little use; empty if it is not so."""
        ...


@runtime_checkable
class Recheckable(Protocol):
    """A driver whose devices may vanish while a claim has them."""

    def recheck(self, preparation: PreparedClaim) -> None:
        """Raise Refused if another pod of a prepared claim could not use what was prepared."""
        ...


@runtime_checkable
class EnforcementResumable(Protocol):
    """A driver that remembers what it enforces, and can go on with that while the checkpoint cannot be read."""

    async def resume_enforcement(self) -> None:
        """Go on enforcing what `enforce` was last asked for, by this process or one before it; raises Refused."""
        ...


@runtime_checkable
class NodeReservationAware(Protocol):
    """A driver that has something which the Node's annotation may keep from everybody."""

    def keep(self, annotation: str | None, *, allocatable: NanoAmounts) -> ReservedCpus | None:
        """Give away none of what is kept from now on; what claims have of it stays theirs until they end.

        Returns the CPUs that are kept, and what is left of each NUMA node; None from a driver that has no CPUs.

        Raises MalformedAnnotationError, and nothing has changed; OSError if it will not be remembered.
        """
        ...


class Driver(Protocol):
    """One DRA driver of this node; it may be `Ailing`, `Closable`, `Keeping`, `Rechecking` and `Upholding`."""

    @property
    def name(self) -> str:
        """The driver's name, a DNS subdomain."""
        ...

    def pools(self) -> tuple[Pool, ...]:
        """Return what to publish now."""
        ...

    def health(self) -> tuple[DeviceHealthState, ...]:
        """Return the health of all devices."""
        ...

    def changes(self) -> AsyncIterator[None]:
        """Yield whenever `pools` or `health` have something new to say."""
        ...

    def prepare(self, request: PrepareRequest, others: Iterable[PreparedClaim]) -> PreparedClaim:
        """Return what the claim gets beside what others have; raises Refused. No side effects."""
        ...

    async def enforce(self, preparations: Iterable[PreparedClaim]) -> None:
        """Make the machine such as all these preparations want it.

        Raises Refused naming what stands in the way of all, NotEnforced if it is in the way of some only.
        """
        ...
