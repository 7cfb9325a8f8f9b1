"""One driver, served: its folder, its claims, its two sockets, its slices; started and stopped in order.

Start: folder → checkpoint read and what a crash left repaired → DRA socket → registration socket → slices. Who cannot
read the checkpoint serves all the same, and refuses each claim with the reason: that text gets to whoever looks at the
pod, and a plugin that is not there has no text. Slices are published only after that is settled.

Stop, in reverse: registration socket (nobody calls any more) → streams end → calls end → DRA socket. Slices stay: the
kubelet removes them if no other instance registers in time.
"""

import asyncio
import contextlib
import logging
from pathlib import Path
from typing import Final

from grpc import aio

from dra.kube.backoff import Backoff
from dra.kube.client import Client
from dra.kube.clock import SYSTEM, Clock
from dra.model.meta import Struct
from kubeletplugin.cdi import CdiFolder
from kubeletplugin.changes import Changes
from kubeletplugin.checkpoint import FILE, Checkpoint, CheckpointError
from kubeletplugin.claims import ClaimReader
from kubeletplugin.contract import Ailing, Closable, Driver, Preparation, Refused
from kubeletplugin.health import HealthService
from kubeletplugin.listening import Listener, foreign_folder
from kubeletplugin.metrics import Metrics
from kubeletplugin.naming import PLUGINS_OPTION, REGISTRY_OPTION, siblings, socket_names
from kubeletplugin.orphans import Orphans
from kubeletplugin.preparing import Preparing
from kubeletplugin.registration import Registrar
from kubeletplugin.server import DraService
from kubeletplugin.slices.publisher import Publisher
from kubeletplugin.sockets import FolderLock, SocketPathError, private_folder, remove_stale
from kubeletplugin.steps import Trace, untraced

ENFORCE_SECONDS: Final = 5.0
"""Between two looks at the machine when nothing happens; a driver that has to look sooner yields a change."""

CALLS_GRACE: Final = 15.0
"""Seconds for calls that are under way when we are told to stop; pods get 30 as a rule."""

REGISTRAR_GRACE: Final = 1.0

_log: Final = logging.getLogger(__name__)


class Folders(Struct, frozen=True):
    """Where a node has what; and who we are among the instances there."""

    plugins: Path
    registry: Path
    cdi: Path
    pod_uid: str = ""


