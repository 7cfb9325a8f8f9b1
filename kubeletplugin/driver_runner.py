"""Runs one driver: starts and stops its directory, claim preparer, two sockets and ResourceSlices in order.

Start: directory → checkpoint read, and recovery from a crash → DRA socket → registration socket → slices.

While the checkpoint cannot be read, at the start or later, the driver is still served: each claim is refused with the
reason, which the pod's Events show. The slices are withdrawn, so that no further pod is scheduled to a node that would
refuse it. The state that the driver itself stores stays enforced (`kubeletplugin.contract.EnforcementResumable`).

Stop, in reverse: registration socket (the kubelet stops calling) → streams end → calls end → DRA socket. The slices
stay: the kubelet removes them if no other instance registers in time.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

from grpc import aio

from dra.engine.messages.impairments import ClaimImpairment, Impairment
from dra.kube.backoff import Backoff
from dra.kube.client import Client
from dra.kube.clock import SYSTEM, Clock
from dra.model.meta import Struct
from kubeletplugin.cdi import CdiSpecDirectory
from kubeletplugin.change_broadcaster import ChangeBroadcaster
from kubeletplugin.checkpoint import CHECKPOINT_FILE, Checkpoint, CheckpointError
from kubeletplugin.claim_preparer import ClaimPreparer
from kubeletplugin.claims import ClaimReader
from kubeletplugin.contract import (
    ClaimImpairmentReportable,
    Closable,
    Degradable,
    Driver,
    EnforcementResumable,
    Pool,
    PreparedClaim,
    PrepareError,
)
from kubeletplugin.directory_lock import DirectoryLock
from kubeletplugin.dra_service import DraService
from kubeletplugin.health import HealthService
from kubeletplugin.metrics import PluginMetrics
from kubeletplugin.orphaned_claims import OrphanedClaimDetector
from kubeletplugin.registration import Registrar
from kubeletplugin.slices.publisher import ResourceSlicePublisher
from kubeletplugin.socket_listener import SocketListener, require_kubelet_directory
from kubeletplugin.sockets import (
    PLUGINS_OPTION,
    REGISTRY_OPTION,
    SocketPathError,
    driver_socket_paths,
    ensure_private_directory,
    remove_stale_socket,
    sibling_sockets,
)
from kubeletplugin.ticks import until_tick

ENFORCE_INTERVAL: Final = 5.0
"""Seconds between two reconciliations without a change; a driver that needs one sooner yields a change."""

CALLS_GRACE: Final = 15.0
"""Seconds for running calls to finish when the plugin stops; a pod's termination grace period is usually 30."""

REGISTRAR_GRACE: Final = 1.0

_log: Final = logging.getLogger(__name__)


class PluginDirectories(Struct, frozen=True):
    """The directories of a node that the plugin uses, and the pod uid of this instance."""

    plugins: Path
    registry: Path
    cdi: Path
    pod_uid: str = ""


