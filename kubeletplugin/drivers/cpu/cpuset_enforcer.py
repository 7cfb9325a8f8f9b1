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
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from kubeletplugin.cgroups.cgroup_names import CgroupLevel, CgroupPath, cgroup_level
from kubeletplugin.cgroups.cgroup_watcher import CgroupWatcher
from kubeletplugin.cgroups.cpu_hotplug import OfflineCpuTracker
from kubeletplugin.cgroups.hierarchy import CPUSET_CPUS, CgroupHierarchy, CgroupsNotFoundError
from kubeletplugin.contract import PrepareError
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

CONFLICT_PERIOD: Final = 60.0
CONFLICT_THRESHOLD: Final = 20
"""Number of writes to one container's cpuset within a period that indicates a conflict."""

_RETRY_INTERVAL: Final = 0.02


class CpusetEnforcer:
    """Enforces the cpusets of one demand at a time."""

    def __init__(
        self,
        store: CpusetStore,
        find_hierarchy: Callable[[], CgroupHierarchy],
        *,
        blocked_reason: Callable[[], str | None],
    ) -> None:
        """Create an enforcer that touches nothing yet.

        `find_hierarchy` returns the cgroups; `blocked_reason` returns the reason why they must not be written, or None.
        """
        self._store = store
        self._find_hierarchy = find_hierarchy
        self._blocked_reason = blocked_reason
        self._hierarchy: CgroupHierarchy | None = None
        self._find_anew = False
        """Whether to look for the cgroups again: a kubelet with another cgroup driver leaves those of before behind."""
        self._watch: CgroupWatcher | None = None
        self._polling_only = False
        self._woken = asyncio.Event()
        self._lock = asyncio.Lock()
        self._watch_task: asyncio.Task[None] | None = None
        self._interval = MIN_RESYNC_INTERVAL
        self._reconciled_at = float("-inf")
        self._written_at = float("-inf")
        self._is_reconciled = False
        self._reconciled_demand: CpusetDemand | None = None
        """The demand of the last reconciliation: another instance may have written the present one, and died."""
        self._conflicts = CpusetConflicts()
        self._offline_cpus = OfflineCpuTracker(store.lost_cpus())
        self._logged_error = ""
        self._unclear: tuple[str, ...] = ()
        self._yielded = False

    @property
    def unclear(self) -> tuple[str, ...]:
        """Texts about owner records that do not tell whose they are, as of the last reconciliation."""
        return self._unclear

    async def demand(self, demand: CpusetDemand) -> None:
        """Give each request its CPUs exclusively; return when all cgroups meet the demand. Raises PrepareError.

        To be called with the lock of the driver's directory, whenever the demand changes and every few seconds.
        """
        if why := self._blocked_reason():
            async with self._lock:
                await self._yield_cgroups()
                await asyncio.to_thread(self._store.put_demand, None)
            if demand.requests:
                raise PrepareError(f"node: CPUs are not enforced: {why}")
            return
        self._yielded = False
        async with self._lock:
            before = self._store.demand()
            if before is None and self._store.narrowed:
                log.warning(
                    "directory %s: was created again; restoring all CPUs to the cgroups of pods", self._store.folder
                )
            elif demand.idle and (before is None or (before.idle and self._is_quiet())):
                await asyncio.to_thread(self._store.put_demand, None)
                await self._stop()
                return
            changed = before != demand
            self._find_anew |= changed
            await asyncio.to_thread(self._store_demand, demand, changed=changed)
            if changed or self._is_due(demand):
                await self._reconcile_until_done()
        self._ensure_watch_task()

    async def resume_enforcement(self) -> None:
        """Enforce the demand in the driver's directory, unchanged, while the prepared claims are unknown.

        Without a demand no cgroup is touched. Needs no lock: only writers of the demand need it. Raises PrepareError.
        """
        async with self._lock:
            if self._blocked_reason():
                await self._yield_cgroups()
                return
            self._yielded = False
            demand = await asyncio.to_thread(self._store.demand)
            if demand is None:
                return
            if self._is_due(demand):
                await self._reconcile_until_done()
        self._ensure_watch_task()

    async def close(self) -> None:
        """Stop reconciling; written cpusets stay, so that containers keep their CPUs while the plugin restarts."""
        async with self._lock:
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
            if await asyncio.to_thread(self._store.demand) is not None or self._store.narrowed:
                await asyncio.to_thread(lambda: widen_pod_cgroups(self._find_hierarchy()))
        except (OSError, CgroupsNotFoundError) as error:
            raise PrepareError(f"node: cgroups of pods stay restricted, new pods may fail: {error}") from error
        self._yielded = True

    def _store_demand(self, demand: CpusetDemand, *, changed: bool) -> None:
        try:
            if changed:
                self._store.put_demand(demand)
            gone = self._store.restore(demand)
        except OSError as error:
            raise PrepareError(f"node: CPUs are not enforced: directory {self._store.folder}: {error}") from error
        if gone:
            names = ", ".join(str(path.relative_to(self._store.folder)) for path in gone)
            log.error("directory %s: %s had been removed; written again from memory", self._store.folder, names)

    def _ensure_watch_task(self) -> None:
        """Start the task that follows the kernel's events, or restart the task after a failure."""
        if self._watch_task is not None and self._watch_task.done():
            log.error("following cgroup events failed; restarting", exc_info=self._watch_task.exception())
            self._watch_task = None
        if self._watch_task is None:
            self._watch_task = asyncio.create_task(self._follow_events(), name="cpusets")

    async def _stop(self) -> None:
        if self._watch_task is not None:
            self._watch_task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watch_task
            self._watch_task = None
        self._unwatch()
        self._is_reconciled = False
        self._unclear = ()

    def _is_due(self, demand: CpusetDemand) -> bool:
        met = self._is_reconciled and self._reconciled_demand == demand
        return not met or time.monotonic() - self._reconciled_at > self._interval

    def _is_quiet(self) -> bool:
        return self._is_reconciled and time.monotonic() - self._written_at > QUIET_PERIOD

    async def _reconcile_until_done(self) -> None:
        deadline = time.monotonic() + ENFORCE_TIMEOUT
        while True:
            try:
                result = await self._reconcile_once()
            except (OSError, CgroupsNotFoundError, NoSharedCpuError) as error:
                raise PrepareError(f"node: CPUs are not enforced: {error}") from error
            if not result.again:
                return
            if result.refused and time.monotonic() > deadline:
                raise PrepareError(f"node: CPUs are not enforced: {'; '.join(result.refused[:3])}")
            await asyncio.sleep(_RETRY_INTERVAL if result.refused else 0)

    async def _follow_events(self) -> None:
        """Reconcile after each event of the kernel, and periodically."""
        again = False
        while True:
            if not again:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(max(0.0, self._reconciled_at + self._interval - time.monotonic())):
                        await self._woken.wait()
            async with self._lock:
                result = await self._reconcile_and_log(again=again)
            again = result.again
            rest = (
                0.0 if result.late else result.cost / BUSY_CPU_SHARE
            )  # a container with a new owner may be about to run
            await asyncio.sleep(_RETRY_INTERVAL if result.refused else rest)

    async def _reconcile_and_log(self, *, again: bool) -> ReconcileResult:
        if why := self._blocked_reason():
            self._log_once(f"node: CPUs are not enforced: {why}")
            return ReconcileResult()
        due = time.monotonic() - self._reconciled_at >= self._interval
        try:
            events = self._drain_events()
            result = await self._reconcile_once() if again or due or events else ReconcileResult()
            for path in self._conflicts.count(result.written, now=self._reconciled_at):
                log.warning(
                    "cgroup %s: another process writes its CPUs, too; two writers undo each other's writes",
                    "/".join(path),
                )
        except (OSError, CgroupsNotFoundError, NoSharedCpuError) as error:
            self._reconciled_at = time.monotonic()
            self._log_once(f"node: CPUs are not enforced: {error}")
            return ReconcileResult()
        for failure in await asyncio.to_thread(self._store.failures) if due else ():
            log.warning("%s", failure)
        self._log_once("")
        return result

    async def _reconcile_once(self) -> ReconcileResult:
        self._is_reconciled = False  # until the end of this reconciliation: an unmet demand must not count as met
        if self._hierarchy is None or self._find_anew or not self._hierarchy.pods.exists():
            hierarchy = await asyncio.to_thread(self._find_hierarchy)
            if hierarchy != self._hierarchy:
                self._unwatch()
            self._hierarchy, self._find_anew = hierarchy, False
        if self._watch is None:
            self._open_watcher()
        self._drain_events()
        result = await asyncio.to_thread(
            reconcile, self._hierarchy, self._store, entered=self._watch_directory, offline_cpus=self._offline_cpus
        )
        self._reconciled_at = time.monotonic()
        self._is_reconciled = not result.again
        self._reconciled_demand = result.demand
        self._unclear = result.unclear
        self._interval = (
            MIN_RESYNC_INTERVAL if self._polling_only else max(MIN_RESYNC_INTERVAL, result.cost / IDLE_CPU_SHARE)
        )
        if result.written:
            self._written_at = self._reconciled_at
        return result

    def _open_watcher(self) -> None:
        try:
            self._watch = CgroupWatcher(CPUSET_CPUS)
        except OSError as error:
            self._fall_back_to_polling(error)
            return
        asyncio.get_running_loop().add_reader(self._watch.fileno(), self._wake)

    def _watch_directory(self, folder: str) -> None:
        """Watch a directory that is about to be read; a failure does not prevent the reading."""
        if self._watch is not None:
            try:
                self._watch.add(folder)
            except OSError as error:
                self._fall_back_to_polling(error)

    def _fall_back_to_polling(self, error: OSError) -> None:
        if not self._polling_only:
            log.error(
                "node: new containers lose the CPUs of claims within %s s, not at once: %s", MIN_RESYNC_INTERVAL, error
            )
        self._polling_only = True

    def _wake(self) -> None:
        if self._watch is not None:
            asyncio.get_running_loop().remove_reader(self._watch.fileno())  # until the events are read
        self._woken.set()

    def _drain_events(self) -> bool:
        """Read the kernel's events; return whether a reconciliation is necessary."""
        self._woken.clear()
        if self._watch is None:
            return False
        events = self._watch.changed()
        asyncio.get_running_loop().add_reader(self._watch.fileno(), self._wake)
        return events

    def _unwatch(self) -> None:
        if self._watch is not None:
            asyncio.get_running_loop().remove_reader(self._watch.fileno())
            self._watch.close()
            self._watch = None

    def _log_once(self, text: str) -> None:
        """Log a state when the state begins, not each time it is seen."""
        if text and text != self._logged_error:
            log.error("%s", text)
        self._logged_error = text


class CpusetConflicts:
    """Counts writes of cpusets by container, to detect another writer.

    Two writers of one cpuset (the kubelet's static CPU manager, koordlet, an administrator's script) undo each other's
    writes forever, and meanwhile containers run on each other's CPUs. The driver can only report the conflict.

    Only writes to containers' cgroups count, and only those made while the demand is unchanged: without a conflict,
    such a write happens once in a container's life.
    """

    def __init__(self) -> None:
        self._since = float("-inf")
        self._counts: Counter[CgroupPath] = Counter()

    def count(self, written: Iterable[CgroupPath], *, now: float) -> list[CgroupPath]:
        """Count writes; return the cgroups that have just reached the threshold."""
        if now - self._since > CONFLICT_PERIOD:
            self._since = now
            self._counts.clear()
        conflicting = []
        for cgroup in (path for path in written if cgroup_level(path) is CgroupLevel.CONTAINER):
            self._counts[cgroup] += 1
            if self._counts[cgroup] == CONFLICT_THRESHOLD:
                conflicting.append(cgroup)
        return conflicting
