"""Reads a cluster into a snapshot: pages of 500, several kinds at a time, only GET requests.

A user who may read one namespace gets an answer for that namespace. Unreadable resources are recorded as gaps, and
nothing is claimed that depends on them.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime
from typing import Any, Final, TypeVar

import msgspec

from dra.api.colocation.well_known import CONFIG_MAP
from dra.api.koordinator.well_known import ENABLED, LABEL_ENABLED
from dra.cel.object_rules import WorkloadLifecycle, WorkloadRules
from dra.cli.kubectl import connection
from dra.cli.kubectl.connection import Connection
from dra.cli.kubectl.snapshots import controller_settings, deployment_reader
from dra.cli.kubectl.snapshots.controller_reader import ControllerReader, LifecycleCache, workload_rules
from dra.cli.kubectl.snapshots.shared_values import SharedValues
from dra.cli.kubectl.snapshots.snapshot_scope import SnapshotScope
from dra.cli.kubectl.snapshots.workload_references import referenced_workloads
from dra.engine.claims.view import WorkloadPhase
from dra.engine.claims.workload_index import WorkloadKey
from dra.engine.claims.workload_kinds import WatchedKinds
from dra.engine.diagnosis.node_reports import NodeReport
from dra.engine.diagnosis.snapshot import (
    ControllerLease,
    ControllerPresence,
    PodController,
    ReferencedWorkload,
    Snapshot,
    UnreadResource,
)
from dra.kube.client import Client, Selection
from dra.kube.clock import SYSTEM, rfc3339
from dra.kube.codec import ApiObject, codec_of
from dra.kube.discovery import Discovery
from dra.kube.errors import ApiError, Forbidden, NotFound
from dra.kube.large_objects import LargeObjectLedger, report_nothing
from dra.kube.lease_rules import Lease
from dra.kube.object_sizes import LARGE_OBJECT_BYTES
from dra.kube.resources import (
    CLAIMS,
    CONFIG_MAPS,
    DEVICE_CLASSES,
    EVENTS,
    LEASES,
    NAMESPACES,
    NODE_METRICS,
    NODES,
    POD_MIGRATION_JOBS,
    PODS,
    RESERVATIONS,
    SLICES,
    TEMPLATES,
    Resource,
)
from dra.model.claims import ResourceClaim, WatchedClaim
from dra.model.device_classes import DeviceClass
from dra.model.diagnosed_pods import DiagnosedPod, PodEvent
from dra.model.meta import Key, ObjectMeta, PartialObjectMetadata, RawObject, UnstructuredObject
from dra.model.node_pods import AgentNode, ConfigMap
from dra.model.preemption import PodDisruptionBudget, PriorityClass
from dra.model.references import GroupResource
from dra.model.scheduling import SchedulerPod
from dra.model.slices import ManagedResourceSlice
from dra.model.taints import DeviceTaintRule
from dra.model.templates import ResourceClaimTemplate, WatchedTemplate

PRIORITY_CLASSES: Final = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)
DISRUPTION_BUDGETS: Final = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", namespaced=True)
DESCHEDULER_LEASE_NAME: Final = "dra-reserve-descheduler"
DEVICE_TAINT_RULES: Final = GroupResource(resource="devicetaintrules", group=SLICES.group)

COLOCATION_CONFIG: Final = f"configmaps {'/'.join(CONFIG_MAP)}"
"""Name of the ConfigMap of colocation among what could not be read."""

START_FAILURE_REASONS: Final = ("FailedPrepareDynamicResources", "FailedCreatePodSandBox")
"""Reasons of the kubelet's Events on pods whose devices, or whose sandbox with its devices, could not be made ready."""

EVENTS_MAX: Final = 2_000
"""Maximum number of Events of one reason that are read."""

RULES_AT_ONCE: Final = 50
"""Number of workloads whose release rules are evaluated at a time: the web page serves its streams in between."""