class ServedDriver:
    """Everything of one driver; `run` until cancelled."""

    def __init__(  # noqa: PLR0913 - keyword-only; what it is put together from
        self,
        driver: Driver,
        *,
        client: Client,
        node: str,
        folders: Folders,
        metrics: Metrics,
        clock: Clock = SYSTEM,
        trace: Trace = untraced,
        sync: bool = True,
    ) -> None:
        """Raises ValueError and SocketPathError for names and folders that cannot be.

        Without `sync` a loss of power may lose the checkpoint: for nodes that last as long as a process.
        """
        self.driver = driver
        self.names = socket_names(
            driver.name, plugins=folders.plugins, registry=folders.registry, pod_uid=folders.pod_uid
        )
        self._metrics = metrics
        self._changes = Changes(driver)
        cdi = CdiFolder(folders.cdi, driver=driver.name, trace=trace)
        path = self.names.folder / FILE
        self.preparing = Preparing(
            driver,
            claims=ClaimReader(client, driver=driver.name, pools=lambda: [pool.name for pool in driver.pools()]),
            checkpoint=Checkpoint(path, Preparation, beside=cdi.pattern, sync=sync, trace=trace),
            cdi=cdi,
            lock=FolderLock(self.names.folder),
            trace=trace,
            forgotten=lambda uid: self._orphans.told.get(uid, ""),
        )
        self._orphans = Orphans(client, lambda: self.preparing.held)
        self._service = DraService(self.preparing, driver=driver.name, observe=self._observe, clock=clock)
        self._health = HealthService(driver, changes=self._changes, well=lambda: not self._unsettled, clock=clock)
        self.registrar = Registrar(driver.name, endpoint=self.names.dra)
        self.publisher = Publisher(client, driver, node=node, changes=self._changes, clock=clock)
        self._dra = Listener(self.names.dra, option=PLUGINS_OPTION, services=self._serve)
        self._registration = Listener(
            self.names.registration,
            option=REGISTRY_OPTION,
            services=self.registrar.add_to_server,
            folder=foreign_folder,
        )
        self._unsettled = f"driver {driver.name}: not started yet"

    def troubles(self) -> list[str]:
        """Return what keeps the driver from being of use; empty: nothing. Also sets the gauges."""
        self._metrics.registered.labels(self.driver.name).set(self.registrar.registered)
        self._metrics.published.labels(self.driver.name).set(self.publisher.synced)
        self._metrics.orphans.labels(self.driver.name).set(len(self._orphans.told))
        ailment = self.driver.trouble if isinstance(self.driver, Ailing) else ""
        return [text for text in (self._unsettled, ailment, self.registrar.problem, *self.publisher.troubles()) if text]

    async def run(self) -> None:
        """Serve until cancelled. Raises SocketPathError and OSError when it cannot begin."""
        private_folder(self.names.folder)
        await self._settle_once()
        try:
            await self._dra.open()
            await asyncio.to_thread(self._sweep)
            await self._registration.open()
            async with asyncio.TaskGroup() as group:
                group.create_task(self._dra.keep(), name=f"socket {self.names.dra}")
                group.create_task(self._registration.keep(), name=f"socket {self.names.registration}")
                group.create_task(self._changes.run(), name=f"changes of {self.driver.name}")
                await self._settle()
                group.create_task(self.publisher.run(), name=f"slices of {self.driver.name}")
                group.create_task(self._enforce(), name=f"enforcement of {self.driver.name}")
                group.create_task(self._orphans.run(), name=f"orphans of {self.driver.name}")
        finally:
            await asyncio.shield(self._stop())

    async def _stop(self) -> None:
        await self._registration.close(grace=REGISTRAR_GRACE)
        self._health.close()
        await self._dra.close(grace=CALLS_GRACE)
        await self.preparing.settled()
        if isinstance(self.driver, Closable):
            await self.driver.close()
        _log.info("driver %s: stopped; what is prepared stays so", self.driver.name)

    def _serve(self, server: aio.Server) -> None:
        self._service.add_to_server(server)
        self._health.add_to_server(server)

    def _observe(self, operation: str, seconds: float, refused: int) -> None:
        self._metrics.observe(self.driver.name, operation, seconds=seconds, refused=refused)

    async def _settle(self) -> None:
        """Try until what was before us is known and repaired."""
        backoff = Backoff(base=1.0, cap=30.0)
        while self._unsettled:
            await asyncio.sleep(backoff.next())
            await self._settle_once()

    async def _settle_once(self) -> None:
        try:
            await self.preparing.recover()
        except CheckpointError as error:
            problem = str(error)
        except OSError as error:  # BusyError among them
            problem = f"driver {self.driver.name}: {error}"
        else:
            problem = ""
        if problem and problem != self._unsettled:
            _log.error("%s. Nothing is prepared until then, and no slices are published", problem)
        self._unsettled = problem

    async def _enforce(self) -> None:
        """Have the driver look at the machine: at each change it tells of, and every few seconds."""
        told = ""
        with self._changes.bell() as bell:
            while True:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(bell.wait(), ENFORCE_SECONDS)
                bell.clear()
                problem = await self._enforced()
                if problem and problem != told:
                    _log.warning("driver %s: %s", self.driver.name, problem)
                told = problem

    async def _enforced(self) -> str:
        try:
            await self.preparing.enforce()
        except (Refused, CheckpointError, OSError) as error:  # BusyError among them
            return str(error)
        return ""

    def _sweep(self) -> None:
        """Remove sockets of instances that died: the kubelet would go on asking them."""
        for path in siblings(self.names, self.driver.name):
            with contextlib.suppress(SocketPathError, OSError):  # somebody listens: the other one of a rolling update
                if remove_stale(path):
                    _log.info("socket %s: removed, nobody listened there any more", path)
