"""The pods of a cluster, by name and by workload; neither an event nor a question costs a scan.

A pod that has ended for good was replaced, or needs no replacement, and counts for no workload.
"""

from collections import Counter
from collections.abc import Iterable

from dra.engine.migration.view import MigrationPod
from dra.model.meta import Key, OwnerReference, Uid


class PodIndex:
    """Pods by namespace and name, and the numbers of each workload, by the uid of its pods' controller."""

    def __init__(self, pods: Iterable[MigrationPod] = ()) -> None:
        self._by_uid: dict[Uid, MigrationPod] = {}
        self._by_key: dict[Key, MigrationPod] = {}
        self._pods: Counter[Uid] = Counter()
        self._unavailable: Counter[Uid] = Counter()
        for pod in pods:
            self.observe(pod)

    def observe(self, pod: MigrationPod) -> None:
        """Add a pod, or replace its earlier state; an earlier pod of the same name no longer exists."""
        uid, key = pod.metadata.uid, pod.metadata.key
        self.forget(uid)
        if (named := self._by_key.get(key)) is not None:
            self.forget(named.metadata.uid)
        self._by_uid[uid] = self._by_key[key] = pod
        self._count(pod, 1)

    def forget(self, uid: Uid) -> None:
        """Remove a pod; another pod of its name stays."""
        pod = self._by_uid.pop(uid, None)
        if pod is not None:
            del self._by_key[pod.metadata.key]
            self._count(pod, -1)

    def by_key(self, key: Key) -> MigrationPod | None:
        """Return the pod of a namespace and name."""
        return self._by_key.get(key)

    def pods_of(self, workload: Uid) -> int:
        """Return the number of a workload's pods that have not ended."""
        return self._pods.get(workload, 0)

    def unavailable_of(self, workload: Uid) -> int:
        """Return the number of a workload's pods that have not ended, and are not ready or terminating."""
        return self._unavailable.get(workload, 0)

    def _count(self, pod: MigrationPod, change: int) -> None:
        workload = workload_of(pod)
        if not workload or pod.terminal:
            return
        for counts in (self._pods, self._unavailable) if is_unavailable(pod) else (self._pods,):
            counts[workload] += change
            if not counts[workload]:
                del counts[workload]


def controller_of(pod: MigrationPod) -> OwnerReference | None:
    """Return the controller of a pod; None for a bare pod."""
    return next((each for each in pod.metadata.owner_references or () if each.controller), None)


def workload_of(pod: MigrationPod) -> Uid:
    """Return the uid of the controller of a pod; empty for a bare pod."""
    owner = controller_of(pod)
    return Uid("") if owner is None else owner.uid


def is_ready(pod: MigrationPod) -> bool:
    """Return whether condition Ready of a pod is True."""
    ready = pod.condition("Ready")
    return ready is not None and ready.status == "True"


def is_unavailable(pod: MigrationPod) -> bool:
    """Return whether a pod is terminating, has ended or is not ready."""
    return pod.metadata.deleting or pod.terminal or not is_ready(pod)
