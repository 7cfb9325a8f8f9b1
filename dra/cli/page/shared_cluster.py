"""Reads a cluster once for all users of the page, or for the one user of ``kubectl dra ui``.

Claims, pods, nodes, ResourceSlices, Reservations and PodMigrationJobs are watched; other kinds are read again every few
seconds. A kind that may not be read, or that the API server does not serve, is tried again every minute: it is missing
from the page until then, and the page says so.

In a cluster, the account is that of the page. Texts of the API server go to the log only, because they may name objects
that a user may not see. With a kubeconfig, the account is the user's own: the page shows these texts, reads one
namespace where it may not read all, and ends if it can read nothing.
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
from dra.engine.diagnosis.live_cluster import LiveCluster
from dra.engine.diagnosis.node_reports import NodeReport
from dra.engine.diagnosis.pods import are_starting
from dra.engine.diagnosis.snapshot import Snapshot, UnreadResource
from dra.kube.client import EVERYTHING, Selection
from dra.kube.discovery import Discovery
from dra.kube.errors import ApiError, Forbidden, NotFound
from dra.kube.rate_limiter import RequestPriority
from dra.kube.resources import CLAIMS, NODE_METRICS, NODES, POD_MIGRATION_JOBS, PODS, RESERVATIONS, SLICES, Resource
from dra.kube.shared_informers import SharedInformer, SharedInformers
from dra.model.claims import WatchedClaim
from dra.model.diagnosed_pods import DiagnosedPod
from dra.model.meta import PartialObjectMetadata, UnstructuredObject
from dra.model.node_pods import AgentNode
from dra.model.references import GroupResource
from dra.model.slices import ResourceSlice

SURROUNDINGS_INTERVAL: Final = 5.0
"""Seconds between two reads of workloads, leases, classes and other kinds that are not watched."""

STATUS_INTERVAL: Final = 2.0
"""Seconds between two looks at the state of the watches."""

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

OPTIONAL: Final = frozenset({RESERVATIONS, POD_MIGRATION_JOBS, NODE_METRICS})
"""Kinds that not every API server serves: without them, nothing is missing from the page."""


class ClusterListener(Protocol):
    """A receiver of everything that changes in the cluster."""

    def object_changed(self, kind: FollowedKind, item: Any, change: Callable[[LiveCluster, Any], None]) -> None:  # noqa: ANN401 - an object of the kind
        """Apply a change of an object."""
        ...

    def surroundings_changed(self, snapshot: Snapshot) -> None:
        """Replace the kinds that are not watched."""
        ...

    def status_changed(self, kind: str, why: str) -> None:
        """Record why a kind is not up to date; an empty text means that it is."""
        ...

    def kinds_changed(self) -> None:
        """Begin again, because a kind can be read that could not be read before."""
        ...


class SharedCluster:
    """The objects of the cluster as last observed, and the listeners to their changes."""

    def __init__(self, connection: Connection, *, lease_namespace: str, own_namespace: str | None = None) -> None:
        """Create the cluster; nothing is read before `run`.

        ``own_namespace``: the namespace that the user of the account works in; None if the account is that of the page.
        """
        self._connection = connection
        self._own_namespace = own_namespace
        self._lease = (lease_namespace, LEASE_NAME)
        self._lifecycles = LifecycleCache()
        self._discovery = Discovery(connection.client, clock=connection.clock, priority=LOOKUP_PRIORITY)
        self._informers: dict[Resource, SharedInformer[Any]] = {}
        self._settled = {kind.resource: asyncio.Event() for kind in KINDS}
        """Kind → set once its objects are there, or it is known that the page cannot read them."""

        self._filled = asyncio.Event()
        self._unread: dict[str, str] = {}
        """Kinds, or parts of them, that cannot be read, with the text of the API server."""

        self._notes: dict[str, str] = {}
        self._told: set[tuple[str, str]] = set()
        self._wanted = asyncio.Event()
        self._listeners: dict[ClusterListener, None] = {}
        self.surroundings: Snapshot | None = None
        """The kinds that are not watched; None until they have been read."""

        self.absent: frozenset[Resource] = frozenset()
        """Kinds that the API server does not serve."""

        self.namespace: str | None = None
        """The namespace that claims and pods are read in; None: all namespaces."""

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
        """Return the kinds that cannot be read."""
        unread = [*self._unread.items(), *((gap.resource, gap.why) for gap in (self.surroundings or Snapshot()).gaps)]
        shown = dict.fromkeys((label, self._shown(why, instead=UNREAD)) for label, why in unread)
        return tuple(UnreadResource(resource=label, why=why) for label, why in shown)

    def _shown(self, text: str, *, instead: str) -> str:
        """Return a text of the API server as the page may show it."""
        return text if self._own_namespace is not None else instead

    def objects(self, resource: Resource) -> Iterable[Any]:
        """Return the objects of a kind."""
        informer = self._informers.get(resource)
        return informer.objects.values() if informer is not None else ()

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
        """Follow the cluster until cancelled; raise ServerRestoredError, after which all must be read again.

        With the user's own account, raise ApiError if not even claims can be read, or if the server cannot be asked.
        """
        if self._own_namespace is not None:
            await self._selection(CLAIMS)
        async with asyncio.TaskGroup() as group:
            for kind in KINDS:
                group.create_task(self._follow(kind), name=f"follow {kind.resource.label}")
            group.create_task(self._keep_surroundings(), name="surroundings")
            group.create_task(self._watch_status(), name="status of the watches")
        raise AssertionError("the tasks never return")

    async def _follow(self, kind: FollowedKind) -> None:
        resource, selection = kind.resource, await self._readable(kind.resource)
        was_settled = self._settled[resource].is_set()
        informers = SharedInformers(self._connection.client, clock=self._connection.clock)
        informer = informers.informer(resource, kind.model, selection=selection)
        informer.subscribe(partial(self._pass_on, kind, kind.observe), partial(self._pass_on, kind, kind.forget))
        async with asyncio.TaskGroup() as group:
            group.create_task(informers.run(), name=f"watch {resource.label}")
            self._informers[resource] = informer
            await informer.wait_for_sync()
            self._unread.pop(resource.label, None)
            self.absent -= {resource}
            self._settled[resource].set()
            if was_settled:
                _log.info("%s can be read now", resource.label)
                for listener in tuple(self._listeners):
                    listener.kinds_changed()

    async def _readable(self, resource: Resource) -> Selection:
        """Wait until a kind can be listed, and return which objects of it; raise ApiError if the page must end."""
        while True:
            try:
                return await self._selection(resource)
            except (Forbidden, NotFound) as problem:
                await self._set_unread(resource, problem)
                self._settled[resource].set()
                await asyncio.sleep(RETRY_INTERVAL)
            except ApiError as problem:
                self._end_if_never_read(problem)
                await asyncio.sleep(UNREACHABLE_RETRY_INTERVAL)

    def _end_if_never_read(self, problem: ApiError) -> None:
        """Raise an error that a user of the own account sees at once: there is nothing to show."""
        if self._own_namespace is not None and not self.is_filled:
            raise problem

    async def _selection(self, resource: Resource) -> Selection:
        """Return which objects of a kind can be listed: all, or those of one namespace; raise ApiError if none can."""
        try:
            await self._try_list(resource, EVERYTHING)
        except Forbidden:
            if self._own_namespace is None or not resource.namespaced:
                raise
        else:
            return EVERYTHING
        self.namespace = self._own_namespace
        selection = Selection(namespace=self._own_namespace)
        await self._try_list(resource, selection)
        self._unread[f"{resource.label} of other namespaces"] = "no permission to list them"
        return selection

    async def _try_list(self, resource: Resource, selection: Selection) -> None:
        """Read the first page of a list; raise ApiError."""
        async for _ in self._connection.client.list_pages(resource, PartialObjectMetadata, selection=selection):
            return

    async def _set_unread(self, resource: Resource, problem: Forbidden | NotFound) -> None:
        if resource in OPTIONAL and not await self._is_served(resource, problem):
            self.absent |= {resource}
        else:
            self._unread[resource.label] = str(problem)
            self._tell(resource.label, str(problem))

    async def _is_served(self, resource: Resource, problem: Forbidden | NotFound) -> bool:
        """Report whether a kind exists: the API server refuses kinds that do not exist, too."""
        if isinstance(problem, NotFound):
            return False
        try:
            kind = GroupResource(resource=resource.plural, group=resource.group)
            return await self._discovery.resolve(kind) is not None
        except ApiError:
            return True

    def _tell(self, kind: str, why: str) -> None:
        """Log once why a kind cannot be read; on the user's machine, the page shows it."""
        if self._own_namespace is None and (kind, why) not in self._told:
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
                self._end_if_never_read(error)
                self._tell("workloads and leases", str(error))
                self._note("workloads and leases", self._shown(str(error), instead=NOT_LIVE))
            else:
                self._note("workloads and leases", "")
            await asyncio.sleep(max(SURROUNDINGS_INTERVAL, 10 * (clock.now() - began)))
            if self.surroundings is not None:
                await self._wanted.wait()  # while nobody looks, nothing is read

    async def _read_surroundings(self) -> None:
        reader = SnapshotReader(
            self._connection,
            namespace=self._own_namespace,
            lease=self._lease,
            lifecycles=self._lifecycles,
            discovery=self._discovery,
        )
        self.surroundings = await reader.read_surroundings(
            tuple(self.objects(CLAIMS)),
            start_failures=are_starting(self.objects(PODS)),
            colocation=NODE_METRICS not in self.absent,
        )
        self._filled.set()
        for gap in self.surroundings.gaps:
            self._tell(gap.resource, gap.why)
        for listener in tuple(self._listeners):
            listener.surroundings_changed(self.surroundings)

    async def _watch_status(self) -> NoReturn:
        while True:
            for resource, informer in self._informers.items():
                is_listed, failure = informer.reflector.synced.is_set(), informer.reflector.failure
                why = str(failure) if failure is not None else informer.staleness() if is_listed else ""
                self._note(resource.label, self._shown(why, instead=NOT_LIVE) if why else "")
            await asyncio.sleep(STATUS_INTERVAL)

    def _note(self, kind: str, why: str) -> None:
        if self._notes.get(kind, "") == why:
            return
        self._notes.pop(kind, None)
        if why:
            self._notes[kind] = why
        for listener in tuple(self._listeners):
            listener.status_changed(kind, why)
