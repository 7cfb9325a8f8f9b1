"""The pods that a plugin looks at: by node, namespace, labels and owners; and the order in which they are to go.

Pods on nodes that are not ready stay: nobody there ends them, and kube-controller-manager handles such nodes. Pods that
are being deleted are on their way already. Pods without a node have nothing to leave.
"""

from collections.abc import Generator, Iterable, Iterator
from typing import Any, Final, TypeAlias

from dra.api.descheduler.pod_plugin_args import SelectedPodsArgs
from dra.api.migration.well_known import ANNOTATION_POD_DELETION_COST
from dra.engine.descheduling.plugin import Evict, Verdict
from dra.engine.descheduling.pods import DeschedulingContainerStatus, DeschedulingPod
from dra.engine.descheduling.snapshot import Snapshot, SnapshotNode
from dra.engine.migration.order import eviction_cost, parse_cost
from dra.engine.migration.pod_state import created_at
from dra.model.pods import TERMINAL_PHASES

Proposals: TypeAlias = Generator[Evict, Verdict, str | None]
"""Candidates that a plugin yields one after the other; the text that it returns is a note of the round."""

_QOS_RANKS: Final = {"BestEffort": 0, "Burstable": 1, "Guaranteed": 2}


def selects(args: SelectedPodsArgs, pod: DeschedulingPod) -> bool:
    """Return whether the arguments of a plugin select a pod, by its namespace and its labels."""
    selector = args.label_selector
    return args.namespaces.selects(pod.metadata.namespace) and (
        selector is None or selector.selects(pod.metadata.labels or {})
    )


def selected_pods(
    snapshot: Snapshot, args: SelectedPodsArgs, *, with_ended: bool = False
) -> Iterator[tuple[SnapshotNode, list[DeschedulingPod]]]:
    """Yield each ready node of the profile, by name, with the pods there that the arguments select.

    ``with_ended``: pods in phase Succeeded or Failed are selected as well.
    """
    every = args.label_selector is None and not (args.namespaces.include or args.namespaces.exclude)
    for host in snapshot.selected_nodes():
        pods = [
            pod
            for pod in host.pods.values()
            if pod.metadata.deletion_timestamp
            is None  # as `deleting` and `terminal`, of which a round asks a million times
            and (with_ended or pod.status.phase not in TERMINAL_PHASES)
            and (every or selects(args, pod))
        ]
        if pods:
            yield host, pods


def cheapest_first(pods: Iterable[DeschedulingPod]) -> list[DeschedulingPod]:
    """Return pods in the order in which they are to be evicted."""
    return sorted(pods, key=eviction_rank)


def eviction_rank(pod: DeschedulingPod) -> tuple[Any, ...]:
    """Return the rank of a pod among pods to evict; the pod with the smallest rank goes first.

    Low priority before high, BestEffort before Burstable before Guaranteed (the community's descheduler), then low
    eviction costs, then young pods; the name makes the order total.
    """
    return (
        pod.spec.priority,
        _QOS_RANKS.get(pod.status.qos_class, 0),
        parse_cost(pod.metadata.annotation(ANNOTATION_POD_DELETION_COST)),
        eviction_cost(pod),
        -created_at(pod),
        *pod.metadata.key,
    )


def owner_kinds(pod: DeschedulingPod) -> list[str]:
    """Return the kinds of all owners of a pod, its controller among them."""
    return [owner.kind for owner in pod.metadata.owner_references or ()]


def removal(pod: DeschedulingPod, reason: str) -> Evict:
    """Return the candidate for a pod that is to go wherever it would run.

    A pod that has ended was replaced already or needs no replacement, and no controller replaces a bare pod: for both
    no place is held.
    """
    return Evict(pod, reason, needs_place=not pod.terminal and pod.metadata.controller is not None)


def container_statuses(
    pod: DeschedulingPod, *, initial: bool, ephemeral: bool = False
) -> Iterator[DeschedulingContainerStatus]:
    """Yield the statuses of a pod's containers; those of init and ephemeral containers if they are asked for."""
    status = pod.status
    yield from status.container_statuses or ()
    if initial:
        yield from status.init_container_statuses or ()
    if ephemeral:
        yield from status.ephemeral_container_statuses or ()


def state_reasons(statuses: Iterable[DeschedulingContainerStatus]) -> Iterator[str]:
    """Yield the reasons for which containers wait or have ended; empty ones are left out."""
    for status in statuses:
        if status.state is not None:
            for state in (status.state.waiting, status.state.terminated):
                if state is not None and state.reason:
                    yield state.reason


def exit_codes(statuses: Iterable[DeschedulingContainerStatus]) -> Iterator[int]:
    """Yield the exit codes of containers that have ended."""
    for status in statuses:
        if status.state is not None and status.state.terminated is not None:
            yield status.state.terminated.exit_code
