"""The plugins of one node: which instances of which drivers there are, and which of them is asked.

Several instances of a driver live side by side while it is updated, each with an endpoint of its own. The one that was
registered last is asked, but one that is connected before any that is not. When none is connected for 30 s, the
driver's ResourceSlices are removed from the node; all are when its kubelet starts.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final

from dra.kube.clock import Clock
from dra.kube.tasks import BackgroundTasks, background_task
from localplane.nodes.drivers import DriverError
from localplane.nodes.plugins import health_info, responses
from localplane.nodes.plugins.dra_plugin import DraPlugin
from localplane.nodes.plugins.node_folders import NodeFolders
from localplane.nodes.plugins.plugin_watcher import PluginWatcher
from localplane.nodes.plugins.slice_wiper import WIPING_DELAY_SECONDS, ResourceSliceWiper
from localplane.schemas.releases import NEWEST, Release

_log: Final = logging.getLogger(__name__)


@dataclass(slots=True)
class _Instance:
    endpoint: DraPlugin
    tasks: tuple[asyncio.Task[None], ...]


class DraPluginManager:
    """Those of one node; a `registry.Handler`."""

    def __init__(  # noqa: PLR0913 - keyword-only; the node's folder and what stands around it
        self,
        node: str,
        folders: NodeFolders,
        *,
        wiping: ResourceSliceWiper,
        clock: Clock,
        changed: Callable[[], None],
        wipe_after: float = WIPING_DELAY_SECONDS,
        release: Release = NEWEST,
    ) -> None:
        """``changed`` is told that the health of a device has changed."""
        self._node = node
        self._folders = folders
        self._wiping = wiping
        self._wipe_after = wipe_after
        self._release = release
        self._instances: dict[str, list[_Instance]] = {}
        self._pending: dict[str, asyncio.Task[None]] = {}
        """Wipings that are due or under way, by driver."""
        self._tasks = BackgroundTasks()
        self._registry = PluginWatcher(folders.registry, self, node=node, clock=clock)
        self.health = health_info.HealthInfoCache(clock, changed=changed)

    async def run(self) -> None:
        """Be the plugin manager of a kubelet that starts, until cancelled."""
        self._folders.make()
        self._spawn(self._wiping.wipe(), "wipe all slices")
        self._spawn(self._expire(), "old news of health")
        try:
            async with background_task(self._registry.run(), name=f"registry of {self._node}"):
                await self._tasks.failed()
        finally:
            await self._tasks.close()

    def restart(self) -> None:
        """Forget everything, as a kubelet does that starts after a reboot; what lay on a tmpfs is gone, too."""
        self._registry.forget()
        for path in self._folders.cdi.iterdir():
            if path.is_file():
                path.unlink(missing_ok=True)
        self._spawn(self._wiping.wipe(), "wipe all slices")

    def endpoint(self, driver: str) -> DraPlugin:
        """Return the instance to ask; raises `PrepareError`."""
        if not driver:
            raise DriverError("DRA driver name is empty")
        instances = self._instances.get(driver)
        if not instances:
            raise DriverError(f"DRA driver {driver} is not registered")
        connected = [each for each in instances if each.endpoint.connected]
        return (connected or instances)[-1].endpoint

    def __contains__(self, driver: str) -> bool:
        return driver in self._instances

    def validate(self, driver: str, endpoint: str, versions: list[str]) -> None:
        """Raise ValueError if the plugin speaks no version that we do."""
        try:
            responses.supported_version(versions)
        except ValueError as error:
            what = f"invalid supported gRPC versions of DRA driver plugin {driver} at endpoint {endpoint}"
            raise ValueError(f"{what}: {error}") from error

    def register(self, driver: str, endpoint: str, versions: list[str]) -> None:
        """Connect to an instance; raises ValueError if another one has that endpoint."""
        instances = self._instances.get(driver, [])
        if any(each.endpoint.path == endpoint for each in instances):
            raise ValueError(f"endpoint {endpoint} already registered for DRA driver plugin {driver}")
        made = DraPlugin(
            driver=driver,
            path=endpoint,
            version=responses.supported_version(versions),
            changed=lambda: self._sync(driver),
        )
        tasks = [self._spawn(made.keep(), f"connection to {made}")]
        version = health_info.health_service_version(versions, release=self._release)
        if version is not None:
            following = health_info.watch_device_health(made.channel, driver, version=version, cache=self.health)
            tasks.append(self._spawn(following, f"health of {made}"))
        self._instances[driver] = [*instances, _Instance(made, tuple(tasks))]
        _log.info("node %s: %s is registered (%s)", self._node, made, made.version)
        self._sync(driver)

    def deregister(self, driver: str, endpoint: str) -> None:
        """Do without an instance."""
        instances = self._instances.pop(driver, [])
        left = [each for each in instances if each.endpoint.path != endpoint]
        for each in instances:
            if each not in left:
                for task in each.tasks:
                    task.cancel()
        if left:
            self._instances[driver] = left
        _log.info("node %s: driver %s at %s is no longer registered", self._node, driver, endpoint)
        self._sync(driver)

    def _sync(self, driver: str) -> None:
        """Have the driver's slices removed later if it cannot be reached, and not if it can."""
        pending = self._pending.get(driver)
        if any(each.endpoint.connected for each in self._instances.get(driver, ())):
            if pending is not None:
                pending.cancel()
                del self._pending[driver]
        elif pending is None or pending.done():
            self._pending[driver] = self._spawn(self._wipe_later(driver), f"wipe slices of {driver}")

    async def _wipe_later(self, driver: str) -> None:
        await asyncio.sleep(self._wipe_after)
        _log.warning("node %s: driver %s cannot be reached; its ResourceSlices are removed", self._node, driver)
        await self._wiping.wipe(driver)

    async def _expire(self) -> None:
        while True:
            await asyncio.sleep(health_info.EXPIRE_SECONDS)
            self.health.expire()

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        return self._tasks.start(work, name=f"{name} on {self._node}")
