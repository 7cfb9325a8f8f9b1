"""Reads the cluster once for all users of the page, with the account of the page.

Claims, pods, nodes, ResourceSlices, Reservations and PodMigrationJobs are watched; other kinds are read again every few
seconds. A kind that the account may not read, or that the API server does not serve, is tried again every minute: it is
missing from the page until then, and the log and the page say so. Texts of the API server go to the log only, because
they may name objects that a user may not see.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final, NamedTuple, NoReturn, Protocol

from dra.api.rbac import LEASE_NAME
from dra.cli.kubectl.connection import Connection
from dra.cli.kubectl.snapshots.cluster_reader import SnapshotReader
from dra.cli.kubectl.snapshots.controller_reader import LifecycleCache
from dra.cli.page.cluster_feed import STATUS_INTERVAL, SURROUNDINGS_INTERVAL
from dra.engine.diagnosis.live_cluster import LiveCluster
from dra.engine.diagnosis.node_reports import NodeReport
from dra.engine.diagnosis.pods import are_starting
from dra.engine.diagnosis.snapshot import Snapshot, UnreadResource
from dra.kube.client import EVERYTHING
from dra.kube.discovery import Discovery
from dra.kube.errors import ApiError, Forbidden, NotFound
from dra.kube.event_handlers import EventHandlerFuncs
from dra.kube.informers import staleness
from dra.kube.rate_limiter import RequestPriority
from dra.kube.reflector import Reflector
from dra.kube.resources import CLAIMS, NODE_METRICS, NODES, POD_MIGRATION_JOBS, PODS, RESERVATIONS, SLICES, Resource
from dra.model.claims import WatchedClaim
from dra.model.diagnosed_pods import DiagnosedPod
from dra.model.meta import PartialObjectMetadata, UnstructuredObject
from dra.model.node_pods import AgentNode
from dra.model.slices import ResourceSlice

RETRY_INTERVAL: Final = 60.0
"""Seconds until a kind that could not be read is tried again."""

UNREACHABLE_RETRY_INTERVAL: Final = 2.0
"""Seconds until the API server is asked again after an error that says nothing about permissions."""

LOOKUP_PRIORITY: Final = RequestPriority.REPORT
"""Priority of requests for kinds that claims name: users sign in meanwhile. Reviews of unknown tokens have the same
priority, and no higher one, so that their number cannot keep the page from reading."""

TOLD_MAX: Final = 1_000
"""Maximum number of log lines that are remembered: claims can name any number of kinds that do not exist."""

UNREAD: Final = "the page cannot read this kind; its log says why"
NOT_LIVE: Final = "the watch of the page is interrupted; the rows show the last known state"

_log: Final = logging.getLogger(__name__)


class FollowedKind(NamedTuple):
    """A kind that is watched, and the functions that pass its objects to a cluster state."""

    resource: Resource
    model: type[Any]
    observe: Callable[[LiveCluster, Any], None]
    forget: Callable[[LiveCluster, Any], None]


KINDS: Final = (
    FollowedKind(NODES, AgentNode, LiveCluster.observe_node, LiveCluster.forget_node),
    FollowedKind(SLICES, ResourceSlice, LiveCluster.observe_slice, LiveCluster.forget_slice),
    FollowedKind(CLAIMS, WatchedClaim, LiveCluster.observe_claim, LiveCluster.forget_claim),
    FollowedKind(PODS, DiagnosedPod, LiveCluster.observe_pod, LiveCluster.forget_pod),
    FollowedKind(RESERVATIONS, UnstructuredObject, LiveCluster.observe_reservation, LiveCluster.forget_reservation),
    FollowedKind(POD_MIGRATION_JOBS, UnstructuredObject, LiveCluster.observe_migration, LiveCluster.forget_migration),
    FollowedKind(NODE_METRICS, NodeReport, LiveCluster.observe_node_metric, LiveCluster.forget_node_metric),
)


_KIND_OF: Final = {kind.resource: kind for kind in KINDS}


class ClusterListener(Protocol):
    """A receiver of everything that changes in the cluster."""

    def object_changed(self, kind: FollowedKind, item: Any, change: Callable[[LiveCluster, Any], None]) -> None:  # noqa: ANN401 - an object of the kind
        """Apply a change of an object."""
        ...

    def surroundings_changed(self, snapshot: Snapshot, gaps: Iterable[UnreadResource]) -> None:
        """Replace the kinds that are not watched; ``gaps``: kinds that the page cannot read."""
        ...

    def status_changed(self, kind: str, why: str) -> None:
        """Record why a kind is not up to date; an empty text means that it is."""
        ...

    def kinds_changed(self) -> None:
        """Begin again, because a kind can be read that could not be read before."""
        ...


class SharedCluster:
    """The objects of the cluster as last observed, and the listeners to their changes."""

    def __init__(self, connection: Connection, *, lease_namespace: str) -> None:
        self._connection = connection
        self._lease = (lease_namespace, LEASE_NAME)
        self._lifecycles = LifecycleCache()
        self._discovery = Discovery(connection.client, clock=connection.clock, priority=LOOKUP_PRIORITY)
        self._reflectors: dict[Resource, Reflector[Any]] = {}
        self._settled = {kind.resource: asyncio.Event() for kind in KINDS}
        """Kind → set once its objects are there, or it is known that the page cannot read them."""

        self._filled = asyncio.Event()
        self._unread: dict[Resource, str] = {}
        self._notes: dict[str, str] = {}
        self._told: set[tuple[str, str]] = set()
        self._wanted = asyncio.Event()
        self._listeners: dict[ClusterListener, None] = {}
        self.surroundings: Snapshot | None = None
        """The kinds that are not watched; None until they have been read."""

        self.absent: frozenset[Resource] = frozenset()
        """Kinds that the API server does not serve."""

    @property
    def is_filled(self) -> bool:
        """Report whether every kind has been read that can be read."""
        return self._filled.is_set()

    async def wait_until_filled(self) -> None:
        """Wait until every kind has been read that can be read."""
        await self._filled.wait()

    def not_ready_reasons(self) -> list[str]:
        """Return what has not been read yet; a watch that is interrupted later does not count."""
        reasons = [
            f"{resource.label}: not listed yet" for resource, settled in self._settled.items() if not settled.is_set()
        ]
        return reasons or ([] if self.surroundings is not None else ["workloads and leases: not read yet"])

    def gaps(self) -> tuple[UnreadResource, ...]:
        """Return the kinds that the page cannot read."""
        unread = {resource.label: None for resource in self._unread}
        unread |= {gap.resource: None for gap in (self.surroundings or Snapshot()).gaps}
        return tuple(UnreadResource(resource=label, why=UNREAD) for label in unread)

    def objects(self, kind: FollowedKind) -> Iterable[Any]:
        """Return the objects of a kind."""
        reflector = self._reflectors.get(kind.resource)
        return reflector.objects.values() if reflector is not None else ()

    @property
    def notes(self) -> dict[str, str]:
        """The kinds that are not up to date, with the reason."""
        return dict(self._notes)

    def add_listener(self, listener: ClusterListener) -> None:
        """Pass all later changes to a listener."""
        self._listeners[listener] = None
        self._wanted.set()

    def remove_listener(self, listener: ClusterListener) -> None:
        """Pass no further changes to a listener."""
        self._listeners.pop(listener, None)
        if not self._listeners:
            self._wanted.clear()

    async def run(self) -> NoReturn:
        """Follow the cluster until cancelled; raise ServerRestoredError, after which the process must end."""
        async with asyncio.TaskGroup() as group:
            for kind in KINDS:
                group.create_task(self._follow(kind), name=f"follow {kind.resource.label}")
            group.create_task(self._keep_surroundings(), name="surroundings")
            group.create_task(self._watch_status(), name="status of the watches")
        raise AssertionError("the tasks never return")

    async def _follow(self, kind: FollowedKind) -> None:
        resource = kind.resource
        while (problem := await self._reading_problem(resource)) is not None:
            is_answer = isinstance(problem, Forbidden | NotFound)
            if is_answer:
                self._set_unread(resource, problem)
                self._settled[resource].set()
            await asyncio.sleep(RETRY_INTERVAL if is_answer else UNREACHABLE_RETRY_INTERVAL)
        was_settled = self._settled[resource].is_set()
        handler: EventHandlerFuncs[Any] = EventHandlerFuncs(
            on_upsert=partial(self._pass_on, kind, kind.observe), on_delete=partial(self._pass_on, kind, kind.forget)
        )
        reflector = Reflector(self._connection.client, resource, kind.model, handler=handler)
        async with asyncio.TaskGroup() as group:
            group.create_task(reflector.run(), name=f"reflect {resource.label}")
            self._reflectors[resource] = reflector
            await reflector.synced.wait()
            self._unread.pop(resource, None)
            self.absent -= {resource}
            self._settled[resource].set()
            if was_settled:
                _log.info("%s can be read now", resource.label)
                for listener in tuple(self._listeners):
                    listener.kinds_changed()

    async def _reading_problem(self, resource: Resource) -> ApiError | None:
        """Return why a kind cannot be listed; None if it can."""
        pages = self._connection.client.list_pages(resource, PartialObjectMetadata, selection=EVERYTHING)
        try:
            async for _ in pages:
                break
        except ApiError as error:
            return error
        return None

    def _set_unread(self, resource: Resource, problem: ApiError) -> None:
        if isinstance(problem, NotFound):
            self.absent |= {resource}
        else:
            self._unread[resource] = str(problem)
            self._tell(resource.label, str(problem))

    def _tell(self, kind: str, why: str) -> None:
        """Log once why a kind cannot be read."""
        if (kind, why) not in self._told:
            if len(self._told) >= TOLD_MAX:
                self._told.clear()
            self._told.add((kind, why))
            _log.warning("%s: cannot be read: %s", kind, why)

    def _pass_on(self, kind: FollowedKind, change: Callable[[LiveCluster, Any], None], item: Any) -> None:  # noqa: ANN401 - an object of the kind
        for listener in self._listeners:
            listener.object_changed(kind, item, change)

    async def _keep_surroundings(self) -> NoReturn:
        clock = self._connection.clock
        for settled in self._settled.values():
            await settled.wait()
        while True:
            began = clock.now()
            try:
                await self._read_surroundings()
            except ApiError as error:
                self._tell("workloads and leases", str(error))
                self._note("workloads and leases", NOT_LIVE)
            else:
                self._note("workloads and leases", "")
            await asyncio.sleep(max(SURROUNDINGS_INTERVAL, 10 * (clock.now() - began)))
            if self.surroundings is not None:
                await self._wanted.wait()  # while nobody looks, nothing is read

    async def _read_surroundings(self) -> None:
        reader = SnapshotReader(
            self._connection,
            namespace=None,
            lease=self._lease,
            lifecycles=self._lifecycles,
            discovery=self._discovery,
        )
        claims, pods = (self.objects(_KIND_OF[resource]) for resource in (CLAIMS, PODS))
        self.surroundings = await reader.read_surroundings(
            tuple(claims), start_failures=are_starting(pods), colocation=NODE_METRICS not in self.absent
        )
        self._filled.set()
        for gap in self.surroundings.gaps:
            self._tell(gap.resource, gap.why)
        gaps = self.gaps()
        for listener in tuple(self._listeners):
            listener.surroundings_changed(self.surroundings, gaps)

    async def _watch_status(self) -> NoReturn:
        while True:
            for reflector in self._reflectors.values():
                is_live = reflector.failure is None and not (reflector.synced.is_set() and staleness(reflector))
                self._note(reflector.resource.label, "" if is_live else NOT_LIVE)
            await asyncio.sleep(STATUS_INTERVAL)

    def _note(self, kind: str, why: str) -> None:
        if self._notes.get(kind, "") == why:
            return
        self._notes.pop(kind, None)
        if why:
            self._notes[kind] = why
        for listener in tuple(self._listeners):
            listener.status_changed(kind, why)
