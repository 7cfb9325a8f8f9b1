"""The contract between a driver and the rest of the plugin; see docs/design/kubelet-plugin.md.

A driver turns an inventory into devices to publish, and a claim's allocation into container edits. Both are functions
of data: no files, no sockets, no API server. `enforce` makes all changes to the node other than CDI specs: it is
level-triggered and gets all prepared claims at once.
"""

from collections.abc import AsyncIterator, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from dra.engine.cpus.cpusets import CpuSet
from dra.engine.devices.ledger import DeviceID
from dra.engine.prepare_refusals.reasons import PrepareRefusalReason
from dra.engine.reservations.node_reservation import ReservedCpus
from dra.engine.suppression.decide import CpuCandidates
from dra.model.claims import DeviceRequestAllocationResult
from dra.model.meta import Key, Struct, Uid
from dra.model.quantities import Amounts
from dra.model.slices import Device

if TYPE_CHECKING:  # with pydantic, 13 MiB that few nodes need
    from dra.api.koordinator.device import DeviceAllocation, DeviceInfo


class PrepareError(Exception):
    """A claim is not prepared; the text begins with the object and names the remedy.

    The kubelet shows the text on the pod. An error with a reason concerns this node alone, and is also reported in the
    status of the claim.
    """

    def __init__(self, text: str, *, reason: PrepareRefusalReason | None = None) -> None:
        super().__init__(text)
        self.reason = reason


class DevicesInUseError(PrepareError):
    """Other claims hold the devices that the claim needs, and may release them soon."""


class NotEnforcedError(PrepareError):
    """Enforcement failed for some claims, each with its own reason, and succeeded for all others."""

    def __init__(self, reasons: Mapping[Uid, str]) -> None:
        super().__init__("; ".join(dict.fromkeys(reasons.values())))
        self.reasons = reasons


class ClaimIdentity(Struct, frozen=True):
    """The identity of a claim: everything that the kubelet sends."""

    key: Key
    uid: Uid

    def __str__(self) -> str:
        return f"claim {'/'.join(self.key)} (uid {self.uid})"


class DeviceNode(Struct, frozen=True):
    """An entry of CDI ``deviceNodes``."""

    path: str
    host_path: str = ""
    permissions: str = ""


class Mount(Struct, frozen=True):
    """An entry of CDI ``mounts``."""

    host_path: str
    container_path: str
    options: tuple[str, ...] = ()


class Hook(Struct, frozen=True):
    """An entry of CDI ``hooks``; ``args`` includes the program's name."""

    hook_name: str
    path: str
    args: tuple[str, ...] = ()
    env: tuple[str, ...] = ()


class ContainerEdits(Struct, frozen=True):
    """The CDI ``containerEdits``, as in specification 0.6."""

    env: tuple[str, ...] = ()
    device_nodes: tuple[DeviceNode, ...] = ()
    mounts: tuple[Mount, ...] = ()
    hooks: tuple[Hook, ...] = ()


class PreparedDevice(Struct, frozen=True):
    """A prepared device of a claim, with its container edits."""

    requests: tuple[str, ...]
    """Base names of the requests that the device was allocated for (no ``/subrequest``)."""

    pool: str
    device: str
    share: str = ""
    admin: bool = False
    """Whether the claim has adminAccess to the device: then it does not hold the device."""

    edits: ContainerEdits = ContainerEdits()
    identity: Mapping[str, str] = {}
    """What the driver recognizes the device by, when another device may have got its name or number; plain JSON.

    A build that does not know the field drops it.
    """


class PreparedClaim(Struct, frozen=True):
    """A prepared claim as the checkpoint stores it: enough to rewrite its CDI spec and to unprepare it."""

    claim: ClaimIdentity
    driver: str
    devices: tuple[PreparedDevice, ...]
    common: ContainerEdits = ContainerEdits()
    """Edits that containers get once, whichever devices of the claim they use."""

    state: Mapping[str, Any] = {}
    """Data that the driver needs again when it enforces; plain JSON."""

    @property
    def items(self) -> frozenset[DeviceID]:
        """The device ids that the ledger holds for the claim."""
        held = (device for device in self.devices if not device.admin)
        return frozenset(DeviceID(driver=self.driver, pool=e.pool, device=e.device, share=e.share) for e in held)


