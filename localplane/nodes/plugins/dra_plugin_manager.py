"""The plugins of one node: the instances of each driver, and the choice of the instance to call.

During a rolling update, several instances of a driver are registered, each with its own endpoint. The instance that was
registered last is called, but a connected instance comes before any that is not connected. When no instance is
connected for 30 s, the driver's ResourceSlices are removed from the node. When the kubelet starts, the ResourceSlices
of all drivers are removed.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final

from dra.kube.clock import Clock
from dra.kube.tasks import BackgroundTasks, background_task
from dra.model.releases import NEWEST, Release
from localplane.nodes.drivers import DriverError
from localplane.nodes.plugins import health_info, responses
from localplane.nodes.plugins.dra_plugin import DraPlugin
from localplane.nodes.plugins.node_folders import NodeFolders
from localplane.nodes.plugins.plugin_watcher import SYNC_SECONDS, PluginWatcher
from localplane.nodes.plugins.slice_wiper import WIPING_DELAY_SECONDS, ResourceSliceWiper

_log: Final = logging.getLogger(__name__)


@dataclass(slots=True)
class _Instance:
    plugin: DraPlugin
    tasks: tuple[asyncio.Task[None], ...]


class DraPluginManager:
    """Manages the registered plugins of one node; a `plugin_watcher.PluginHandler`."""

    def __init__(  # noqa: PLR0913 - keyword-only; the node's folder and what stands around it
        self,
        node: str,
        folders: NodeFolders,
        *,
        wiper: ResourceSliceWiper,
        clock: Clock,
        on_change: Callable[[], None],
        wipe_after: float = WIPING_DELAY_SECONDS,
        sync_seconds: float = SYNC_SECONDS,
        release: Release = NEWEST,
    ) -> None:
        """Take ``on_change``, which is called when the health of a device has changed."""
        self._node = node
        self._folders = folders
        self._wiper = wiper
        self._wipe_after = wipe_after
        self._release = release
        self._instances: dict[str, list[_Instance]] = {}
        self._wipes: dict[str, asyncio.Task[None]] = {}
        """Wipe tasks that are due or under way, by driver."""
        self._tasks = BackgroundTasks()
        self._watcher = PluginWatcher(folders.registry, self, node=node, clock=clock, sync_seconds=sync_seconds)
        self.health = health_info.HealthInfoCache(clock, on_change=on_change)

    async def run(self) -> None:
        """Run the plugin manager of a kubelet that starts, until cancelled."""
        self._folders.make()
        self._spawn(self._wiper.wipe(), "wipe all slices")
        self._spawn(self._expire(), "expire health reports")
        try:
            async with background_task(self._watcher.run(), name=f"registry of {self._node}"):
                await self._tasks.wait_for_failure()
        finally:
            await self._tasks.close()

    def restart(self) -> None:
        """Reset all state after a reboot of the node, and delete the CDI files, which lie on a tmpfs."""
        self._watcher.reset()
        for path in self._folders.cdi.iterdir():
            if path.is_file():
                path.unlink(missing_ok=True)
        self._spawn(self._wiper.wipe(), "wipe all slices")

    def get_plugin(self, driver: str) -> DraPlugin:
        """Return the instance of a driver to call; raises `DriverError`."""
        if not driver:
            raise DriverError("DRA driver name is empty")
        instances = self._instances.get(driver)
        if not instances:
            raise DriverError(f"DRA driver {driver} is not registered")
        connected = [instance for instance in instances if instance.plugin.connected]
        return (connected or instances)[-1].plugin

    def __contains__(self, driver: str) -> bool:
        return driver in self._instances

    def validate(self, driver: str, endpoint: str, versions: list[str]) -> None:
        """Raise ValueError if the plugin supports no version that the kubelet supports."""
        try:
            responses.supported_version(versions)
        except ValueError as error:
            what = f"invalid supported gRPC versions of DRA driver plugin {driver} at endpoint {endpoint}"
            raise ValueError(f"{what}: {error}") from error

    def register(self, driver: str, endpoint: str, versions: list[str]) -> None:
        """Connect to an instance; raises ValueError if another instance has that endpoint."""
        instances = self._instances.get(driver, [])
        if any(instance.plugin.path == endpoint for instance in instances):
            raise ValueError(f"endpoint {endpoint} already registered for DRA driver plugin {driver}")
        plugin = DraPlugin(
            driver=driver,
            path=endpoint,
            version=responses.supported_version(versions),
            on_change=lambda: self._sync(driver),
        )
        tasks = [self._spawn(plugin.keep_connected(), f"connection to {plugin}")]
        version = health_info.health_service_version(versions, release=self._release)
        if version is not None:
            following = health_info.watch_device_health(plugin.channel, driver, version=version, cache=self.health)
            tasks.append(self._spawn(following, f"health of {plugin}"))
        self._instances[driver] = [*instances, _Instance(plugin, tuple(tasks))]
        _log.info("node %s: %s is registered (%s)", self._node, plugin, plugin.version)
        self._sync(driver)

    def deregister(self, driver: str, endpoint: str) -> None:
        """Remove an instance and cancel its tasks."""
        instances = self._instances.pop(driver, [])
        left = [instance for instance in instances if instance.plugin.path != endpoint]
        for instance in instances:
            if instance not in left:
                for task in instance.tasks:
                    task.cancel()
        if left:
            self._instances[driver] = left
        _log.info("node %s: driver %s at %s is no longer registered", self._node, driver, endpoint)
        self._sync(driver)

    def _sync(self, driver: str) -> None:
        """Schedule the removal of a driver's slices if no instance is connected, and cancel it otherwise."""
        pending = self._wipes.get(driver)
        if any(instance.plugin.connected for instance in self._instances.get(driver, ())):
            if pending is not None:
                pending.cancel()
                del self._wipes[driver]
        elif pending is None or pending.done():
            self._wipes[driver] = self._spawn(self._wipe_later(driver), f"wipe slices of {driver}")

    async def _wipe_later(self, driver: str) -> None:
        await asyncio.sleep(self._wipe_after)
        _log.warning("node %s: driver %s cannot be reached; its ResourceSlices are removed", self._node, driver)
        await self._wiper.wipe(driver)

    async def _expire(self) -> None:
        while True:
            await asyncio.sleep(health_info.EXPIRE_SECONDS)
            self.health.expire()

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        return self._tasks.start(work, name=f"{name} on {self._node}")
