"""The driver of all devices: what containers really have, whatever the API server says.

A device in a network is reached from several nodes, and no driver on one of them can know what another has handed out.
So this one looks across all nodes: that no two claims' containers have one device is what everything else is for.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from dra.model.claims import ResourceClaim
from dra.model.meta import Uid
from dra.model.pods import claim_names
from localplane.nodes.drivers import ClaimIdentity, Device
from tests.simulation.violation import Violation

if TYPE_CHECKING:
    from tests.simulation.simulated_cluster import SimulatedSystem

DRIVER: Final = "gpu.example.com"


class RecordingDriver:
    """Implements `localplane.nodes.drivers.Preparer`; what it has handed out outlives the kubelets' processes."""

    def __init__(self, world: "SimulatedSystem") -> None:
        self._world = world
        self._held: dict[str, dict[Device, ClaimIdentity]] = {}

    def check_registered(self, node: str, drivers: Collection[str]) -> None:
        """Every driver is there."""

    async def prepare(self, node: str, claims: Sequence[ResourceClaim]) -> Mapping[Uid, tuple[Device, ...]]:
        return {claim.metadata.uid: self._prepare(node, claim) for claim in claims}

    def _prepare(self, node: str, claim: ResourceClaim) -> tuple[Device, ...]:
        mine = ClaimIdentity.of(claim)
        allocation = claim.status.allocation
        results = (allocation.devices.results if allocation is not None else None) or []
        devices = tuple(Device(r.driver, r.pool, r.device) for r in results)
        for other, held in self._held.items():
            for device in devices:
                holder = held.get(device)
                if holder is not None and holder.uid != mine.uid and self._is_knowable(other, holder):
                    self._world.failed(
                        Violation(f"{device} is handed to claim {mine} on {node}; on {other} claim {holder} has it")
                    )
        self._held.setdefault(node, {}).update(dict.fromkeys(devices, mine))
        return devices

    async def unprepare(self, node: str, claims: Sequence[ClaimIdentity]) -> None:
        held, uids = self._held.get(node, {}), {claim.uid for claim in claims}
        for device in [device for device, holder in held.items() if holder.uid in uids]:
            del held[device]

    def node_rebooted(self, node: str) -> None:
        """See `clear_node`, which the system calls."""

    def clear_node(self, node: str) -> None:
        """Nothing runs there any more."""
        self._held.pop(node, None)

    def forget_orphans(self, *, but: Collection[str]) -> None:
        """Kubelets start anew: what has no pod any more is ended before anything else, where they can."""
        for node, held in self._held.items():
            if node not in but:
                for device in [device for device, holder in held.items() if not self._used(node, holder)]:
                    del held[device]

    def _is_knowable(self, node: str, holder: ClaimIdentity) -> bool:
        """Whether anybody could have known: of a pod that is there, or that was removed while its containers ran on."""
        vanished = self._world.audit.vanished.get((node, holder.uid), ())
        return self._used(node, holder) or any(each.seen for each in vanished)

    def _used(self, node: str, holder: ClaimIdentity) -> bool:
        """Whether a pod on a node uses a claim, as the API server has it."""
        namespace, name = holder.key
        for pod in self._world.audit.pods.values():
            if pod.metadata.uid in self._world.audit.given_up:
                continue
            if pod.metadata.namespace == namespace and pod.spec.node_name == node and not pod.terminal:
                claim = self._world.audit.claims.get(holder.key)
                if name in claim_names(pod) and claim is not None and claim.metadata.uid == holder.uid:
                    return True
        return False
