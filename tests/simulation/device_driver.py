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
from tests.dra.engine.simulation.violation import Violation

if TYPE_CHECKING:
    from tests.simulation.simulated_cluster import SimulatedSystem

DRIVER: Final = "gpu.example.com"


class RecordingDriver:
    """Implements `localplane.nodes.drivers.Preparer`; what it has handed out outlives the kubelets' processes."""

    def __init__(self, system: "SimulatedSystem") -> None:
        self._system = system
        self._prepared: dict[str, dict[Device, ClaimIdentity]] = {}

    def check_registered(self, node: str, drivers: Collection[str]) -> None:
        """Every driver is there."""

    async def prepare(self, node: str, claims: Sequence[ResourceClaim]) -> Mapping[Uid, tuple[Device, ...]]:
        return {claim.metadata.uid: self._prepare(node, claim) for claim in claims}

    def _prepare(self, node: str, claim: ResourceClaim) -> tuple[Device, ...]:
        identity = ClaimIdentity.of(claim)
        allocation = claim.status.allocation
        results = (allocation.devices.results if allocation is not None else None) or []
        devices = tuple(Device(r.driver, r.pool, r.device) for r in results)
        for other, prepared in self._prepared.items():
            for device in devices:
                holder = prepared.get(device)
                if holder is not None and holder.uid != identity.uid and self._is_knowable(other, holder):
                    self._system.failed(
                        Violation(f"{device} is handed to claim {identity} on {node}; on {other} claim {holder} has it")
                    )
        self._prepared.setdefault(node, {}).update(dict.fromkeys(devices, identity))
        return devices

    async def unprepare(self, node: str, claims: Sequence[ClaimIdentity]) -> None:
        prepared, uids = self._prepared.get(node, {}), {claim.uid for claim in claims}
        for device in [device for device, holder in prepared.items() if holder.uid in uids]:
            del prepared[device]

    def node_rebooted(self, node: str) -> None:
        """See `clear_node`, which the system calls."""

    def clear_node(self, node: str) -> None:
        """Nothing runs there any more."""
        self._prepared.pop(node, None)

    @property
    def nodes(self) -> frozenset[str]:
        """The nodes on which devices were prepared; the API server may have forgotten some of them."""
        return frozenset(self._prepared)

    def forget_orphans(self, node: str) -> None:
        """A kubelet has started anew and hears of the API server: what has no pod is ended before anything else."""
        prepared = self._prepared.get(node, {})
        for device in [device for device, holder in prepared.items() if not self._is_used(node, holder)]:
            del prepared[device]

    def _is_knowable(self, node: str, holder: ClaimIdentity) -> bool:
        """Whether anybody could have known: of a pod that is there, or that was removed while its containers ran on."""
        removed = self._system.safety.removed_pods.get((node, holder.uid), ())
        return self._is_used(node, holder) or any(each.seen for each in removed)

    def _is_used(self, node: str, holder: ClaimIdentity) -> bool:
        """Whether a pod on a node uses a claim, as the API server has it."""
        namespace, name = holder.key
        for pod in self._system.safety.pods.values():
            if pod.metadata.uid in self._system.safety.declared_over:
                continue
            if pod.metadata.namespace == namespace and pod.spec.node_name == node and not pod.terminal:
                claim = self._system.safety.claims.get(holder.key)
                if name in claim_names(pod) and claim is not None and claim.metadata.uid == holder.uid:
                    return True
        return False
