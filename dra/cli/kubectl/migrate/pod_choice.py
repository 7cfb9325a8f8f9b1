"""Chooses the pods that ``kubectl dra migrate`` moves, and names the pods that stay."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from dra.api.koordinator.well_known import ENABLED, LABEL_ENABLED
from dra.api.migration.model import MigrationMode
from dra.api.rbac import NAMESPACE
from dra.cli.kubectl.connection import Connection
from dra.cli.kubectl.failures import FailedError
from dra.cli.kubectl.migrations import migration_requests
from dra.engine.kube_scheduler.pod_requests import pod_requests
from dra.engine.migration import node_pods
from dra.engine.migration.job_manifests import MigrationRequest
from dra.engine.migration.node_pods import StayingPod, StayReason
from dra.engine.migration.order import evict_first_key
from dra.engine.migration.view import MigrationPod
from dra.engine.translation.translated_pods import lacks_cpu_claim
from dra.kube.client import Selection
from dra.kube.errors import NotFound
from dra.kube.resources import NAMESPACES, NODES, PODS
from dra.model.meta import Key, PartialObjectMetadata, Uid, UnstructuredObject
from dra.model.nodes import Node
from dra.model.quantities import PODS as PODS_AMOUNT
from dra.model.scheduling import SchedulerPod


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrateOptions:
    """The checked options of ``kubectl dra migrate``."""

    kind: str
    name: str
    namespace: str
    request: MigrationRequest
    lease_namespace: str = NAMESPACE
    timeout_seconds: float = 0.0
    wait: bool = True
    cordon: bool = False
    without_cpus: bool = False
    """Whether only the pods of a node are chosen that would get a claim for CPUs if they were created now."""

    configuration_path: Path | None = None
    """File whose limits and rules a dry run assumes; None: those of the installed descheduler."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenPods:
    """The pods to migrate, evict-first, and the pods that stay."""

    pods: tuple[MigrationPod, ...]
    staying: tuple[StayingPod, ...] = ()
    node: Node | None = None
    """The node, if a whole node was named."""

    without_requests: frozenset[Uid] = frozenset()
    """Pods that request neither resources nor devices: there is no room to hold for them."""

    def options_for(self, pod: MigrationPod, request: MigrationRequest) -> MigrationRequest:
        """Return the options of a pod's job; without a given mode, a pod that requests nothing is evicted directly."""
        if request.mode or pod.metadata.uid not in self.without_requests:
            return request
        return msgspec.structs.replace(request, mode=MigrationMode.EVICT_DIRECTLY.value)


async def choose_pods(connection: Connection, options: MigrateOptions) -> ChosenPods:
    """Return the pods that the command line names; raise FailedError if the object does not exist."""
    if options.kind == "node":
        try:
            node = await connection.client.get(NODES, ("", options.name), Node)
        except NotFound as error:
            raise FailedError(f"node {options.name}: not found. See: kubectl get nodes") from error
        objects = await migration_requests.list_pods_of_node(connection.client, options.name)
        if options.without_cpus:
            objects = await _without_cpus(connection, objects)
        pods, staying = node_pods.select_pods(
            msgspec.convert(pod_object.content, MigrationPod) for pod_object in objects
        )
        return ChosenPods(
            pods=_evict_first(pods), staying=staying, node=node, without_requests=_without_requests(objects)
        )
    key: Key = (options.namespace, options.name)
    try:
        content = await connection.client.get(PODS, key, UnstructuredObject)
    except NotFound as error:
        raise FailedError(f"pod {'/'.join(key)}: not found. See: kubectl get pods -n {options.namespace}") from error
    pod = msgspec.convert(content.content, MigrationPod)
    reason = node_pods.stay_reason(pod)
    if reason is StayReason.BARE and (
        not pod.spec.node_name or options.request.mode == MigrationMode.EVICT_DIRECTLY.value
    ):
        reason = None  # the descheduler's configuration decides
    if reason is not None:
        return ChosenPods(pods=(), staying=(StayingPod(pod=pod, reason=reason),))
    return ChosenPods(pods=(pod,), without_requests=_without_requests([content]))


async def _without_cpus(connection: Connection, objects: Iterable[UnstructuredObject]) -> list[UnstructuredObject]:
    """Return the pods without a claim for CPUs whose replacements get one: those of enabled namespaces."""
    enabled: set[str] = set()
    selection = Selection(labels=f"{LABEL_ENABLED}={ENABLED}")
    async for page in connection.client.list_pages(NAMESPACES, PartialObjectMetadata, selection=selection):
        enabled.update(namespace.metadata.name for namespace in page.items)
    return [pod for pod in objects if pod.metadata.namespace in enabled and lacks_cpu_claim(pod.content)]


def _evict_first(pods: Iterable[MigrationPod]) -> tuple[MigrationPod, ...]:
    """Return pods in the order in which arbitration takes the jobs of equal age."""
    return tuple(sorted(pods, key=lambda pod: (evict_first_key(pod), pod.metadata.key)))


def _without_requests(objects: Iterable[UnstructuredObject]) -> frozenset[Uid]:
    """Return the pods that request neither resources nor devices."""
    pods = (msgspec.convert(pod_object.content, SchedulerPod) for pod_object in objects)
    return frozenset(
        pod.metadata.uid
        for pod in pods
        if not pod.spec.resource_claims and not any(a for name, a in pod_requests(pod).items() if name != PODS_AMOUNT)
    )