class OpaqueParameters(Struct, frozen=True):
    """An entry of ``allocation.devices.config`` for this driver."""

    requests: tuple[str, ...]
    """Requests that the parameters apply to, ``request/subrequest`` included; empty means all."""

    parameters: Mapping[str, Any]

    def applies_to(self, request: str) -> bool:
        """Report whether the parameters apply to a result's request.

        They apply if `requests` names the request or the base of a subrequest, or is empty.
        """
        return not self.requests or request in self.requests or base_request_name(request) in self.requests


def base_request_name(request: str) -> str:
    """Return a request's name without its subrequest, as the kubelet knows it."""
    return request.partition("/")[0]


class PodIdentity(Struct, frozen=True):
    """The name and uid of a pod in the claim's namespace."""

    name: str
    uid: Uid


class PrepareRequest(Struct, frozen=True):
    """A claim to prepare, with this driver's results and opaque parameters."""

    claim: ClaimIdentity
    results: tuple[DeviceRequestAllocationResult, ...]
    configuration: tuple[OpaqueParameters, ...]
    """Opaque parameters in upstream's order, the class's before the claim's; for one request, the last entry wins."""
    pods: tuple[PodIdentity, ...] = ()
    """Pods for which the claim is reserved; none if it is reserved for a workload."""

    @property
    def items(self) -> frozenset[DeviceID]:
        """The device ids that the claim would hold; a result with adminAccess holds none."""
        held = (result for result in self.results if not result.admin_access)
        return frozenset(
            DeviceID(driver=result.driver, pool=result.pool, device=result.device, share=result.share_id or "")
            for result in held
        )

    def parameters_of(self, result: DeviceRequestAllocationResult) -> tuple[Mapping[str, Any], ...]:
        """Return the parameters that apply to one result, lowest precedence first."""
        return tuple(opaque.parameters for opaque in self.configuration if opaque.applies_to(result.request))


class Pool(Struct, frozen=True):
    """The devices to publish under one pool name; a node's pool has the node's name."""

    name: str
    devices: tuple[Device, ...]
    taintable: bool = False
    """Whether a device may get a taint later: then the pool has smaller slices from the start."""


class DeviceHealthState(Struct, frozen=True):
    """The health of a device; ``healthy`` is None if unknown."""

    pool: str
    device: str
    healthy: bool | None
    message: str = ""


class DeviceReport(Struct, frozen=True):
    """The content of a node's Device, and the labels of the Node."""

    devices: "tuple[DeviceInfo, ...]"
    allocations: "tuple[DeviceAllocation, ...]" = ()
    labels: Mapping[str, str] = {}


@runtime_checkable
class Closable(Protocol):
    """A driver with resources to release when the plugin stops."""

    async def close(self) -> None:
        """Release the driver's resources; prepared claims stay prepared."""
        ...


@runtime_checkable
class Degradable(Protocol):
    """A driver that can be served while degraded: claims can at least be unprepared."""

    @property
    def degraded_reason(self) -> str:
        """The reason why the driver is degraded; empty if it is not."""
        ...


@runtime_checkable
class Recheckable(Protocol):
    """A driver whose devices, or their files on the node, may change while a claim holds them."""

    def recheck(self, preparation: PreparedClaim) -> PreparedClaim:
        """Return a prepared claim with container edits of the same devices as they are now.

        Raises PrepareError if containers could not use the devices, or would get other ones. Has no side effects on the
        node, and returns an equal claim if nothing has changed.
        """
        ...


@runtime_checkable
class Refreshable(Protocol):
    """A driver that can look at its devices again before claims are prepared or rechecked."""

    async def refresh(self) -> None:
        """Look whether devices have changed, cheaply if they have not. Raises PrepareError if nobody can tell."""
        ...


@runtime_checkable
class ClaimImpairmentReportable(Protocol):
    """A driver whose prepared claims may lose a part of their devices while containers use the claims."""

    def claim_impairments(self) -> tuple[str, ...]:
        """Return a text about each prepared claim that is impaired; it begins with the object, names the remedy."""
        ...


