"""The base of every loop: it takes dirty keys from a cache through a queue to a decision, again and again.

A standby only keeps its cache up to date and drops the dirty keys; a replica that begins to act reconciles all keys.
One key must not stop all others, whatever is wrong with it: after an error it is reconciled again, later and later.
Only ServerRestoredError ends the loop, since the caches are void.

Trap: what a failing attempt itself has marked dirty waits for that retry, or the loop would spin.
"""

import asyncio
import itertools
import logging
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Generic, NoReturn, Protocol, TypeVar

from prometheus_client import Counter

from controller.runtime import ProcessMetrics, Runtime
from dra.engine.dirty_keys import Cache
from dra.engine.instants import NEVER, Instant, Moment
from dra.kube.errors import ApiError, Conflict, ServerError, TooManyRequests, Unreachable
from dra.kube.shared_informers import SharedInformer, SharedInformers
from dra.kube.store import ServerRestoredError
from dra.kube.workqueue import BATCH_DELAY, ItemBackoff, WorkQueue
from dra.telemetry.logs import reconcile_id

K = TypeVar("K", bound=Hashable)

AGAIN: Final[Instant] = -NEVER
"""Returned by `Reconciler.reconcile` where its writes make the next decision possible, which follows at once."""

OUTAGES: Final = (ServerError, TooManyRequests, Unreachable)
"""Errors of a server that does not work now, which an operator wants to see in the log."""

_reconcile_numbers: Final = itertools.count(1)


class ReconcilerMetrics(ProcessMetrics, Protocol):
    """The metrics of a process with loops."""

    failures: Counter
    """Decisions that failed because of an error in this process."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The numbers of a loop."""

    name: str
    """What is reconciled; log messages about a key begin with this."""

    workers: int
    """Number of keys reconciled at the same time."""

    retry: tuple[float, float]
    """Seconds, minimum and maximum, before a key is reconciled again after an error."""

    retry_after: Mapping[type[Exception], tuple[float, float]] = field(default_factory=dict)
    """Seconds, minimum and maximum, after errors whose cause is known. Below the maximum such an error passes, and is
    logged for developers only, unless it is one of `OUTAGES`."""

    batch_delay: float = BATCH_DELAY
    rounds: int = 4
    """Maximum number of decisions in a row on one key."""

    pause: float = 0.0
    """Seconds after ``rounds`` decisions in a row, if these show an error of this process; 0: other keys come first,
    and a key that no write has marked waits for the maximum of ``retry``."""

    short_log_ids: bool = False
    """Whether the ids in log lines omit ``name``: for the loop that most lines are of."""

    conflicts: int = 0
    """Maximum number of conflicts in a row after which a key is reconciled at once."""


