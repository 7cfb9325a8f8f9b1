"""Enforces cpusets: keeps the CPUs of claims and the shared pool apart while containers start and end.

*When a claim is prepared or unprepared*, all cgroups are reconciled with the new demand before the kubelet gets its
answer: other containers lose the CPUs before the claim's container exists. *In between*, the kernel reports each new
cgroup and each write to a cpuset (`kubeletplugin.cgroups.cgroup_watcher`); a periodic reconciliation covers what the
kernel does not report. Its interval depends on its measured cost, so that an idle plugin is cheap on any node.

As long as no claim has been prepared, and the Node reserves no CPUs, no cgroup is read, watched or written: another
component may manage cpusets. A mark outside of the driver's directory shows that cgroups may be narrow although the
directory was created again. After the last claim is unprepared, cgroups are reconciled until no write has been
necessary for a while, since a container may have been created with a narrow cpuset at the wrong moment; then the demand
is removed.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from typing import Final

from kubeletplugin.cgroups.cgroup_watcher import CgroupWatcher
from kubeletplugin.cgroups.cpu_hotplug import OfflineCpuTracker
from kubeletplugin.cgroups.hierarchy import CPUSET_CPUS, CgroupHierarchy, CgroupsNotFoundError
from kubeletplugin.contract import Refused
from kubeletplugin.drivers.cpu.cpuset_conflicts import CpusetConflicts
from kubeletplugin.drivers.cpu.cpuset_reconciler import NoSharedCpuError, ReconcileResult, reconcile, widen_pod_cgroups
from kubeletplugin.drivers.cpu.cpuset_store import CpusetDemand, CpusetStore

log = logging.getLogger(__name__)

ENFORCE_TIMEOUT: Final = 1.0
"""Seconds within which the kernel must accept a new demand; concurrent writers are usually done in milliseconds."""

MIN_RESYNC_INTERVAL: Final = 0.5
"""Minimum number of seconds between two reconciliations without an event of the kernel."""

IDLE_CPU_SHARE: Final = 0.001
"""Share of a CPU that reconciliations without an event may cost; `MIN_RESYNC_INTERVAL` limits their frequency, too."""

BUSY_CPU_SHARE: Final = 0.2
"""Share of a CPU that reconciliations may cost while containers start and end."""

QUIET_PERIOD: Final = 5.0
"""Seconds without a write after which cgroups are back in the state without claims."""

_RETRY_INTERVAL: Final = 0.02


class CpusetEnforcer:
    """Enforces the cpusets of one demand at a time."""

    def __init__(
        self, records: CpusetStore, find: Callable[[], CgroupHierarchy], *, aside: Callable[[], str | None]
    ) -> None:
        """Create an enforcer that touches nothing yet.

        `find` returns the cgroups; `aside` returns the reason why they must not be written, None if they may.
        """
        self._records = records
        self._find = find
        self._aside = aside
        self._hierarchy: CgroupHierarchy | None = None
        self._watch: CgroupWatcher | None = None
        self._polling_only = False
        self._told = asyncio.Event()
        self._turn = asyncio.Lock()
        self._keeper: asyncio.Task[None] | None = None
        self._interval = MIN_RESYNC_INTERVAL
        self._looked = float("-inf")
        self._wrote = float("-inf")
        self._clean = False
        self._quarrels = CpusetConflicts()
        self._regaining = OfflineCpuTracker()
        self._said = ""
        self._yielded = False

    async def demand(self, demand: CpusetDemand) -> None:
        """Give each request its CPUs exclusively; return when all cgroups meet the demand. Raises Refused.

        To be called with the lock of the driver's directory, whenever the demand changes and every few seconds.
        """
        if why := self._aside():
            async with self._turn:
                await self._yield_cgroups()
                await asyncio.to_thread(self._records.put_demand, None)
            if demand.requests:
                raise Refused(f"node: CPUs are not enforced: {why}")
            return
        self._yielded = False
        async with self._turn:
            before = self._records.demand()
            if before is None and self._records.narrowed:
                log.warning("folder %s: was made anew; cgroups of pods are made wide again", self._records.folder)
            elif demand.idle and (before is None or (before.idle and self._is_quiet())):
                await asyncio.to_thread(self._records.put_demand, None)
                await self._stop()
                return
            changed = before != demand
            await asyncio.to_thread(self._store_demand, demand, changed=changed)
            if changed or not self._clean or time.monotonic() - self._looked > self._interval:
                await self._reconcile_until_done()
        self._ensure_watch_task()

    async def resume_enforcement(self) -> None:
        """Enforce the demand in the driver's directory, unchanged, while the prepared claims are unknown.

        Without a demand no cgroup is touched. Needs no lock: only writers of the demand need it. Raises Refused.
        """
        async with self._turn:
            if self._aside():
                await self._yield_cgroups()
                return
            self._yielded = False
            if await asyncio.to_thread(self._records.demand) is None:
                return
            if not self._clean or time.monotonic() - self._looked > self._interval:
                await self._reconcile_until_done()
        self._ensure_watch_task()

    async def close(self) -> None:
        """Stop reconciling; written cpusets stay, so that containers keep their CPUs while the plugin restarts."""
        async with self._turn:
            await self._stop()

    async def _yield_cgroups(self) -> None:
        """Widen the cgroups of QoS classes and pods to all CPUs, once, if there was a demand.

        From then on the kubelet writes the cpusets of containers. Within narrow classes it could give a container no
        other CPUs: each new pod would fail.
        """
        await self._stop()
        if self._yielded:
            return
        try:
            if await asyncio.to_thread(self._records.demand) is not None or self._records.narrowed:
                await asyncio.to_thread(lambda: widen_pod_cgroups(self._find()))
        except (OSError, CgroupsNotFoundError) as error:
            raise Refused(f"node: cgroups of pods stay narrow, new pods may fail: {error}") from error
        self._yielded = True

    def _store_demand(self, demand: CpusetDemand, *, changed: bool) -> None:
        try:
            if changed:
                self._records.put_demand(demand)
            gone = self._records.restore(demand)
        except OSError as error:
            raise Refused(f"node: CPUs are not enforced: folder {self._records.folder}: {error}") from error
        if gone:
            names = ", ".join(str(each.relative_to(self._records.folder)) for each in gone)
            log.error("folder %s: %s had been removed, written again from memory", self._records.folder, names)

    def _ensure_watch_task(self) -> None:
        """Start the task that follows the kernel's events, or restart the task after a failure."""
        if self._keeper is not None and self._keeper.done():
            log.error("cgroups were not looked after, beginning again", exc_info=self._keeper.exception())
            self._keeper = None
        if self._keeper is None:
            self._keeper = asyncio.create_task(self._keep(), name="cpusets")

    async def _stop(self) -> None:
        if self._keeper is not None:
            self._keeper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._keeper
            self._keeper = None
        self._unwatch()
        self._clean = False

    def _is_quiet(self) -> bool:
        return self._clean and time.monotonic() - self._wrote > QUIET_PERIOD

    async def _reconcile_until_done(self) -> None:
        deadline = time.monotonic() + ENFORCE_TIMEOUT
        while True:
            try:
                settled = await self._look()
            except (OSError, CgroupsNotFoundError, NoSharedCpuError) as error:
                raise Refused(f"node: CPUs are not enforced: {error}") from error
            if not settled.again:
                return
            if settled.refused and time.monotonic() > deadline:
                raise Refused(f"node: CPUs are not enforced: {'; '.join(settled.refused[:3])}")
            await asyncio.sleep(_RETRY_INTERVAL if settled.refused else 0)

    async def _keep(self) -> None:
        """Reconcile after each event of the kernel, and periodically."""
        again = False
        while True:
            if not again:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(max(0.0, self._looked + self._interval - time.monotonic())):
                        await self._told.wait()
            async with self._turn:
                settled = await self._reconcile_and_log(again=again)
            again = settled.again
            rest = (
                0.0 if settled.late else settled.cost / BUSY_CPU_SHARE
            )  # a container with a new owner may be about to run
            await asyncio.sleep(_RETRY_INTERVAL if settled.refused else rest)

    async def _reconcile_and_log(self, *, again: bool) -> ReconcileResult:
        if why := self._aside():
            self._say(f"node: CPUs are not enforced: {why}")
            return ReconcileResult()
        due = time.monotonic() - self._looked >= self._interval
        try:
            concerned = self._drain_events()
            settled = await self._look() if again or due or concerned else ReconcileResult()
            for path in self._quarrels.heed(settled.written, now=self._looked):
                log.warning(
                    "cgroup %s: its CPUs are written by somebody else, too: two writers of one cpuset undo each other",
                    "/".join(path),
                )
        except (OSError, CgroupsNotFoundError, NoSharedCpuError) as error:
            self._looked = time.monotonic()
            self._say(f"node: CPUs are not enforced: {error}")
            return ReconcileResult()
        for each in await asyncio.to_thread(self._records.failures) if due else ():
            log.warning("%s", each)
        self._say("")
        return settled

    async def _look(self) -> ReconcileResult:
        self._clean = False  # until the end of this reconciliation: an unmet demand must not count as met
        if self._hierarchy is None or not self._hierarchy.pods.exists():
            self._unwatch()
            self._hierarchy = await asyncio.to_thread(self._find)
        if self._watch is None:
            self._listen()
        self._drain_events()
        settled = await asyncio.to_thread(
            reconcile, self._hierarchy, self._records, entered=self._enter, regaining=self._regaining
        )
        self._looked = time.monotonic()
        self._clean = not settled.again
        self._interval = (
            MIN_RESYNC_INTERVAL if self._polling_only else max(MIN_RESYNC_INTERVAL, settled.cost / IDLE_CPU_SHARE)
        )
        if settled.written:
            self._wrote = self._looked
        return settled

    def _listen(self) -> None:
        try:
            self._watch = CgroupWatcher(CPUSET_CPUS)
        except OSError as error:
            self._fall_back_to_polling(error)
            return
        asyncio.get_running_loop().add_reader(self._watch.fileno(), self._tell)

    def _enter(self, folder: str) -> None:
        """Watch a directory that is about to be read; a failure does not prevent the reading."""
        if self._watch is not None:
            try:
                self._watch.add(folder)
            except OSError as error:
                self._fall_back_to_polling(error)

    def _fall_back_to_polling(self, error: OSError) -> None:
        if not self._polling_only:
            log.error("node: new containers are narrowed within %s s, not at once: %s", MIN_RESYNC_INTERVAL, error)
        self._polling_only = True

    def _tell(self) -> None:
        if self._watch is not None:
            asyncio.get_running_loop().remove_reader(self._watch.fileno())  # until the events are read
        self._told.set()

    def _drain_events(self) -> bool:
        """Read the kernel's events; return whether a reconciliation is necessary."""
        self._told.clear()
        if self._watch is None:
            return False
        concerned = self._watch.changed()
        asyncio.get_running_loop().add_reader(self._watch.fileno(), self._tell)
        return concerned

    def _unwatch(self) -> None:
        if self._watch is not None:
            asyncio.get_running_loop().remove_reader(self._watch.fileno())
            self._watch.close()
            self._watch = None

    def _say(self, text: str) -> None:
        """Log a state when the state begins, not each time it is seen."""
        if text and text != self._said:
            log.error("%s", text)
        self._said = text