class DriverRunner:
    """The runner of one driver with its services; `run` serves until cancelled."""

    def __init__(  # noqa: PLR0913 - keyword-only; what it is put together from
        self,
        driver: Driver,
        *,
        client: Client,
        node: str,
        directories: PluginDirectories,
        metrics: PluginMetrics,
        clock: Clock = SYSTEM,
        record_event: Callable[[str, str], None] = lambda *_: None,
        sync: bool = True,
    ) -> None:
        """Create the services of a driver; `record_event` is called with an impairment when it begins or changes.

        Raises ValueError and SocketPathError for invalid names and directories.

        Without `sync` a loss of power may lose the checkpoint: for nodes that live no longer than a process.
        """
        self.driver = driver
        self.names = driver_socket_paths(
            driver.name, plugins=directories.plugins, registry=directories.registry, pod_uid=directories.pod_uid
        )
        self._metrics = metrics
        self.changes = ChangeBroadcaster(driver)
        cdi = CdiSpecDirectory(directories.cdi, driver=driver.name)
        path = self.names.folder / CHECKPOINT_FILE
        self.preparer = ClaimPreparer(
            driver,
            claims=ClaimReader(client, driver=driver.name, pools=lambda: [pool.name for pool in driver.pools()]),
            checkpoint=Checkpoint(path, PreparedClaim, related_files=cdi.pattern, sync=sync),
            cdi=cdi,
            lock=DirectoryLock(self.names.folder),
            orphan_warning=lambda uid: self._orphans.warnings.get(uid, ""),
            clock=clock,
        )
        self._orphans = OrphanedClaimDetector(client, lambda: self.preparer.prepared_claims)
        self._service = DraService(self.preparer, driver=driver.name, observe=self._observe, clock=clock)
        self._health = HealthService(driver, changes=self.changes, well=lambda: not self._recovery_problem, clock=clock)
        self.registrar = Registrar(driver.name, endpoint=self.names.dra)
        self.publisher = ResourceSlicePublisher(
            client, driver, node=node, changes=self.changes, pools=self._published_pools, clock=clock
        )
        self._dra = SocketListener(self.names.dra, option=PLUGINS_OPTION, services=self._serve)
        self._registration = SocketListener(
            self.names.registration,
            option=REGISTRY_OPTION,
            services=self.registrar.add_to_server,
            folder=require_kubelet_directory,
        )
        self._recovery_problem = f"driver {driver.name}: not started yet"
        self._checkpoint_unreadable = False
        """Whether the recovery fails because of the checkpoint, which an administrator then has to repair."""
        self._checkpoint_known = asyncio.Event()
        """Set once the checkpoint has been read, or was found unreadable."""
        self._enforcement_problem = ""
        self._record_event = record_event
        self._reported: dict[Impairment, str] = {}
        self._reported_claims: frozenset[str] = frozenset()

    def not_ready_reasons(self) -> list[str]:
        """Return the reasons why the driver is not ready; empty if there are none. Also sets the gauges."""
        self._metrics.registered.labels(self.driver.name).set(self.registrar.registered)
        self._metrics.published.labels(self.driver.name).set(self.publisher.synced)
        self._metrics.orphans.labels(self.driver.name).set(len(self._orphans.warnings))
        held, offered = self.preparer.prepared_claims, self._published_pools()
        self._metrics.prepared.labels(self.driver.name).set(len(held))
        self._metrics.held.labels(self.driver.name).set(
            len({(item.pool, item.device) for preparation in held for item in preparation.items})
        )
        self._metrics.devices.labels(self.driver.name).set(sum(len(pool.devices) for pool in offered))
        impairments = self._impairments()
        for reason, text in impairments.items():
            self._metrics.impaired.labels(self.driver.name, reason.value).set(bool(text))
        return [
            text
            for text in (*impairments.values(), self.registrar.problem, *self.publisher.not_ready_reasons())
            if text
        ]

    def _impairments(self) -> dict[Impairment, str]:
        return {
            Impairment.NOT_RECOVERED: self._recovery_problem,
            Impairment.DRIVER_IMPAIRED: self.driver.degraded_reason if isinstance(self.driver, Degradable) else "",
            Impairment.NOT_ENFORCED: self._enforcement_problem,
        }

    def _report(self) -> None:
        """Log each impairment of the driver, with an Event, when the impairment begins or changes."""
        for reason, text in self._impairments().items():
            if text == self._reported.get(reason, ""):
                continue
            self._reported[reason] = text
            if not text:
                _log.info("driver %s: %s is resolved", self.driver.name, reason.value)
                continue
            about = f"driver {self.driver.name}: {text}"
            if self._checkpoint_unreadable and reason is Impairment.NOT_RECOVERED:
                about += ". Until then no claim is prepared, and the driver's ResourceSlices are withdrawn"
            _log.warning("%s", about)
            self._record_event(reason, about)
        impaired = frozenset(
            self.driver.claim_impairments() if isinstance(self.driver, ClaimImpairmentReportable) else ()
        )
        for text in sorted(impaired - self._reported_claims):
            _log.warning("%s", text)
            self._record_event(ClaimImpairment.CLAIM_IMPAIRED, text)
        self._reported_claims = impaired

    async def run(self) -> None:
        """Serve the driver until cancelled. Raises SocketPathError and OSError when the start fails."""
        ensure_private_directory(self.names.folder)
        await self._recover_once()
        try:
            await self._dra.open()
            await asyncio.to_thread(self._remove_sibling_sockets)
            await self._registration.open()
            async with asyncio.TaskGroup() as group:
                group.create_task(self._dra.keep(), name=f"socket {self.names.dra}")
                group.create_task(self._registration.keep(), name=f"socket {self.names.registration}")
                group.create_task(self.changes.run(), name=f"changes of {self.driver.name}")
                group.create_task(self._publish(), name=f"slices of {self.driver.name}")
                group.create_task(self._enforce(), name=f"enforcement of {self.driver.name}")
                group.create_task(self._orphans.run(), name=f"orphans of {self.driver.name}")
        finally:
            await asyncio.shield(self._stop())

    async def _stop(self) -> None:
        await self._registration.close(grace=REGISTRAR_GRACE)
        self._health.close()
        await self._dra.close(grace=CALLS_GRACE)
        await self.preparer.wait_idle()
        if isinstance(self.driver, Closable):
            await self.driver.close()
        _log.info("driver %s: stopped; claims stay prepared", self.driver.name)

    def _serve(self, server: aio.Server) -> None:
        self._service.add_to_server(server)
        self._health.add_to_server(server)

    def _observe(self, operation: str, seconds: float, refused: int) -> None:
        self._metrics.observe(self.driver.name, operation, seconds=seconds, refused=refused)

    async def _publish(self) -> None:
        """Publish the pools, once the checkpoint's state is known and the kubelet has registered the driver.

        ResourceSlices of an earlier run stay until then. A kubelet refuses pods of a driver that is not registered, and
        retries after 60 to 90 s: a node that published its devices earlier would lose that time with each pod that
        waits for its first devices.
        """
        await self._checkpoint_known.wait()
        await self.registrar.known.wait()
        await self.publisher.run()

    def _published_pools(self) -> tuple[Pool, ...]:
        """Return the pools to publish: none while the checkpoint is unreadable and every claim would be refused."""
        return () if self._checkpoint_unreadable else self.driver.pools()

    async def _recover(self) -> None:
        """Retry the recovery until it succeeds, with a backoff."""
        backoff = Backoff(base=1.0, cap=30.0)
        while self._recovery_problem:
            await asyncio.sleep(backoff.next())
            await self._recover_once()

    async def _recover_once(self) -> None:
        try:
            await self.preparer.recover()
        except CheckpointError as error:
            await self._set_recovery_problem(str(error), unreadable=True)
        except OSError as error:  # LockError included
            await self._set_recovery_problem(str(error), unreadable=self._checkpoint_unreadable)
        else:
            await self._set_recovery_problem("", unreadable=False)

    async def _set_recovery_problem(self, problem: str, *, unreadable: bool) -> None:
        """Record why no claim can be prepared (empty if claims can), and then let the driver resume its enforcement."""
        self._recovery_problem = problem
        if unreadable != self._checkpoint_unreadable:
            self._checkpoint_unreadable = unreadable
            self.changes.notify()
        if unreadable or not problem:
            self._checkpoint_known.set()
        if problem:
            self._enforcement_problem = await self._resume_enforcement()
        self._report()

    async def _resume_enforcement(self) -> str:
        """Let the driver enforce the state that it stores; return the reason of a failure."""
        try:
            if isinstance(self.driver, EnforcementResumable):
                await self.driver.resume_enforcement()
        except (PrepareError, OSError) as error:
            return str(error)
        return ""

    async def _enforce(self) -> None:
        """Reconcile at each change of the driver, and every few seconds."""
        with self.changes.subscribe() as changed:
            while True:
                await self._recover()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(changed.wait(), until_tick(ENFORCE_INTERVAL))
                changed.clear()
                await self._reconcile()

    async def _reconcile(self) -> None:
        try:
            await self.preparer.reconcile()
        except CheckpointError as error:
            await self._set_recovery_problem(str(error), unreadable=True)
        except OSError as error:  # LockError included
            await self._resume_enforcement()
            self._enforcement_problem = str(error)
        except PrepareError as error:
            self._enforcement_problem = str(error)
        else:
            self._enforcement_problem = ""
        self._report()

    def _remove_sibling_sockets(self) -> None:
        """Remove the sockets of dead instances, which the kubelet would keep calling."""
        for path in sibling_sockets(self.names, self.driver.name):
            with contextlib.suppress(SocketPathError, OSError):  # in use by the other instance of a rolling update
                if remove_stale_socket(path):
                    _log.info("socket %s: removed, since no process listens there", path)
