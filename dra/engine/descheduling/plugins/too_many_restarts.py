"""Evict pods whose containers were restarted too often: another node may have the volume, the driver, the memory."""

from collections.abc import Iterator

from dra.api.descheduler.pod_plugin_args import RemovePodsHavingTooManyRestartsArgs
from dra.engine.descheduling import pod_selection
from dra.engine.descheduling.pod_selection import Proposals
from dra.engine.descheduling.pods import DeschedulingPod
from dra.engine.descheduling.snapshot import Snapshot


class RemovePodsHavingTooManyRestarts:
    """Evicts pods with many restarts; on each node the pod with the most goes first."""

    name = "RemovePodsHavingTooManyRestarts"
    Args = RemovePodsHavingTooManyRestartsArgs

    def deschedule(self, snapshot: Snapshot, args: RemovePodsHavingTooManyRestartsArgs) -> Proposals:
        """Yield the pods whose containers have `podRestartThreshold` restarts or more together."""
        threshold = args.pod_restart_threshold
        for _, pods in pod_selection.selected_pods(snapshot, args, with_ended=True):
            counts = {pod.metadata.uid: _restarts(pod, args) for pod in pods}
            many = [pod for pod in pods if counts[pod.metadata.uid] >= threshold and _is_in_state(pod, args)]
            many = pod_selection.cheapest_first(many)
            for pod in sorted(many, key=lambda pod: -counts[pod.metadata.uid]):  # stable: of equals the cheapest first
                restarts = counts[pod.metadata.uid]
                yield pod_selection.removal(pod, f"{restarts} restarts, podRestartThreshold is {threshold}")
        return None


def _restarts(pod: DeschedulingPod, args: RemovePodsHavingTooManyRestartsArgs) -> int:
    statuses = pod_selection.container_statuses(pod, initial=args.including_init_containers)
    return sum(status.restart_count for status in statuses)


def _is_in_state(pod: DeschedulingPod, args: RemovePodsHavingTooManyRestartsArgs) -> bool:
    return not args.states or any(state in args.states for state in _states(pod, args))


def _states(pod: DeschedulingPod, args: RemovePodsHavingTooManyRestartsArgs) -> Iterator[str]:
    yield pod.status.phase
    for status in pod_selection.container_statuses(pod, initial=args.including_init_containers):
        if status.state is not None and status.state.waiting is not None:
            yield status.state.waiting.reason
