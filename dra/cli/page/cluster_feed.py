"""Feeds the rows of the page from a cluster, or from a bundle.

The event loop only moves bytes: informers queue their changes, and one worker thread owns the cluster state, applies
the changes, diagnoses and answers questions about single objects. So a diagnosis of ten thousand claims delays no
stream, and nothing needs a lock.
"""

import asyncio
import gc
import math
import secrets
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
from typing import Any, Final, NoReturn, TypeVar

from dra.cli.page.page_tables import STEP, PageTables
from dra.cli.page.patch_stream import PatchStream
from dra.cli.page.views import Patch
from dra.engine.diagnosis.live_cluster import LiveCluster
from dra.engine.diagnosis.snapshot import Snapshot
from dra.kube.clock import SYSTEM
from dra.kube.tasks import background_task

T = TypeVar("T")

BATCH_DELAY: Final = 0.05
"""Seconds after the last step for which further changes are collected: a burst of events becomes few patches."""

PAIR_DELAY: Final = 0.02
"""Seconds for which changes are collected after a pause: a pod and its claim change together, in two watches."""

CHANGES_PER_STEP: Final = 5_000
"""Maximum number of changes that one step applies, so that questions about objects are answered in between."""

SUMS_INTERVAL: Final = 1.0
"""Seconds between two updates of the views that sum up everything; ten times as long as an update takes, if longer."""

REFRESH_ROUND: Final = 120.0
"""Seconds within which every claim is diagnosed again, whatever has changed."""

SUMS_PER_ROUND: Final = 4
"""Number of times within a round that all sums are computed: they tell when a Reservation ends, for example."""


class FeedClosedError(Exception):
    """The feed was closed before it could answer."""