class Reconciler(ABC, Generic[K]):
    """The base of a loop. A subclass reads the view of a key from its cache, decides, and carries out the plan."""

    settings: ClassVar[Settings]
    cache: Cache[K]
    _runtime: Runtime[ReconcilerMetrics]

    def __init__(
        self,
        runtime: Runtime[ReconcilerMetrics],
        informers: SharedInformers,
        cache: Cache[K],
        *,
        needs: Sequence[SharedInformer[Any] | SharedInformers] = (),
    ) -> None:
        """Create the loop; ``needs`` must be listed before the first decision, and nothing else."""
        self._runtime = runtime
        self.cache = cache
        self._needs = needs
        self._acting = False
        self._queue: WorkQueue[K] = WorkQueue(runtime.clock, batch_delay=self.settings.batch_delay)
        self._backoff: ItemBackoff[K] = ItemBackoff()
        self._log = logging.getLogger(type(self).__module__)
        informers.on_batch_end(self.enqueue_dirty)

    @abstractmethod
    async def reconcile(self, key: K, now: Moment) -> Instant:
        """Bring one key to the state that the engine decides; return when the key is due again, or `AGAIN`.

        Raises ApiError, and what is in `Settings.retry_after`.
        """

    async def begin(self) -> None:
        """Prepare to act: called once everything that decisions need is listed."""

    async def refresh(self, key: K) -> None:
        """Read the object live into the cache after a conflict; by default, the watch is waited for."""

    def reconciled(self, key: K) -> None:
        """React to the end of a reconciliation, whatever its outcome."""

    def subject(self, key: K) -> str:
        """Return the key as log messages name it."""
        return f"{self.settings.name} {'/'.join(key) if isinstance(key, tuple) else key}"

    async def run(self) -> NoReturn:
        """Reconcile until cancelled, once everything that decisions need is listed; raises ServerRestoredError."""
        for informer in self._needs:
            await informer.wait_for_sync()
        await self.begin()
        self._acting = True
        self.cache.mark_all_dirty()
        self.enqueue_dirty()
        try:
            await self._queue.run(self._reconcile_or_back_off, workers=self.settings.workers)
        finally:
            self._acting = False

    def enqueue_dirty(self) -> None:
        """Enqueue what has changed, if this replica acts; called after each batch of events."""
        cache = self.cache
        if not self._acting:
            cache.discard_dirty()
            return
        cache.settle(now=self._runtime.instant())
        for key, due in cache.dirty.take().items():
            if due == -NEVER:
                self._queue.add(key)
            else:
                self._queue.add_at(key, due)

    async def _reconcile_or_back_off(self, key: K) -> Instant:
        """Reconcile one key, and enqueue what has changed meanwhile; return when the key is due again."""
        subject = self.subject(key)
        log_id = subject.removeprefix(f"{self.settings.name} ") if self.settings.short_log_ids else subject
        reconcile_id.set(f"{log_id}#{next(_reconcile_numbers)}")
        try:
            again = await self._reconcile(key)
            self._backoff.forget(key)
        except ServerRestoredError:
            raise
        except Exception as error:  # noqa: BLE001 - one key must not stop all others
            again = self._runtime.instant() + self._failed(key, error)
            self.cache.dirty.discard(key)
        finally:
            self.reconciled(key)
            self.enqueue_dirty()
        return again

    async def _reconcile(self, key: K) -> Instant:
        rounds = conflicts = 0
        while rounds < self.settings.rounds:
            try:
                again = await self.reconcile(key, self._runtime.moment())
            except Conflict:
                conflicts += 1
                await self.refresh(key)
                if conflicts > self.settings.conflicts:
                    raise
                continue
            if again != AGAIN:
                return again
            rounds += 1
        if self.settings.pause:
            self._log.warning("%s: %d decisions in a row, a pause follows", self.subject(key), rounds)
            return self._runtime.instant() + self.settings.pause
        # What the writes have changed is marked, and comes after the others. If nothing is, they have no effect.
        return self._runtime.instant() + self.settings.retry[1]

    def _failed(self, key: K, error: Exception) -> float:
        """Log an error, and return the seconds until the key is reconciled again."""
        known = next((kind for kind in type(error).__mro__ if kind in self.settings.retry_after), None)
        bounds = self.settings.retry if known is None else self.settings.retry_after[known]
        if bounds[0] == bounds[1]:  # no reason to be slower after the next error of another kind
            self._backoff.forget(key)
        delay = self._backoff.next_delay(key, bounds)
        if known is None and not isinstance(error, ApiError):
            self._log.error("%s: internal error, retrying in %.2f s", self.subject(key), delay, exc_info=error)
            self._runtime.metrics.failures.inc()
            return delay
        # After a conflict the watch delivers the version that the next attempt decides on.
        passes = isinstance(error, Conflict) if known is None else delay < bounds[1] and not isinstance(error, OUTAGES)
        level = logging.DEBUG if passes else logging.WARNING
        self._log.log(level, "%s: not reconciled, retrying in %.2f s: %s", self.subject(key), delay, error)
        return delay


async def run_all(reconcilers: Sequence[Reconciler[Any]]) -> None:
    """Run loops until cancelled, or until one of them ends."""
    async with asyncio.TaskGroup() as group:
        for reconciler in reconcilers:
            group.create_task(reconciler.run(), name=reconciler.settings.name)
