"""Chooses the pods that ``kubectl dra migrate`` moves, and names the pods that stay."""

from collections.abc import Sequence
from dataclasses import dataclass

from dra.api.migration.model import MigrationMode
from dra.api.rbac import NAMESPACE
from dra.cli.kubectl.connection import Connection, FailedError
from dra.cli.kubectl.migrations import migration_requests
from dra.cli.kubectl.migrations.migration_requests import MigrationRequest
from dra.engine.migration import node_pods
from dra.engine.migration.node_pods import StayingPod, StayReason
from dra.engine.migration.view import MigrationPod
from dra.kube.errors import NotFound
from dra.kube.resources import NODES, PODS
from dra.model.meta import Key
from dra.model.nodes import Node


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenPods:
    """The pods to migrate, evict-first, and the pods that stay."""

    pods: tuple[MigrationPod, ...]
    staying: tuple[StayingPod, ...] = ()
    node: Node | None = None
    """The node, if a whole node was named."""


async def choose_pods(connection: Connection, options: MigrateOptions) -> ChosenPods:
    """Return the pods that the command line names; raise FailedError if the object does not exist."""
    if options.kind == "node":
        try:
            node = await connection.client.get(NODES, ("", options.name), Node)
        except NotFound as error:
            raise FailedError(f"node {options.name}: not found. See: kubectl get nodes") from error
        found = await migration_requests.list_pods_of_node(connection.client, options.name)
        pods, staying = node_pods.select_pods(found)
        return ChosenPods(pods=evict_first(pods), staying=staying, node=node)
    key: Key = (options.namespace, options.name)
    try:
        pod = await connection.client.get(PODS, key, MigrationPod)
    except NotFound as error:
        raise FailedError(f"pod {'/'.join(key)}: not found. See: kubectl get pods -n {options.namespace}") from error
    reason = node_pods.stay_reason(pod)
    if reason is StayReason.BARE and (
        not pod.spec.node_name or options.request.mode == MigrationMode.EVICT_DIRECTLY.value
    ):
        reason = None  # the descheduler's configuration decides
    if reason is not None:
        return ChosenPods(pods=(), staying=(StayingPod(pod=pod, reason=reason),))
    return ChosenPods(pods=(pod,))


def evict_first(pods: Sequence[MigrationPod]) -> tuple[MigrationPod, ...]:
    """Return pods in the order in which they are evicted: of lower priority first, then newer pods."""
    newest_first = sorted(pods, key=lambda pod: pod.metadata.creation_timestamp, reverse=True)
    return tuple(sorted(newest_first, key=lambda pod: pod.spec.priority))
