"""The pods of a cluster, by name, by uid and by workload; an event costs no scan."""

from collections.abc import Iterable

from dra.engine.migration.view import MigrationPod
from dra.model.meta import Key, OwnerReference, Uid


class PodIndex:
    """Pods by name, uid and controller."""

    def __init__(self, pods: Iterable[MigrationPod] = ()) -> None:
        self._by_uid: dict[Uid, MigrationPod] = {}
        self._by_key: dict[Key, MigrationPod] = {}
        self._by_workload: dict[Uid, dict[Uid, MigrationPod]] = {}
        for pod in pods:
            self.observe(pod)

    def observe(self, pod: MigrationPod) -> None:
        """Add a pod, or replace its earlier state."""
        uid = pod.metadata.uid
        before = self._by_uid.get(uid)
        if before is not None and (owner := controller_of(before)) is not None:
            self._leave_workload(owner.uid, uid)
        self._by_uid[uid] = pod
        self._by_key[pod.metadata.key] = pod
        if (owner := controller_of(pod)) is not None:
            self._by_workload.setdefault(owner.uid, {})[uid] = pod

    def forget(self, uid: Uid) -> None:
        """Remove a pod; another pod of its name stays."""
        pod = self._by_uid.pop(uid, None)
        if pod is None:
            return
        key = pod.metadata.key
        if (named := self._by_key.get(key)) is not None and named.metadata.uid == uid:
            del self._by_key[key]
        if (owner := controller_of(pod)) is not None:
            self._leave_workload(owner.uid, uid)

    def by_key(self, key: Key) -> MigrationPod | None:
        """Return the pod of a name; the latest one observed."""
        return self._by_key.get(key)

    def of_workload(self, uid: Uid) -> Iterable[MigrationPod]:
        """Return the pods whose controller has a uid."""
        return self._by_workload.get(uid, {}).values()

    def _leave_workload(self, workload: Uid, uid: Uid) -> None:
        members = self._by_workload.get(workload)
        if members is not None:
            members.pop(uid, None)
            if not members:
                del self._by_workload[workload]


def controller_of(pod: MigrationPod) -> OwnerReference | None:
    """Return the controller of a pod; None for a bare pod."""
    return next((each for each in pod.metadata.owner_references or () if each.controller), None)
