"""The drivers of all nodes behind sockets: the `Preparer` of kubelets with real plugins.

A driver without a registered plugin is simulated if the plane itself publishes the driver's devices. Any other driver
without a plugin fails its pods, as on a real node: no component has prepared their devices, and a pod that ran all the
same would look like proof that the user's plugin works.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

from dra.kube.client import Client
from dra.kube.clock import Clock
from dra.model.claims import ResourceClaim
from dra.model.meta import Uid
from dra.model.releases import NEWEST, Release
from localplane.nodes.drivers import ClaimIdentity, Device, DeviceHealthStatus, Preparer, SimulatedDriver, drivers_of
from localplane.nodes.plugins.dra_plugin_manager import DraPluginManager
from localplane.nodes.plugins.node_folders import NodeFolders
from localplane.nodes.plugins.slice_wiper import WIPING_DELAY_SECONDS, ResourceSliceWiper

T = TypeVar("T")

NO_DRIVERS: Final[frozenset[str]] = frozenset()


class PluginPreparer:
    """The plugins of all nodes, and the simulated drivers; `run` never returns, so cancel it."""

    def __init__(
        self,
        folders: Mapping[str, NodeFolders],
        client: Client,
        *,
        clock: Clock,
        simulated_drivers: frozenset[str] = NO_DRIVERS,
        wipe_after: float = WIPING_DELAY_SECONDS,
        release: Release = NEWEST,
    ) -> None:
        """Take ``simulated_drivers``, the drivers whose devices the plane publishes."""
        self._listener: Callable[[str], None] | None = None
        self._simulated = {driver: SimulatedDriver(frozenset(folders), driver=driver) for driver in simulated_drivers}
        self._nodes = {
            node: DraPluginManager(
                node,
                node_folders,
                wiper=ResourceSliceWiper(client, node, kept_drivers=simulated_drivers),
                clock=clock,
                on_change=partial(self._health_changed, node),
                wipe_after=wipe_after,
                release=release,
            )
            for node, node_folders in folders.items()
        }

    async def run(self) -> None:
        """Serve plugins of all nodes until cancelled."""
        async with asyncio.TaskGroup() as group:
            for node, plugins in self._nodes.items():
                group.create_task(plugins.run(), name=f"plugins of {node}")

    def add_health_listener(self, on_change: Callable[[str], None]) -> None:
        """Register a callback that gets the node of each device whose health has changed."""
        self._listener = on_change

    def health(self, node: str, device: Device) -> DeviceHealthStatus:
        """Return the current health of a device as its driver reports it."""
        return self._nodes[node].health.get(device)

    def check_registered(self, node: str, drivers: Collection[str]) -> None:
        """Raise `DriverError` if one of the drivers is not registered."""
        for driver in drivers:
            if self._simulated_driver(node, driver) is None:
                self._nodes[node].get_plugin(driver)

    async def prepare(self, node: str, claims: Sequence[ResourceClaim]) -> Mapping[Uid, tuple[Device, ...]]:
        """Call each driver once for all of its claims; the first error ends the preparation."""
        devices: dict[Uid, tuple[Device, ...]] = {claim.metadata.uid: () for claim in claims}
        for driver, batch in _claims_by_driver((drivers_of(claim), claim) for claim in claims).items():
            simulation, prepared = self._simulated_driver(node, driver), dict[Uid, tuple[Device, ...]]()
            if simulation is not None:
                prepared.update(await simulation.prepare(node, batch))
            else:
                identities = [ClaimIdentity.of(claim) for claim in batch]
                prepared.update(await self._nodes[node].get_plugin(driver).prepare(identities))
            for uid, of_claim in prepared.items():
                devices[uid] += of_claim
        return devices

    async def unprepare(self, node: str, claims: Sequence[ClaimIdentity]) -> None:
        """Call each driver once to unprepare all of its claims; the first error ends the call."""
        for driver, batch in _claims_by_driver((claim.drivers, claim) for claim in claims).items():
            simulation = self._simulated_driver(node, driver)
            if simulation is not None:
                await simulation.unprepare(node, batch)
            else:
                await self._nodes[node].get_plugin(driver).unprepare(batch)

    def node_rebooted(self, node: str) -> None:
        """Restart the plugin manager of a node that has rebooted."""
        self._nodes[node].restart()

    def _simulated_driver(self, node: str, driver: str) -> Preparer | None:
        """Return the simulated driver for a driver that has no plugin on a node; None if there is none."""
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