class ClusterFeed:
    """The cluster state of the page, its worker thread, and the stream that the rows go to."""

    def __init__(
        self,
        stream: PatchStream,
        *,
        now: Callable[[], datetime] = SYSTEM.wall,
        hidden: Mapping[str, str] | None = None,
        is_permanent: bool = True,
    ) -> None:
        """Create an empty feed.

        ``hidden``: as in `PageTables`. ``is_permanent``: whether the feed lives as long as the process, so that the
        garbage collector need not look at its objects.
        """
        self.stream = stream
        self.tables = PageTables(LiveCluster(), hidden=hidden)
        self.now = now
        self.is_closed = False
        self.listed = asyncio.Event()
        """Set once the first lists are complete: from then on, there is something to show."""

        self._hidden = hidden
        self._is_permanent = is_permanent
        self._changes: deque[Callable[[], object]] = deque()
        self._wake = asyncio.Event()
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="page")
        self._sums_due_at = 0.0
        self._stepped_at = -math.inf
        """Time at which the last step ended."""

    @property
    def cluster(self) -> LiveCluster:
        """The cluster state; only the worker thread may use it."""
        return self.tables.cluster

    def queue(self, change: Callable[[], object]) -> None:
        """Let the worker apply a change before it computes rows again."""
        self._changes.append(change)
        self._wake.set()

    async def ask(self, question: Callable[[PageTables], T]) -> T:
        """Return the answer of a function of the tables, computed by the worker between two steps.

        Raises FeedClosedError if the feed is closed before. A question that the caller does not wait for any more (a
        client that has left) is dropped unless the worker has begun.
        """
        if self.is_closed:
            raise FeedClosedError
        answer = asyncio.get_running_loop().run_in_executor(self._worker, question, self.tables)
        try:
            await asyncio.wait([answer])
        except asyncio.CancelledError:
            answer.cancel()
            raise
        if answer.cancelled():  # by `close`
            raise FeedClosedError
        return answer.result()

    async def step(self) -> bool:
        """Apply queued changes, publish the changed rows, and return whether more is left."""
        loop, tables = asyncio.get_running_loop(), self.tables  # `restart` replaces the tables during a step
        batch = [self._changes.popleft() for _ in range(min(len(self._changes), CHANGES_PER_STEP))]
        sums, was_summing = loop.time() >= self._sums_due_at, tables.is_summing
        patches, more = await loop.run_in_executor(
            self._worker, partial(self._work, tables, batch, sums=sums, show=not self._changes)
        )
        if was_summing and not tables.is_summing:
            self._sums_due_at = loop.time() + max(SUMS_INTERVAL, 10 * tables.sums_seconds)
        self.stream.publish(patches)
        self._stepped_at = loop.time()
        return more or bool(self._changes)

    def _work(
        self, tables: PageTables, batch: Iterable[Callable[[], object]], *, sums: bool, show: bool
    ) -> tuple[list[Patch], bool]:
        for change in batch:
            change()
        if not show:  # rows from half of a list would be wrong
            return [], True
        patches = tables.update(now=self.now(), sums=sums)
        return patches, tables.cluster.is_dirty

    async def run(self) -> NoReturn:
        """Compute rows until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.keep_rows(), name="rows of the page")
            group.create_task(self.keep_diagnoses(), name="diagnoses of the page")
        raise AssertionError("the tasks never return")

    async def keep_rows(self) -> None:
        """Compute rows whenever something has changed, until cancelled."""
        more = False
        while True:
            if not more:
                await self._work_is_due()
            self._wake.clear()
            more = await self.step()
            if not self.stream.is_ready and self.tables.is_complete:
                self.stream.set_ready()
                if self._is_permanent:
                    gc.freeze()  # the collector need not look at the first lists

    async def _work_is_due(self) -> None:
        """Wait until something has changed, and then for more changes, or until sums are due."""
        loop = asyncio.get_running_loop()
        is_summing = self.tables.is_summing
        waits = 0.0 if is_summing else max(self._sums_due_at - loop.time(), 0.0) if self.tables.has_work else None
        try:
            async with asyncio.timeout(waits):
                await self._wake.wait()
        except TimeoutError:
            pass
        else:
            await asyncio.sleep(max(PAIR_DELAY, self._stepped_at + BATCH_DELAY - loop.time()))

    def restart(self) -> None:
        """Replace the cluster state by an empty one."""
        self._changes.clear()
        self.tables = PageTables(LiveCluster(), hidden=self._hidden)
        self._sums_due_at = 0.0
        self.stream.restart(secrets.token_hex(4))

    async def keep_diagnoses(self) -> None:
        """Diagnose every claim again within a round: what no event announces, such as time, still reaches the page.

        A part of a round has at most the claims of one step.
        """
        while True:
            keys = await self.ask(lambda tables: tuple(claim.metadata.key for claim in tables.cluster.claims()))
            self.queue(self.cluster.drop_node_infos)
            self.queue(self.cluster.mark_use_dirty)
            parts = SUMS_PER_ROUND * math.ceil(max(len(keys) / STEP / SUMS_PER_ROUND, 1))
            for number in range(parts):
                await asyncio.sleep(REFRESH_ROUND / parts)
                self.queue(partial(self.cluster.dirty_claims.update, keys[number::parts]))
                if number % (parts // SUMS_PER_ROUND) == 0:
                    self.queue(self.tables.mark_sums_due)

    def close(self) -> None:
        """Stop the worker thread, and wake all streams, whose clients must connect again."""
        self.is_closed = True
        self.stream.wake()
        self._worker.shutdown(wait=False, cancel_futures=True)


@asynccontextmanager
async def bundle_feed(snapshot: Snapshot, *, now: datetime) -> AsyncIterator[ClusterFeed]:
    """Yield the feed of a snapshot, which never changes."""
    feed = ClusterFeed(PatchStream(secrets.token_hex(4)), now=lambda: now)
    cluster = feed.cluster
    cluster.set_served(
        reservations=snapshot.reservations is not None,
        migrations=snapshot.migrations is not None,
        node_metrics=snapshot.node_metrics is not None,
    )
    kinds: tuple[tuple[Callable[[Any], None], Iterable[Any]], ...] = (
        (cluster.observe_node, snapshot.nodes),
        (cluster.observe_slice, snapshot.slices),
        (cluster.observe_claim, snapshot.claims),
        (cluster.observe_pod, snapshot.pods),
        (cluster.observe_reservation, snapshot.reservations or ()),
        (cluster.observe_migration, snapshot.migrations or ()),
        (cluster.observe_node_metric, snapshot.node_metrics or ()),
    )
    for observe, objects in kinds:
        for item in objects:
            feed.queue(partial(observe, item))
    feed.queue(partial(cluster.set_surroundings, snapshot))
    feed.listed.set()
    try:
        async with background_task(feed.keep_rows(), name="rows of the page"):
            yield feed
    finally:
        feed.close()
