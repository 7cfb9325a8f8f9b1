"""The drivers of all nodes behind sockets: the `Preparer` of kubelets that have real plugins.

A driver that no plugin has registered for is the simulated one where the plane publishes devices for it itself. Any
other fails its pods, as on a real node: what nobody prepares nobody has, and a pod that runs all the same would be
taken for a proof that one's plugin works.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

from dra.kube.client import Client
from dra.kube.clock import Clock
from dra.model.claims import ResourceClaim
from dra.model.meta import Uid
from localplane.nodes.drivers import ClaimIdentity, Device, DeviceHealthStatus, Preparer, SimulatedDriver, drivers_of
from localplane.nodes.plugins.dra_plugin_manager import DraPluginManager
from localplane.nodes.plugins.node_folders import NodeFolders
from localplane.nodes.plugins.slice_wiper import WIPING_DELAY_SECONDS, ResourceSliceWiper
from localplane.schemas.releases import NEWEST, Release

T = TypeVar("T")

NO_DRIVERS: Final[frozenset[str]] = frozenset()


class PluginPreparer:
    """The plugins of all nodes, and the simulated driver beside them. `run` never returns; cancel it."""

    def __init__(
        self,
        folders: Mapping[str, NodeFolders],
        client: Client,
        *,
        clock: Clock,
        own: frozenset[str] = NO_DRIVERS,
        wipe_after: float = WIPING_DELAY_SECONDS,
        release: Release = NEWEST,
    ) -> None:
        """``own`` are the drivers whose devices the plane publishes."""
        self._listener: Callable[[str], None] | None = None
        self._simulated = {driver: SimulatedDriver(frozenset(folders), only=driver) for driver in own}
        self._nodes = {
            node: DraPluginManager(
                node,
                each,
                wiping=ResourceSliceWiper(client, node, spared=own),
                clock=clock,
                changed=partial(self._health_changed, node),
                wipe_after=wipe_after,
                release=release,
            )
            for node, each in folders.items()
        }

    async def run(self) -> None:
        """Be there for plugins, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for node, plugins in self._nodes.items():
                group.create_task(plugins.run(), name=f"plugins of {node}")

    def listen(self, changed: Callable[[str], None]) -> None:
        """Have somebody told the node of each device whose health has changed."""
        self._listener = changed

    def health(self, node: str, device: Device) -> DeviceHealthStatus:
        """Return what its driver says of a device now."""
        return self._nodes[node].health.of(device)

    def require(self, node: str, drivers: Collection[str]) -> None:
        """Raise `PrepareError` if one of the drivers is not registered."""
        for driver in drivers:
            if self._simulated_driver(node, driver) is None:
                self._nodes[node].endpoint(driver)

    async def prepare(self, node: str, claims: Sequence[ResourceClaim]) -> Mapping[Uid, tuple[Device, ...]]:
        """Ask each driver for all of its claims at once; the first error ends it."""
        devices: dict[Uid, tuple[Device, ...]] = {claim.metadata.uid: () for claim in claims}
        for driver, batch in _claims_by_driver((drivers_of(claim), claim) for claim in claims).items():
            simulation, found = self._simulated_driver(node, driver), dict[Uid, tuple[Device, ...]]()
            if simulation is not None:
                found.update(await simulation.prepare(node, batch))
            else:
                asked = [ClaimIdentity.of(claim) for claim in batch]
                found.update(await self._nodes[node].endpoint(driver).prepare(asked))
            for uid, each in found.items():
                devices[uid] += each
        return devices

    async def unprepare(self, node: str, claims: Sequence[ClaimIdentity]) -> None:
        """Ask each driver to take all of its claims back; the first error ends it."""
        for driver, batch in _claims_by_driver((claim.drivers, claim) for claim in claims).items():
            simulation = self._simulated_driver(node, driver)
            if simulation is not None:
                await simulation.unprepare(node, batch)
            else:
                await self._nodes[node].endpoint(driver).unprepare(batch)

    def restarted(self, node: str) -> None:
        """The node has rebooted."""
        self._nodes[node].restart()

    def _simulated_driver(self, node: str, driver: str) -> Preparer | None:
        """Return what stands for a driver that has no plugin on a node; None where nothing does."""
        return None if driver in self._nodes[node] else self._simulated.get(driver)

    def _health_changed(self, node: str) -> None:
        if self._listener is not None:
            self._listener(node)


def _claims_by_driver(claims: Iterable[tuple[Iterable[str], T]]) -> dict[str, list[T]]:
    """Return the claims of each driver."""
    batches: dict[str, list[T]] = {}
    for drivers, claim in claims:
        for driver in drivers:
            batches.setdefault(driver, []).append(claim)
    return batches
