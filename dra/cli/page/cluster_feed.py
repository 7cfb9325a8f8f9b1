"""Feeds the rows of the page from a cluster or from a bundle.

The event loop only moves bytes: reflectors queue their changes, and one worker thread owns the cluster state, applies
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
from typing import Any, Final, TypeVar

import msgspec

from dra.api.rbac import LEASE_NAME
from dra.cli.kubectl.connection import Connection
from dra.cli.kubectl.snapshots.cluster_reader import SnapshotReader
from dra.cli.kubectl.snapshots.controller_reader import LifecycleCache
from dra.cli.page.page_tables import STEP, PageTables
from dra.cli.page.patch_stream import PatchStream
from dra.cli.page.views import Patch
from dra.engine.diagnosis.live_cluster import LiveCluster
from dra.engine.diagnosis.node_reports import NodeReport
from dra.engine.diagnosis.pods import are_starting
from dra.engine.diagnosis.snapshot import Snapshot, UnreadResource
from dra.kube.client import EVERYTHING, Selection
from dra.kube.clock import SYSTEM
from dra.kube.discovery import Discovery
from dra.kube.errors import ApiError, Forbidden, NotFound
from dra.kube.event_handlers import EventHandlerFuncs
from dra.kube.informers import Informers, staleness
from dra.kube.reflector import Reflector
from dra.kube.resources import CLAIMS, NODE_METRICS, NODES, POD_MIGRATION_JOBS, PODS, RESERVATIONS, SLICES, Resource
from dra.kube.store import ServerRestoredError
from dra.kube.tasks import background_task
from dra.model.claims import WatchedClaim
from dra.model.diagnosed_pods import DiagnosedPod
from dra.model.meta import PartialObjectMetadata, UnstructuredObject
from dra.model.node_pods import AgentNode
from dra.model.references import GroupResource
from dra.model.slices import ResourceSlice

T = TypeVar("T")

BATCH_DELAY: Final = 0.05
"""Seconds after the last step for which further changes are collected: a burst of events becomes few patches."""

PAIR_DELAY: Final = 0.02
"""Seconds for which changes are collected after a pause: a pod and its claim change together, in two watches."""

CHANGES_PER_STEP: Final = 5_000
"""Maximum number of changes that one step applies, so that questions about objects are answered in between."""

SUMS_INTERVAL: Final = 1.0
"""Seconds between two updates of the views that sum up everything; ten times as long as an update takes, if longer."""

SURROUNDINGS_INTERVAL: Final = 5.0
"""Seconds between two reads of workloads, leases, classes and other kinds that are not watched."""

STATUS_INTERVAL: Final = 2.0
"""Seconds between two looks at the state of the watches."""

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


class WatchedCluster:
    """Follows a cluster: reflectors for what changes often, a read every few seconds for the rest."""

    def __init__(self, connection: Connection, feed: ClusterFeed, *, namespace: str, lease_namespace: str) -> None:
        self._connection = connection
        self._feed = feed
        self._namespace = namespace
        self._lease = (lease_namespace, LEASE_NAME)
        self._lifecycles = LifecycleCache()
        self._discovery = Discovery(connection.client)
        self._gaps: list[UnreadResource] = []
        self._limited = False
        self._colocation = False
        self._reflectors: list[Reflector[Any]] = []

    async def follow(self) -> None:
        """Follow the cluster until cancelled. Raise ApiError if not even claims can be read, ServerRestoredError."""
        cluster = self._feed.cluster
        claims = await self._selection(CLAIMS, needed=True)
        pods = await self._selection(PODS)
        served = {
            resource: await self._is_served(resource) for resource in (RESERVATIONS, POD_MIGRATION_JOBS, NODE_METRICS)
        }
        self._colocation = served[NODE_METRICS]
        self._feed.queue(
            partial(
                cluster.set_served,
                reservations=served[RESERVATIONS],
                migrations=served[POD_MIGRATION_JOBS],
                node_metrics=served[NODE_METRICS],
            )
        )
        self._add(NODES, AgentNode, cluster.observe_node, cluster.forget_node, await self._global(NODES))
        self._add(SLICES, ResourceSlice, cluster.observe_slice, cluster.forget_slice, await self._global(SLICES))
        self._add(CLAIMS, WatchedClaim, cluster.observe_claim, cluster.forget_claim, claims)
        self._add(PODS, DiagnosedPod, cluster.observe_pod, cluster.forget_pod, pods)
        for resource, observe, forget in (
            (RESERVATIONS, cluster.observe_reservation, cluster.forget_reservation),
            (POD_MIGRATION_JOBS, cluster.observe_migration, cluster.forget_migration),
        ):
            if served[resource]:
                self._add(resource, UnstructuredObject, observe, forget, await self._global(resource))
        if served[NODE_METRICS]:
            metrics = await self._global(NODE_METRICS)
            self._add(NODE_METRICS, NodeReport, cluster.observe_node_metric, cluster.forget_node_metric, metrics)
        informers = Informers(*self._reflectors)
        async with asyncio.TaskGroup() as group:
            group.create_task(informers.run())
            await informers.wait_for_sync()
            await self._read_surroundings()
            self._feed.listed.set()
            group.create_task(self._feed.keep_rows())
            group.create_task(self._keep_surroundings())
            group.create_task(self._watch_status())
            group.create_task(self._feed.keep_diagnoses())

    def _add(
        self,
        resource: Resource,
        model: type[Any],
        observe: Callable[[Any], object],
        forget: Callable[[Any], object],
        selection: Selection | None,
    ) -> None:
        if selection is None:
            return
        sums = resource in {RESERVATIONS, POD_MIGRATION_JOBS}

        def change(function: Callable[[Any], object], item: Any) -> None:  # noqa: ANN401 - an object of the kind
            self._feed.queue(partial(function, item))
            if sums:
                self._feed.queue(self._feed.tables.mark_sums_due)

        handler: EventHandlerFuncs[Any] = EventHandlerFuncs(
            on_upsert=partial(change, observe), on_delete=partial(change, forget)
        )
        self._reflectors.append(
            Reflector(self._connection.client, resource, model, handler=handler, selection=selection)
        )

    async def _selection(self, resource: Resource, *, needed: bool = False) -> Selection | None:
        """Return what may be listed of a namespaced kind: everything, one namespace, or nothing."""
        try:
            await self._try_list(resource, EVERYTHING)
        except Forbidden:
            self._limited = True
        else:
            return EVERYTHING
        selection = Selection(namespace=self._namespace)
        try:
            await self._try_list(resource, selection)
        except Forbidden as error:
            if needed:
                raise
            self._gaps.append(UnreadResource(resource=resource.label, why=str(error)))
            return None
        self._gaps.append(
            UnreadResource(resource=f"{resource.label} of other namespaces", why="no permission to list them")
        )
        return selection

    async def _global(self, resource: Resource) -> Selection | None:
        try:
            await self._try_list(resource, EVERYTHING)
        except (Forbidden, NotFound) as error:
            self._gaps.append(UnreadResource(resource=resource.label, why=str(error)))
            return None
        return EVERYTHING

    async def _is_served(self, resource: Resource) -> bool:
        try:
            await self._try_list(resource, EVERYTHING)
        except NotFound:
            return False
        except Forbidden:  # of kinds that do not exist, too
            return await self._is_discovered(resource)
        return True

    async def _is_discovered(self, resource: Resource) -> bool:
        kind = GroupResource(resource=resource.plural, group=resource.group)
        try:
            return await self._discovery.resolve(kind) is not None
        except ApiError:
            return True

    async def _try_list(self, resource: Resource, selection: Selection) -> None:
        """Read the first page of a list; raise ApiError."""
        async for _ in self._connection.client.list_pages(resource, PartialObjectMetadata, selection=selection):
            return

    async def _read_surroundings(self) -> None:
        claims, starting = await self._feed.ask(
            lambda tables: (tables.cluster.claims(), are_starting(tables.cluster.pods.values()))
        )
        reader = SnapshotReader(
            self._connection,
            namespace=self._namespace,
            lease=self._lease,
            lifecycles=self._lifecycles,
            discovery=self._discovery,
        )
        surroundings = await reader.read_surroundings(claims, start_failures=starting, colocation=self._colocation)
        gaps = {(gap.resource, gap.why): gap for gap in (*self._gaps, *surroundings.gaps)}
        limited = self._namespace if self._limited else None
        self._feed.queue(
            partial(
                self._feed.cluster.set_surroundings,
                msgspec.structs.replace(surroundings, gaps=tuple(gaps.values()), namespace=limited),
            )
        )

    async def _keep_surroundings(self) -> None:
        clock = self._connection.clock
        while True:
            began = clock.now()
            try:
                await self._read_surroundings()
            except ApiError as error:
                self._note("workloads and leases", str(error))
            else:
                self._note("workloads and leases", "")
            await asyncio.sleep(max(SURROUNDINGS_INTERVAL, 10 * (clock.now() - began)))

    async def _watch_status(self) -> None:
        """Keep the notes about kinds whose watch does not work now."""
        while True:
            for reflector in self._reflectors:
                why = str(reflector.failure) if reflector.failure is not None else staleness(reflector)
                self._note(reflector.resource.label, why)
            await asyncio.sleep(STATUS_INTERVAL)

    def _note(self, kind: str, why: str) -> None:
        tables = self._feed.tables
        if tables.notes.get(kind, "") != why:
            self._feed.queue(partial(tables.set_note, kind, why))


@asynccontextmanager
async def cluster_feed(connection: Connection, *, namespace: str, lease_namespace: str) -> AsyncIterator[ClusterFeed]:
    """Yield the feed of a cluster; the block is cancelled when the cluster cannot be read."""
    feed = ClusterFeed(PatchStream(secrets.token_hex(4)))
    work = _follow(connection, feed, namespace=namespace, lease_namespace=lease_namespace)
    try:
        async with background_task(work, name="follow the cluster"):
            yield feed
    finally:
        feed.close()


async def _follow(connection: Connection, feed: ClusterFeed, *, namespace: str, lease_namespace: str) -> None:
    """Follow the cluster; after a restore from a backup, read everything again."""
    while True:
        try:
            await WatchedCluster(connection, feed, namespace=namespace, lease_namespace=lease_namespace).follow()
        except* ServerRestoredError:
            feed.restart()