@runtime_checkable
class BestEffortLimitable(Protocol):
    """A driver that writes the cpusets of the node's pods, those of the QoS class BestEffort included."""

    def best_effort_candidates(self) -> CpuCandidates | None:
        """Return the CPUs that the class may have; None while the driver writes no cpusets."""
        ...

    @property
    def best_effort_limit(self) -> CpuSet:
        """The CPUs that the class is limited to, by this process or an earlier one; none without a limit."""
        ...

    def limit_best_effort(self, cpus: CpuSet) -> None:
        """Limit the class to these CPUs from now on; without any, lift the limit. Never waits."""
        ...


@runtime_checkable
class DeviceReportable(Protocol):
    """A driver whose devices Koordinator's kind Device describes."""

    def device_report(self, prepared: Iterable[PreparedClaim]) -> DeviceReport | None:
        """Return the report of the devices and of the prepared claims; None while the devices are unknown."""
        ...


@runtime_checkable
class EnforcementResumable(Protocol):
    """A driver that stores what it enforces, and can continue while the checkpoint cannot be read."""

    async def resume_enforcement(self) -> None:
        """Enforce the state of the last call of `enforce`, by this process or an earlier one; raises PrepareError."""
        ...


@runtime_checkable
class NodeReservationAware(Protocol):
    """A driver with resources that the Node's reservation annotation may keep from pods."""

    def apply_node_reservation(self, annotation: str | None, *, allocatable: Amounts) -> ReservedCpus | None:
        """Stop allocating the reserved resources; claims keep theirs until they are unprepared.

        Returns the reserved CPUs and the remainder of each NUMA node; None from a driver without CPUs.

        Raises MalformedAnnotationError, and then nothing has changed; OSError if a restart will forget the reservation.
        """
        ...


@runtime_checkable
class NodeLabelsAware(Protocol):
    """A driver whose devices depend on labels of the Node."""

    def apply_node_labels(self, labels: Mapping[str, str]) -> tuple[str, ...]:
        """Follow the Node's labels; return a text about each label whose value the driver does not know."""
        ...


@runtime_checkable
class DeviceStatusReportable(Protocol):
    """A driver that reports data about the devices of its prepared claims."""

    def device_data(self, preparation: PreparedClaim) -> Mapping[int, dict[str, Any]]:
        """Return data for ``status.devices[].data`` of the claim, by the index of the prepared device."""
        ...


@runtime_checkable
class NodeTopologyReportable(Protocol):
    """A driver that describes the node's CPUs in the annotations of its NodeResourceTopology."""

    def topology_annotations(self) -> Mapping[str, str]:
        """Return the annotations; empty if the driver describes nothing."""
        ...


class Driver(Protocol):
    """A DRA driver of this node.

    A driver may also be `BestEffortLimitable`, `ClaimImpairmentReportable`, `Closable`, `Degradable`,
    `DeviceReportable`, `DeviceStatusReportable`, `EnforcementResumable`, `NodeLabelsAware`, `NodeReservationAware`,
    `NodeTopologyReportable`, `Recheckable` and `Refreshable`.
    """

    @property
    def name(self) -> str:
        """The driver's name, a DNS subdomain."""
        ...

    def pools(self) -> tuple[Pool, ...]:
        """Return the pools to publish now."""
        ...

    def health(self) -> tuple[DeviceHealthState, ...]:
        """Return the health of all devices."""
        ...

    def changes(self) -> AsyncIterator[None]:
        """Yield whenever the answers of `pools` or `health` have changed."""
        ...

    def prepare(self, request: PrepareRequest, others: Iterable[PreparedClaim]) -> PreparedClaim:
        """Return the prepared claim, given the other prepared claims; raises PrepareError. Has no side effects."""
        ...

    async def enforce(self, preparations: Iterable[PreparedClaim]) -> None:
        """Bring the node to the state that all these prepared claims need.

        Raises PrepareError, naming the obstacle, if it affects all claims; NotEnforcedError if it affects only some.
        """
        ...