UNLISTED_GROUPS_MAX: Final = 16
"""Maximum number of API groups that the server does not list and is asked for all the same, in one reading."""

CLAIMS_AT_ONCE: Final = 300
"""Number of claims whose references are read at a time."""

NAMED_MAX: Final = 16
"""Maximum number of unreadable objects of a kind that are named."""

Found = TypeVar("Found", bound=ApiObject)


class SnapshotReader:
    """Reads one snapshot of a cluster."""

    pod_model: type[SchedulerPod] = DiagnosedPod

    def __init__(
        self,
        connection: Connection,
        *,
        namespace: str | None,
        lease: Key,
        lifecycles: LifecycleCache | None = None,
        discovery: Discovery | None = None,
    ) -> None:
        """Create a reader; where listing all namespaces is forbidden, only ``namespace`` is read, if there is one.

        ``lifecycles``: the lifecycles of workloads that an earlier reader has evaluated; ``discovery``: the kinds that
        it has resolved. Workloads are listed with the priority of discovery.
        """
        self._client: Client = connection.client
        self._discovery = discovery if discovery is not None else Discovery(connection.client)
        self._namespace = namespace
        self._lease = lease
        self._lifecycles = lifecycles if lifecycles is not None else LifecycleCache()
        self._gaps: list[UnreadResource] = []
        self._limited_to_namespace = False
        self._unlisted_groups: set[str] = set()
        """Groups of workloads that the server does not list."""

    async def read(self, scope: SnapshotScope, *, node: str = "") -> Snapshot:
        """Return the snapshot; raise ApiError if not even the claims can be read.

        ``node``: the node whose NodeMetric is read alone; of a large cluster, all of them have hundreds of megabytes.
        """
        wall = SYSTEM.wall()
        core, rest, optional_kinds = await asyncio.gather(
            asyncio.gather(
                self.list_claims(),
                self.list_pods() if SnapshotScope.PODS in scope else _no_objects(),
                self._list_cluster_scoped(NODES, AgentNode) if SnapshotScope.NODES in scope else _no_objects(),
                self._list_cluster_scoped(SLICES, ManagedResourceSlice)
                if SnapshotScope.DEVICES in scope
                else _no_objects(),
                self._list_cluster_scoped(DEVICE_CLASSES, DeviceClass)
                if SnapshotScope.DEVICES in scope
                else _no_objects(),
            ),
            asyncio.gather(
                self._list_taint_rules() if SnapshotScope.DEVICES in scope else _no_objects(),
                self._list_namespaced(TEMPLATES, WatchedTemplate)
                if SnapshotScope.TEMPLATES_AND_LEASE in scope
                else _no_objects(),
                self.read_controller_lease() if SnapshotScope.TEMPLATES_AND_LEASE in scope else _unknown_lease(),
                self._client.git_version(),
            ),
            asyncio.gather(
                self._list_if_served(RESERVATIONS, UnstructuredObject)
                if SnapshotScope.RESERVATIONS in scope
                else _kind_not_read(),
                self._list_if_served(PRIORITY_CLASSES, PriorityClass)
                if SnapshotScope.PREEMPTION in scope
                else _kind_not_read(),
                self._list_if_served(DISRUPTION_BUDGETS, PodDisruptionBudget)
                if SnapshotScope.PREEMPTION in scope
                else _kind_not_read(),
                self._list_if_served(POD_MIGRATION_JOBS, UnstructuredObject)
                if SnapshotScope.MIGRATIONS in scope
                else _kind_not_read(),
                self.read_descheduler_lease(self._lease[0]) if SnapshotScope.MIGRATIONS in scope else _unknown_lease(),
            ),
        )
        node_metrics = await self._read_node_metrics(node) if SnapshotScope.COLOCATION in scope else None
        colocation_config = await self._read_colocation_config() if node_metrics is not None else None
        start_failures = await self._list_start_failures(scope)
        deployments = (
            await deployment_reader.read_deployments(self._client, namespace=self._lease[0])
            if SnapshotScope.DEPLOYMENTS in scope
            else ()
        )
        claims, pods, nodes, slices, classes = core
        rules, templates, leader, version = rest
        reservations, priorities, budgets, migrations, descheduler = optional_kinds
        enabled = await self._read_namespaces() if SnapshotScope.NAMESPACES in scope else {}
        default_policy = (
            await controller_settings.read_default_cpu_bind_policy(self._client, namespace=self._lease[0])
            if SnapshotScope.NAMESPACES in scope
            else None
        )
        workloads = await self.workloads(claims) if SnapshotScope.WORKLOADS in scope else []
        controllers: list[PodController] = []
        if SnapshotScope.CONTROLLERS in scope:
            controllers = await self._read_controllers(pods, self._namespace if self._limited_to_namespace else None)
        return Snapshot(
            taken=rfc3339(wall),
            server=version,
            namespace=self._namespace if self._limited_to_namespace else None,
            leader=leader,
            deployments=deployments,
            claims=tuple(claims),
            pods=tuple(pods),
            start_failures=tuple(start_failures),
            nodes=tuple(nodes),
            slices=tuple(slices),
            classes=tuple(classes),
            rules=tuple(rules),
            templates=tuple(templates),
            priorities=tuple(priorities or ()),
            budgets=tuple(budgets or ()),
            reservations=None if reservations is None else tuple(reservations),
            migrations=None if migrations is None else tuple(migrations),
            node_metrics=None if node_metrics is None else tuple(node_metrics),
            colocation_config=colocation_config,
            enabled_namespaces=enabled,
            default_cpu_bind_policy=default_policy,
            descheduler=descheduler,
            workloads=tuple(workloads),
            controllers=tuple(controllers),
            gaps=tuple(self._gaps),
        )

    async def list_claims(self) -> list[WatchedClaim]:
        """Read the claims; raise ApiError."""
        return await self._list_namespaced(CLAIMS, WatchedClaim, needed=True)

    async def list_pods(self) -> list[SchedulerPod]:
        """Read the pods, as far as that is permitted."""
        return await self._list_namespaced(PODS, self.pod_model)

    async def read_workload(
        self, scope: SnapshotScope, wanted: GroupResource, key: Key
    ) -> tuple[Snapshot, PodController]:
        """Return a snapshot with the controllers of one namespace, and the workload, without a uid if it is missing.

        Raises UnknownWorkloadError if the server does not serve the kind, and ApiError as `read` does.
        """
        reader = ControllerReader(self._client, self._discovery, namespace=key[0])
        controller = await reader.read_object(await reader.resolve(wanted), key[1])
        snapshot = await self.read(scope & ~SnapshotScope.CONTROLLERS)
        controllers = await self._read_controllers(snapshot.pods, key[0])
        return msgspec.structs.replace(snapshot, controllers=tuple(controllers), gaps=tuple(self._gaps)), controller

    async def _read_controllers(self, pods: Iterable[SchedulerPod], namespace: str | None) -> list[PodController]:
        reader = ControllerReader(self._client, self._discovery, namespace=namespace)
        controllers = await reader.read_controllers(pods)
        self._gaps += reader.gaps
        return controllers

    async def read_surroundings(
        self, claims: Iterable[ResourceClaim], *, start_failures: bool = False, colocation: bool = False
    ) -> Snapshot:
        """Return a snapshot of everything that a watcher of claims, pods, nodes and slices does not watch.

        ``start_failures``: whether pods are starting, so that Events about failed starts matter. ``colocation``:
        whether the server serves NodeMetrics, so that their ConfigMap matters.
        """
        wanted = SnapshotScope.ALL_START_FAILURES if start_failures else SnapshotScope.CLAIMS_ONLY
        taken = rfc3339(SYSTEM.wall())
        kinds, processes, enabled, config, failures, workloads = await asyncio.gather(
            asyncio.gather(
                self._list_cluster_scoped(DEVICE_CLASSES, DeviceClass),
                self._list_taint_rules(),
                self._list_namespaced(TEMPLATES, PartialObjectMetadata),
                self._list_if_served(DISRUPTION_BUDGETS, PodDisruptionBudget),
            ),
            asyncio.gather(
                self.read_controller_lease(), self.read_descheduler_lease(self._lease[0]), self._client.git_version()
            ),
            self._read_namespaces(),
            self._read_colocation_config() if colocation else _no_config(),
            self._list_start_failures(wanted),
            self.workloads(claims),
        )
        classes, rules, templates, budgets = kinds
        leader, descheduler, version = processes
        return Snapshot(
            taken=taken,
            server=version,
            namespace=self._namespace if self._limited_to_namespace else None,
            leader=leader,
            classes=tuple(classes),
            rules=tuple(rules),
            templates=tuple(ResourceClaimTemplate(metadata=_identity(template.metadata)) for template in templates),
            budgets=tuple(budgets or ()),
            colocation_config=config,
            enabled_namespaces=enabled,
            descheduler=descheduler,
            workloads=tuple(workloads),
            start_failures=tuple(failures),
            gaps=tuple(self._gaps),
        )

    async def _list_all(
        self,
        resource: Resource,
        model: type[Found],
        namespace: str | None,
        *,
        may_matter: Callable[[bytes], bool] | None = None,
    ) -> list[Found]:
        """Read a kind; ``may_matter`` tells by its JSON whether an object is to be decoded."""
        objects: list[Found] = []
        ledger = LargeObjectLedger(resource, report_nothing)
        reduce = codec_of(resource, model).reduce
        unreadable: dict[str, None] = {}
        shared = SharedValues()
        selection = Selection(namespace=namespace)
        async for page in self._client.list_pages(resource, model, selection=selection, may_matter=may_matter):
            if page.first:
                objects.clear()
                unreadable.clear()
                ledger.retain({}, set())
            items, refused = ledger.admit_page(page, reduce=reduce)
            shared.share(items)
            objects += items
            unreadable |= dict.fromkeys(str(unread) for unread in (*page.unreadable, *refused))
        names = tuple(unreadable)
        self._gaps += [
            UnreadResource(resource=resource.label, why=f"{name} cannot be read") for name in names[:NAMED_MAX]
        ]
        if len(names) > NAMED_MAX:
            more = f"{len(names) - NAMED_MAX} more objects cannot be read"
            self._gaps.append(UnreadResource(resource=resource.label, why=more))
        return objects

    async def _list_namespaced(self, resource: Resource, model: type[Found], *, needed: bool = False) -> list[Found]:
        """Read a kind in all namespaces, or in the selected namespace if only that is permitted."""
        try:
            return await self._list_all(resource, model, None)
        except Forbidden as error:
            if self._namespace is None:
                if needed:
                    raise
                self._gaps.append(UnreadResource(resource=resource.label, why=str(error)))
                return []
        self._limited_to_namespace = True
        try:
            objects = await self._list_all(resource, model, self._namespace)
        except Forbidden as error:
            if needed:
                raise
            self._gaps.append(UnreadResource(resource=resource.label, why=str(error)))
            return []
        self._gaps.append(
            UnreadResource(resource=f"{resource.label} of other namespaces", why="no permission to list them")
        )
        return objects

    async def _list_cluster_scoped(self, resource: Resource, model: type[Found]) -> list[Found]:
        try:
            return await self._list_all(resource, model, None)
        except (Forbidden, NotFound) as error:
            self._gaps.append(UnreadResource(resource=resource.label, why=str(error)))
            return []

    async def _list_start_failures(self, scope: SnapshotScope) -> list[PodEvent]:
        """Read the Events of pods that cannot start: of all namespaces only if asked and permitted."""
        everywhere = SnapshotScope.ALL_START_FAILURES in scope or self._namespace is None
        namespaces = dict.fromkeys((*((None,) if everywhere else ()), self._namespace))
        if not scope & (SnapshotScope.START_FAILURES | SnapshotScope.ALL_START_FAILURES):
            return []
        error: ApiError | None = None
        for namespace in namespaces:
            try:
                events_by_reason = [await self._list_events(reason, namespace) for reason in START_FAILURE_REASONS]
                return [event for events in events_by_reason for event in events]
            except ApiError as failure:
                error = failure
        self._gaps.append(UnreadResource(resource=EVENTS.label, why=str(error)))
        return []

    async def _list_events(self, reason: str, namespace: str | None) -> list[PodEvent]:
        """Return at most `EVENTS_MAX` Events on pods; who may write Events decides how many there are."""
        events: list[PodEvent] = []
        selection = Selection(namespace=namespace, fields=f"reason={reason}")
        async for page in self._client.list_pages(EVENTS, PodEvent, selection=selection):
            if page.first:
                events.clear()
            events += page.items
            if len(events) >= EVENTS_MAX:
                break
        return events[:EVENTS_MAX]

    async def _list_if_served(self, resource: Resource, model: type[Found]) -> list[Found] | None:
        """Read a kind in all namespaces; None if the server does not serve the kind."""
        try:
            return await self._list_all(resource, model, None)
        except NotFound:
            return None
        except Forbidden as error:
            self._gaps.append(UnreadResource(resource=resource.label, why=str(error)))
            return []

    async def _read_namespaces(self) -> dict[str, bool]:
        """Return whether each namespace is enabled for translation; without the right to list, of the selected one."""
        try:
            namespaces = await self._list_all(NAMESPACES, PartialObjectMetadata, None)
        except Forbidden as error:
            namespaces = []
            with suppress(ApiError):
                if self._namespace is not None:
                    namespaces = [await self._client.get(NAMESPACES, ("", self._namespace), PartialObjectMetadata)]
            if not namespaces:
                self._gaps.append(UnreadResource(resource=NAMESPACES.label, why=str(error)))
        return {
            namespace.metadata.name: (namespace.metadata.labels or {}).get(LABEL_ENABLED) == ENABLED
            for namespace in namespaces
        }

    async def _read_node_metrics(self, node: str) -> list[NodeReport] | None:
        """Return the NodeMetric of a node, or all of them; None if the server does not serve the kind."""
        kind = GroupResource(resource=NODE_METRICS.plural, group=NODE_METRICS.group)
        try:
            if await self._discovery.resolve(kind) is None:
                return None
            if not node:
                return await self._list_all(NODE_METRICS, NodeReport, None)
            return [await self._client.get(NODE_METRICS, ("", node), NodeReport)]
        except NotFound:
            return []
        except ApiError as error:
            self._gaps.append(UnreadResource(resource=NODE_METRICS.label, why=str(error)))
            return []

    async def _read_colocation_config(self) -> ConfigMap | None:
        """Return the ConfigMap with the strategies of colocation; None if there is none."""
        try:
            return await self._client.get(CONFIG_MAPS, CONFIG_MAP, ConfigMap)
        except NotFound:
            return None
        except ApiError as error:
            self._gaps.append(UnreadResource(resource=COLOCATION_CONFIG, why=str(error)))
            return None

    async def _list_taint_rules(self) -> list[DeviceTaintRule]:
        """Read the DeviceTaintRules, in the version that is served, if any."""
        try:
            resource = await self._discovery.resolve(DEVICE_TAINT_RULES)
            if resource is not None:
                return await self._list_all(resource, DeviceTaintRule, None)
        except Forbidden as error:
            self._gaps.append(UnreadResource(resource=str(DEVICE_TAINT_RULES), why=str(error)))
        except ApiError:  # removed between the two requests, or discovery does not answer
            pass
        return []

    async def read_controller_lease(self) -> ControllerLease:
        """Return the state of the controller, whose Lease the reader knows; that of a local plane needs none."""
        lease = await self._read_lease(self._lease)
        if lease.presence is ControllerPresence.ABSENT:
            return await self._controller_of_local_plane(lease.name)
        return lease

    async def read_descheduler_lease(self, namespace: str) -> ControllerLease:
        """Return the state of the descheduler, whose Lease is in the namespace; that of a local plane needs none."""
        lease = await self._read_lease((namespace, DESCHEDULER_LEASE_NAME))
        if lease.presence is ControllerPresence.ABSENT and await connection.has_plane_component(
            self._client, "descheduler"
        ):
            return ControllerLease(
                presence=ControllerPresence.RUNNING, name=lease.name, holder="the descheduler of the local plane"
            )
        return lease

    async def _read_lease(self, key: Key) -> ControllerLease:
        """Return what a Lease shows about its holder."""
        name, now = "/".join(key), SYSTEM.wall().timestamp()
        try:
            lease = await self._client.get(LEASES, key, Lease)
        except NotFound:
            return ControllerLease(presence=ControllerPresence.ABSENT, name=name)
        except ApiError:
            return ControllerLease(presence=ControllerPresence.UNKNOWN, name=name)
        spec = lease.spec
        seconds = int(now - _to_timestamp(spec.renew_time)) if spec.renew_time else 0
        running = bool(spec.holder_identity) and seconds <= max(spec.lease_duration_seconds, 1)
        presence = ControllerPresence.RUNNING if running else ControllerPresence.STALE
        return ControllerLease(presence=presence, name=name, holder=spec.holder_identity, seconds=max(seconds, 0))

    async def _controller_of_local_plane(self, name: str) -> ControllerLease:
        """Return the controller of a local plane, which needs no lease; absent if the server is no local plane."""
        if pid := await connection.controller_pid(self._client):
            return ControllerLease(
                presence=ControllerPresence.RUNNING, name=name, holder=f"the controller of the local plane (pid {pid})"
            )
        return ControllerLease(presence=ControllerPresence.ABSENT, name=name)

    async def workloads(self, claims: Iterable[ResourceClaim]) -> list[ReferencedWorkload]:
        """Look up the workloads that claims refer to, one kind at a time.

        As the controller does, at most `workload_kinds.KINDS_PER_NAMESPACE` kinds for each namespace: any user who may
        create claims can name kinds that do not exist.
        """
        wanted: dict[GroupResource, set[WorkloadKey]] = {}
        within, rules = WatchedKinds(), workload_rules()
        within.exempt(frozenset(rules))
        for number, claim in enumerate(claims):
            if number % CLAIMS_AT_ONCE == 0:
                await asyncio.sleep(0)
            for key in referenced_workloads(claim):
                wanted.setdefault(key.kind, set()).add(key)
                within.add(key.namespace, key.kind)
        workloads: list[ReferencedWorkload] = []
        for number, (kind, keys) in enumerate(sorted(wanted.items(), key=_kind_name)):
            if number % CLAIMS_AT_ONCE == 0:
                await asyncio.sleep(0)
            if kind not in within:
                workloads += [_referenced_workload(key, WorkloadPhase.OVER_LIMIT) for key in keys]
            else:
                workloads += await self._look_up_kind(kind, keys, rules.get(kind))
        self._lifecycles.end_read()
        return workloads

    async def _look_up_kind(
        self, kind: GroupResource, keys: set[WorkloadKey], rules: WorkloadRules | None
    ) -> list[ReferencedWorkload]:
        found_workloads: dict[Key, ReferencedWorkload] = {}
        try:
            resource = await self._discovery.resolve(kind) if await self._may_be_served(kind.group) else None
            if resource is None or not resource.namespaced:
                suggestion = await self._suggest_kind(kind) if resource is None else ""
                return [_referenced_workload(key, WorkloadPhase.NO_KIND, meant=suggestion) for key in keys]
            model: Any = PartialObjectMetadata if rules is None else RawObject
            for namespace in self._namespaces(keys):
                selection, priority = Selection(namespace=namespace), self._discovery.priority
                async for page in self._client.list_pages(resource, model, selection=selection, priority=priority):
                    for number, item in enumerate(page.items):
                        is_large = rules is not None and len(item.raw) > LARGE_OBJECT_BYTES
                        if number % RULES_AT_ONCE == 0 or is_large:
                            await asyncio.sleep(0)
                        key = WorkloadKey(kind, *item.metadata.key)
                        if key in keys:
                            lifecycle = self._lifecycle(rules, resource, item)
                            found_workloads[item.metadata.key] = _referenced_workload(
                                key,
                                WorkloadPhase.FINISHED if lifecycle.finished else WorkloadPhase.PRESENT,
                                uid=item.metadata.uid,
                                suspended=lifecycle.suspended,
                            )
        except Forbidden as error:
            self._gaps.append(UnreadResource(resource=str(kind), why=str(error)))
            return [_referenced_workload(key, WorkloadPhase.FORBIDDEN) for key in keys]
        except ApiError as error:
            self._gaps.append(UnreadResource(resource=str(kind), why=str(error)))
            return [_referenced_workload(key, WorkloadPhase.UNKNOWN) for key in keys]
        return [
            found_workloads.get((key.namespace, key.name)) or _referenced_workload(key, WorkloadPhase.ABSENT)
            for key in keys
        ]

    async def _may_be_served(self, group: str) -> bool:
        """Report whether a group is worth a request of its own: it is listed, or one of the first that are not.

        The list may lack the group of an aggregated API server that is down. Raises ApiError.
        """
        if group not in await self._discovery.served_groups():
            self._unlisted_groups.add(group)
        return group not in self._unlisted_groups or len(self._unlisted_groups) <= UNLISTED_GROUPS_MAX

    def _lifecycle(
        self, rules: WorkloadRules | None, resource: Resource, workload: PartialObjectMetadata | RawObject
    ) -> WorkloadLifecycle:
        if rules is None or not isinstance(workload, RawObject):
            return WorkloadLifecycle()
        return self._lifecycles.evaluate_raw(rules, resource, workload)

    async def _suggest_kind(self, kind: GroupResource) -> str:
        try:
            return str(await self._discovery.expand_shortcut(kind) or "")
        except ApiError:  # it would only be a hint
            return ""

    def _namespaces(self, keys: set[WorkloadKey]) -> list[str | None]:
        """Return the namespaces to list: None stands for all, unless one namespace suffices or access is restricted."""
        named = {key.namespace for key in keys}
        return [*named] if len(named) == 1 or self._limited_to_namespace else [None]


def _identity(metadata: ObjectMeta) -> ObjectMeta:
    """Return the part of the metadata of a template that the page reads."""
    return ObjectMeta(name=metadata.name, namespace=metadata.namespace, uid=metadata.uid)


def _referenced_workload(
    key: WorkloadKey,
    phase: WorkloadPhase,
    *,
    uid: Any = "",  # noqa: ANN401 - a Uid
    suspended: bool = False,
    meant: str = "",
) -> ReferencedWorkload:
    resource, group = key.kind.resource, key.kind.group
    return ReferencedWorkload(
        resource=resource,
        group=group,
        namespace=key.namespace,
        name=key.name,
        phase=phase,
        uid=uid,
        suspended=suspended,
        meant=meant,
    )


def _kind_name(pair: tuple[GroupResource, set[WorkloadKey]]) -> str:
    return str(pair[0])


def _to_timestamp(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


async def _no_objects() -> list[Any]:
    return []


async def _kind_not_read() -> list[Any] | None:
    return None


async def _no_config() -> ConfigMap | None:
    return None


async def _unknown_lease() -> ControllerLease:
    return ControllerLease()
