"""Reads a cluster into a snapshot: pages of 500, several kinds at a time, only GET requests.

A user who may read one namespace gets an answer for that namespace. Unreadable resources are recorded as gaps, and
nothing is claimed that depends on them.
"""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final

import msgspec

from dra.api.colocation.well_known import CONFIG_MAP
from dra.api.koordinator.well_known import ENABLED, LABEL_ENABLED
from dra.cli.kubectl.connection import Connection
from dra.cli.kubectl.snapshots import controller_settings, deployment_reader, lease_reader
from dra.cli.kubectl.snapshots.controller_reader import ControllerReader, LifecycleCache
from dra.cli.kubectl.snapshots.object_lists import ObjectLists
from dra.cli.kubectl.snapshots.snapshot_scope import SnapshotScope
from dra.cli.kubectl.snapshots.workload_reader import WorkloadReader
from dra.engine.diagnosis.node_reports import NodeReport
from dra.engine.diagnosis.snapshot import (
    ControllerLease,
    PodController,
    Snapshot,
)
from dra.kube.client import Client, Selection
from dra.kube.clock import SYSTEM, rfc3339
from dra.kube.discovery import Discovery
from dra.kube.errors import ApiError, Forbidden, NotFound
from dra.kube.resources import (
    CLAIMS,
    CONFIG_MAPS,
    DEVICE_CLASSES,
    EVENTS,
    NAMESPACES,
    NODE_METRICS,
    NODES,
    POD_DISRUPTION_BUDGETS,
    POD_MIGRATION_JOBS,
    PODS,
    PRIORITY_CLASSES,
    RESERVATIONS,
    RUNTIME_CLASSES,
    SLICES,
    TEMPLATES,
)
from dra.model.claims import ResourceClaim, WatchedClaim
from dra.model.device_classes import DeviceClass
from dra.model.diagnosed_pods import DiagnosedPod, PodEvent
from dra.model.meta import Key, ObjectMeta, PartialObjectMetadata, UnstructuredObject
from dra.model.node_pods import AgentNode, ConfigMap
from dra.model.preemption import PodDisruptionBudget, PriorityClass
from dra.model.references import GroupResource
from dra.model.runtime_classes import RuntimeClass
from dra.model.scheduling import SchedulerPod
from dra.model.slices import ManagedResourceSlice
from dra.model.taints import DeviceTaintRule
from dra.model.templates import ResourceClaimTemplate, WatchedTemplate

DEVICE_TAINT_RULES: Final = GroupResource(resource="devicetaintrules", group=SLICES.group)

COLOCATION_CONFIG: Final = f"configmaps {'/'.join(CONFIG_MAP)}"
"""Name of the ConfigMap of colocation among what could not be read."""

START_FAILURE_REASONS: Final = ("FailedPrepareDynamicResources", "FailedCreatePodSandBox")
"""Reasons of the kubelet's Events on pods whose devices, or whose sandbox with its devices, could not be made ready."""

