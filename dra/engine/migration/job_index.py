"""The index of jobs: which jobs an event of a pod, a Reservation or another job of the workload concerns.

All answers are in the order in which the jobs were added, so that nothing depends on hashes.
"""

from collections.abc import Hashable
from typing import Generic, TypeVar

from dra.api.migration.model import PodMigrationJob
from dra.api.object_fields import ObjectReference
from dra.engine.migration import exchange
from dra.engine.migration.arbitration import migrated_workload
from dra.engine.migration.pod_index import NamespacedUid
from dra.engine.migration.reserving import reservation_reference
from dra.model.meta import Key, Uid

K = TypeVar("K", bound=Hashable)
M = TypeVar("M", bound=str)


class Groups(Generic[K, M]):
    """Members by a key that several of them have, in the order in which they were added."""

    def __init__(self) -> None:
        self._members: dict[K, dict[M, None]] = {}

    def __len__(self) -> int:
        return len(self._members)

    def add(self, key: K, member: M) -> None:
        """Add a member to the group of a key."""
        self._members.setdefault(key, {})[member] = None

    def discard(self, key: K, member: M) -> None:
        """Remove a member from the group of a key, and the group with its last member."""
        members = self._members.get(key)
        if members is not None:
            members.pop(member, None)
            if not members:
                del self._members[key]

    def of(self, key: K) -> tuple[M, ...]:
        """Return the members with a key."""
        return tuple(self._members.get(key, ()))


class JobIndex:
    """Jobs by the objects that decisions about the jobs read."""

    def __init__(self) -> None:
        self.by_pod: Groups[Key, Uid] = Groups()
        self.by_reservation: Groups[str, Uid] = Groups()
        """Reservation → jobs that refer to the Reservation, or are to create it."""
        self.by_bound_pod: Groups[Key, Uid] = Groups()
        """Pod → jobs in whose Reservations the pod is."""
        self._bound_pods: dict[Uid, ObjectReference] = {}
        self.contenders: Groups[NamespacedUid | None, Uid] = Groups()
        """Workload → jobs that may exchange Reservations."""

    def add(self, uid: Uid, job: PodMigrationJob) -> None:
        """Add a job, without the pod in its Reservation."""
        self.by_pod.add(job.spec.pod_ref.key, uid)
        self.by_reservation.add(reservation_name(job), uid)
        if (workload := migrated_workload(job)) and exchange.is_undecided(job):
            self.contenders.add(workload, uid)

    def remove(self, uid: Uid, job: PodMigrationJob) -> None:
        """Remove a job that was added as it is; the pod in its Reservation stays."""
        self.by_pod.discard(job.spec.pod_ref.key, uid)
        self.by_reservation.discard(reservation_name(job), uid)
        self.contenders.discard(migrated_workload(job), uid)

    def bind(self, uid: Uid, pod: ObjectReference | None) -> bool:
        """Set the pod in a job's Reservation, None if there is none; return whether it is another one than before."""
        before = self._bound_pods.pop(uid, None)
        if before is not None:
            self.by_bound_pod.discard(before.key, uid)
        if pod is not None:
            self._bound_pods[uid] = pod
            self.by_bound_pod.add(pod.key, uid)
        return _identity(before) != _identity(pod)

    def bound_pod(self, uid: Uid) -> ObjectReference | None:
        """Return the pod in a job's Reservation; None if there is none."""
        return self._bound_pods.get(uid)


def reservation_name(job: PodMigrationJob) -> str:
    """Return the name of the Reservation of a job: the one that the job refers to, or else creates."""
    given = reservation_reference(job)
    return job.metadata.uid if given is None else given.name


def _identity(reference: ObjectReference | None) -> tuple[Key, str] | None:
    return None if reference is None else (reference.key, reference.uid)