EVENTS_MAX: Final = 2_000
"""Maximum number of Events of one reason that are read."""


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
        self._lists = ObjectLists(connection.client, namespace=namespace)
        known = lifecycles if lifecycles is not None else LifecycleCache()
        self.workloads = WorkloadReader(self._lists, self._discovery, known)

    async def read(self, scope: SnapshotScope, *, node: str = "") -> Snapshot:
        """Return the snapshot; raise ApiError if not even the claims can be read.

        ``node``: the node whose NodeMetric is read alone; of a large cluster, all of them have hundreds of megabytes.
        """
        wall = SYSTEM.wall()
        core, rest, optional_kinds = await asyncio.gather(
            asyncio.gather(
                self.list_claims(),
                self.list_pods() if SnapshotScope.PODS in scope else _no_objects(),
                self._lists.cluster_scoped(NODES, AgentNode) if SnapshotScope.NODES in scope else _no_objects(),
                self._lists.cluster_scoped(SLICES, ManagedResourceSlice)
                if SnapshotScope.DEVICES in scope
                else _no_objects(),
                self._lists.cluster_scoped(DEVICE_CLASSES, DeviceClass)
                if SnapshotScope.DEVICES in scope
                else _no_objects(),
            ),
            asyncio.gather(
                self._list_taint_rules() if SnapshotScope.DEVICES in scope else _no_objects(),
                self._lists.namespaced(TEMPLATES, WatchedTemplate)
                if SnapshotScope.TEMPLATES_AND_LEASE in scope
                else _no_objects(),
                lease_reader.read_controller_lease(self._client, self._lease)
                if SnapshotScope.TEMPLATES_AND_LEASE in scope
                else _unknown_lease(),
                self._client.git_version(),
            ),
            asyncio.gather(
                self._lists.if_served(RESERVATIONS, UnstructuredObject)
                if SnapshotScope.RESERVATIONS in scope
                else _kind_not_read(),
                self._lists.if_served(PRIORITY_CLASSES, PriorityClass)
                if SnapshotScope.PREEMPTION in scope
                else _kind_not_read(),
                self._lists.if_served(POD_DISRUPTION_BUDGETS, PodDisruptionBudget)
                if SnapshotScope.PREEMPTION in scope
                else _kind_not_read(),
                self._lists.if_served(POD_MIGRATION_JOBS, UnstructuredObject)
                if SnapshotScope.MIGRATIONS in scope
                else _kind_not_read(),
                lease_reader.read_descheduler_lease(self._client, self._lease[0])
                if SnapshotScope.MIGRATIONS in scope
                else _unknown_lease(),
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
        runtime_classes = await self._read_runtime_classes() if SnapshotScope.RUNTIME_CLASSES in scope else None
        claims, pods, nodes, slices, classes = core
        rules, templates, leader, version = rest
        reservations, priorities, budgets, migrations, descheduler = optional_kinds
        enabled = await self._read_namespaces() if SnapshotScope.NAMESPACES in scope else {}
        default_policy = (
            await controller_settings.read_default_cpu_bind_policy(self._client, namespace=self._lease[0])
            if SnapshotScope.NAMESPACES in scope
            else None
        )
        workloads = await self.workloads.look_up(claims) if SnapshotScope.WORKLOADS in scope else []
        controllers: list[PodController] = []
        if SnapshotScope.CONTROLLERS in scope:
            controllers = await self._read_controllers(
                pods, self._namespace if self._lists.limited_to_namespace else None
            )
        return Snapshot(
            taken=rfc3339(wall),
            server=version,
            namespace=self._namespace if self._lists.limited_to_namespace else None,
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
            runtime_classes=runtime_classes,
            reservations=None if reservations is None else tuple(reservations),
            migrations=None if migrations is None else tuple(migrations),
            node_metrics=None if node_metrics is None else tuple(node_metrics),
            colocation_config=colocation_config,
            enabled_namespaces=enabled,
            default_cpu_bind_policy=default_policy,
            descheduler=descheduler,
            workloads=tuple(workloads),
            controllers=tuple(controllers),
            gaps=tuple(self._lists.gaps),
        )

    async def list_claims(self) -> list[WatchedClaim]:
        """Read the claims; raise ApiError."""
        return await self._lists.namespaced(CLAIMS, WatchedClaim, needed=True)

    async def list_pods(self) -> list[SchedulerPod]:
        """Read the pods, as far as that is permitted."""
        return await self._lists.namespaced(PODS, self.pod_model)

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
        return msgspec.structs.replace(
            snapshot, controllers=tuple(controllers), gaps=tuple(self._lists.gaps)
        ), controller

    async def _read_controllers(self, pods: Iterable[SchedulerPod], namespace: str | None) -> list[PodController]:
        reader = ControllerReader(self._client, self._discovery, namespace=namespace)
        controllers = await reader.read_controllers(pods)
        self._lists.gaps += reader.gaps
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
                self._lists.cluster_scoped(DEVICE_CLASSES, DeviceClass),
                self._list_taint_rules(),
                self._lists.namespaced(TEMPLATES, PartialObjectMetadata),
                self._lists.if_served(POD_DISRUPTION_BUDGETS, PodDisruptionBudget),
            ),
            asyncio.gather(
                lease_reader.read_controller_lease(self._client, self._lease),
                lease_reader.read_descheduler_lease(self._client, self._lease[0]),
                self._client.git_version(),
            ),
            self._read_namespaces(),
            self._read_colocation_config() if colocation else _no_config(),
            self._list_start_failures(wanted),
            self.workloads.look_up(claims),
        )
        classes, rules, templates, budgets = kinds
        leader, descheduler, version = processes
        return Snapshot(
            taken=taken,
            server=version,
            namespace=self._namespace if self._lists.limited_to_namespace else None,
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
            gaps=tuple(self._lists.gaps),
        )

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
        self._lists.add_gap(EVENTS.label, error)
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

    async def _read_runtime_classes(self) -> tuple[RuntimeClass, ...] | None:
        """Return all RuntimeClasses; None without the right to list them, which is no gap: few pods name one."""
        try:
            return tuple(await self._lists.all(RUNTIME_CLASSES, RuntimeClass, None))
        except (Forbidden, NotFound):
            return None

    async def _read_namespaces(self) -> dict[str, bool]:
        """Return whether each namespace is enabled for translation; without the right to list, of the selected one."""
        try:
            namespaces = await self._lists.all(NAMESPACES, PartialObjectMetadata, None)
        except Forbidden as error:
            namespaces = []
            with suppress(ApiError):
                if self._namespace is not None:
                    namespaces = [await self._client.get(NAMESPACES, ("", self._namespace), PartialObjectMetadata)]
            if not namespaces:
                self._lists.add_gap(NAMESPACES.label, error)
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
                return await self._lists.all(NODE_METRICS, NodeReport, None)
            return [await self._client.get(NODE_METRICS, ("", node), NodeReport)]
        except NotFound:
            return []
        except ApiError as error:
            self._lists.add_gap(NODE_METRICS.label, error)
            return []

    async def _read_colocation_config(self) -> ConfigMap | None:
        """Return the ConfigMap with the strategies of colocation; None if there is none."""
        try:
            return await self._client.get(CONFIG_MAPS, CONFIG_MAP, ConfigMap)
        except NotFound:
            return None
        except ApiError as error:
            self._lists.add_gap(COLOCATION_CONFIG, error)
            return None

    async def _list_taint_rules(self) -> list[DeviceTaintRule]:
        """Read the DeviceTaintRules, in the version that is served, if any."""
        try:
            resource = await self._discovery.resolve(DEVICE_TAINT_RULES)
            if resource is not None:
                return await self._lists.all(resource, DeviceTaintRule, None)
        except Forbidden as error:
            self._lists.add_gap(str(DEVICE_TAINT_RULES), error)
        except ApiError:  # removed between the two requests, or discovery does not answer
            pass
        return []


def _identity(metadata: ObjectMeta) -> ObjectMeta:
    """Return the part of the metadata of a template that the page reads."""
    return ObjectMeta(name=metadata.name, namespace=metadata.namespace, uid=metadata.uid)


async def _no_objects() -> list[Any]:
    return []


async def _kind_not_read() -> list[Any] | None:
    return None


async def _no_config() -> ConfigMap | None:
    return None


async def _unknown_lease() -> ControllerLease:
    return ControllerLease()
