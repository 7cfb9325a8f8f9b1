"""The cache of migrations: jobs, Reservations and pods, with the indexes that tell which jobs an event concerns.

Watches fill the cache; the responses to writes come first, so that the next decision sees them. What only a live read
shows is kept apart for each job (`LiveReads`): the watch may skip an object that was created and deleted between two
lists, and such an object must not stay.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from dra.api.migration.model import (
    MalformedPodMigrationJobError,
    MigrationPhase,
    PodMigrationJob,
    parse_pod_migration_job,
)
from dra.api.reservations.model import MalformedReservationError, Reservation, parse_reservation
from dra.engine.instants import Instant, WallTime
from dra.engine.migration.arbitration import ArbitrationView
from dra.engine.migration.decide import ENDED_PHASES
from dra.engine.migration.pod_index import PodIndex
from dra.engine.migration.view import ClaimReach, JobView, MigrationPod, unreadable_job
from dra.model.meta import Key, Uid, UnstructuredObject
from dra.model.preemption import PodDisruptionBudget, PodUnavailableBudget
from dra.model.resource_versions import is_newer

LIVE_POD_SECONDS: Final = 60.0
"""Seconds for which a pod that only a live read showed counts as present; then the pod is read again."""


class CachedJob(msgspec.Struct, frozen=True, gc=False):
    """A job as last seen."""

    job: PodMigrationJob
    parse_error: str = ""


class LiveReads(msgspec.Struct, gc=False):
    """The results of live reads and writes for one job, which no watch repeats."""

    pod: MigrationPod | None = None
    """A pod that the watch does not show, and when it was read."""
    pod_read_at: Instant = 0.0
    pod_gone: bool = False
    pod_template: dict[str, Any] | None = None
    claims: tuple[ClaimReach, ...] = ()
    reservation_gone: bool = False
    bound_pod: MigrationPod | None = None
    bound_pod_gone: bool = False
    create_error: str = ""
    evict_error: str = ""
    evict_failed_at: WallTime = 0.0
    evicted: Uid = Uid("")


class JobCache:
    """Jobs, Reservations, pods and budgets, and the jobs that have to be decided again."""

    def __init__(self) -> None:
        self.pods = PodIndex()
        self.changed: set[Uid] = set()
        """Jobs that have to be decided again."""
        self.arbitration_due = False
        """Whether something changed that arbitration reads."""
        self.disruption_budgets: dict[Key, PodDisruptionBudget] = {}
        self.unavailable_budgets: dict[Key, PodUnavailableBudget] = {}
        self._jobs: dict[Uid, CachedJob] = {}
        self._live: dict[Uid, LiveReads] = {}
        self._reservations: dict[str, Reservation] = {}
        self._by_pod: defaultdict[Key, set[Uid]] = defaultdict(set)
        self._by_reservation: defaultdict[str, set[Uid]] = defaultdict(set)
        self._by_bound_pod: defaultdict[Key, set[Uid]] = defaultdict(set)
        self._bound_pods: dict[Uid, Key] = {}
        """Job → key in `_by_bound_pod`."""

    # Jobs

    def uids(self) -> Iterator[Uid]:
        """Yield the uids of all jobs."""
        yield from self._jobs

    def job(self, uid: Uid) -> PodMigrationJob | None:
        """Return a job by its uid; None if there is none."""
        found = self._jobs.get(uid)
        return None if found is None else found.job

    def live(self, uid: Uid) -> LiveReads:
        """Return what live reads showed for a job."""
        found = self._live.get(uid)
        if found is None:
            found = self._live[uid] = LiveReads()
        return found

    def observe_job(self, obj: UnstructuredObject) -> None:
        """Record a job from a watch, a read, or the response to a write; an older version is ignored."""
        uid = obj.metadata.uid
        before = self._jobs.get(uid)
        if before is not None and not is_newer(obj.metadata.resource_version, before.job.metadata.resource_version):
            return
        try:
            found = CachedJob(parse_pod_migration_job(obj.content))
        except MalformedPodMigrationJobError as error:
            found = CachedJob(unreadable_job(obj.content), parse_error=str(error))
        if before is not None:
            self._unindex(uid, before.job)
        self._jobs[uid] = found
        self._by_pod[_pod_key(found.job)].add(uid)
        self._by_reservation[_reservation_name(found.job)].add(uid)
        self._index_bound_pod(uid)
        if found.job.status.phase in ENDED_PHASES:
            self._live.pop(uid, None)
        self.changed.add(uid)
        self.arbitration_due = True

    def forget_job(self, uid: Uid) -> None:
        """Remove a job that is certainly deleted."""
        found = self._jobs.pop(uid, None)
        if found is None:
            return
        self._unindex(uid, found.job)
        self._drop_bound_pod(uid)
        self._live.pop(uid, None)
        self.arbitration_due = True

    def _unindex(self, uid: Uid, job: PodMigrationJob) -> None:
        _discard(self._by_pod, _pod_key(job), uid)
        _discard(self._by_reservation, _reservation_name(job), uid)

    def _index_bound_pod(self, uid: Uid) -> None:
        self._drop_bound_pod(uid)
        found = self._jobs.get(uid)
        key = None if found is None else self._find_bound_pod(found.job)
        if key is not None:
            self._bound_pods[uid] = key
            self._by_bound_pod[key].add(uid)

    def _drop_bound_pod(self, uid: Uid) -> None:
        if (key := self._bound_pods.pop(uid, None)) is not None:
            _discard(self._by_bound_pod, key, uid)

    def _find_bound_pod(self, job: PodMigrationJob) -> Key | None:
        if job.status.pod_ref is not None and job.status.pod_ref.name:
            return (job.status.pod_ref.namespace, job.status.pod_ref.name)
        reservation = self._reservations.get(_reservation_name(job))
        owner = next(iter(reservation.status.current_owners), None) if reservation is not None else None
        return None if owner is None else (owner.namespace, owner.name)

    # Reservations

    def observe_reservation(self, obj: UnstructuredObject) -> None:
        """Record a Reservation from a watch, a read, or the response to a write; an older version is ignored.

        A Reservation that cannot be read holds nothing that a job could rely on, and counts as absent.
        """
        name = obj.metadata.name
        before = self._reservations.get(name)
        is_same = before is not None and before.metadata.uid == obj.metadata.uid
        if before is not None and is_same:
            version = before.metadata.resource_version
            if obj.metadata.resource_version != version and not is_newer(obj.metadata.resource_version, version):
                return
        try:
            self._reservations[name] = parse_reservation(obj.content)
        except MalformedReservationError:
            self._reservations.pop(name, None)
        self._reservation_changed(name, gone=False)

    def forget_reservation(self, name: str, uid: Uid) -> None:
        """Remove a Reservation that is certainly deleted."""
        found = self._reservations.get(name)
        if found is not None and found.metadata.uid == uid:
            del self._reservations[name]
            self._reservation_changed(name, gone=True)

    def _reservation_changed(self, name: str, *, gone: bool) -> None:
        for uid in tuple(self._by_reservation.get(name, ())):
            if not gone and uid in self._live:
                self._live[uid].reservation_gone = False
            self._index_bound_pod(uid)
            self.changed.add(uid)

    # Pods

    def observe_pod(self, pod: MigrationPod) -> None:
        """Record a pod from the watch."""
        self.pods.observe(pod)
        key = pod.metadata.key
        for uid in self._by_pod.get(key, ()):
            if (live := self._live.get(uid)) is not None:
                live.pod_gone, live.pod = False, None
                if live.pod_template is not None and live.pod_template["metadata"].get("uid") != pod.metadata.uid:
                    live.pod_template = None
            self.changed.add(uid)
        for uid in self._by_bound_pod.get(key, ()):
            if (live := self._live.get(uid)) is not None:
                live.bound_pod_gone, live.bound_pod = False, None
            self.changed.add(uid)
        self.arbitration_due = True

    def forget_pod(self, pod: MigrationPod) -> None:
        """Remove a pod that is certainly deleted."""
        self.pods.forget(pod.metadata.uid)
        key = pod.metadata.key
        is_gone = self.pods.by_key(key) is None
        for uid in self._by_pod.get(key, ()):
            self.live(uid).pod_gone = is_gone
            self.changed.add(uid)
        for uid in self._by_bound_pod.get(key, ()):
            self.live(uid).bound_pod_gone = is_gone
            self.changed.add(uid)
        self.arbitration_due = True

    # Budgets

    def observe_disruption_budget(self, budget: PodDisruptionBudget) -> None:
        """Record a PodDisruptionBudget from the watch."""
        self.disruption_budgets[budget.metadata.key] = budget
        self.arbitration_due = True

    def forget_disruption_budget(self, budget: PodDisruptionBudget) -> None:
        """Remove a PodDisruptionBudget that is deleted."""
        self.disruption_budgets.pop(budget.metadata.key, None)
        self.arbitration_due = True

    def observe_unavailable_budget(self, budget: PodUnavailableBudget) -> None:
        """Record a PodUnavailableBudget of OpenKruise."""
        self.unavailable_budgets[budget.metadata.key] = budget
        self.arbitration_due = True

    def forget_unavailable_budget(self, budget: PodUnavailableBudget) -> None:
        """Remove a PodUnavailableBudget of OpenKruise."""
        self.unavailable_budgets.pop(budget.metadata.key, None)
        self.arbitration_due = True

    # Views

    def bound_pod_key(self, uid: Uid) -> Key | None:
        """Return the namespace and name of the pod in a job's Reservation; None if there is none."""
        return self._bound_pods.get(uid)

    def view(self, uid: Uid, *, now: Instant) -> JobView | None:
        """Return everything that a decision about a job reads; None if the job is gone."""
        found = self._jobs.get(uid)
        if found is None:
            return None
        job, live = found.job, self._live.get(uid) or LiveReads()
        key = _pod_key(job)
        pod = self.pods.by_key(key)
        if pod is None and live.pod is not None and now < live.pod_read_at + LIVE_POD_SECONDS:
            pod = live.pod
        bound_key = self._bound_pods.get(uid)
        bound = None if bound_key is None else self.pods.by_key(bound_key)
        return JobView(
            job=job,
            parse_error=found.parse_error,
            pod=pod,
            pod_gone=live.pod_gone and pod is None,
            pod_template=live.pod_template,
            claims=live.claims,
            reservation=self._reservations.get(_reservation_name(job)),
            reservation_gone=live.reservation_gone,
            bound_pod=bound or live.bound_pod,
            bound_pod_gone=live.bound_pod_gone and bound is None,
            create_error=live.create_error,
            evict_error=live.evict_error,
            evict_failed_at=live.evict_failed_at,
            evicted=live.evicted,
        )

    def arbitration_view(self) -> ArbitrationView:
        """Return everything that arbitration reads, except for the replicas of workloads."""
        return ArbitrationView(
            jobs=tuple(
                each.job
                for each in self._jobs.values()
                if not each.parse_error and each.job.metadata.deletion_timestamp is None
            ),
            pods=self.pods,
            replicas={},
            disruption_budgets=tuple(self.disruption_budgets.values()),
            unavailable_budgets=tuple(self.unavailable_budgets.values()),
        )

    def count_by_phase(self) -> Counter[tuple[str, str]]:
        """Return the number of jobs by phase and, for jobs that failed or wait, reason."""
        found: Counter[tuple[str, str]] = Counter()
        for each in self._jobs.values():
            status = each.job.status
            found[(status.phase.value, status.reason if status.phase is not MigrationPhase.SUCCEEDED else "")] += 1
        return found


def _pod_key(job: PodMigrationJob) -> Key:
    return (job.spec.pod_ref.namespace, job.spec.pod_ref.name)


def _reservation_name(job: PodMigrationJob) -> str:
    options = job.spec.reservation_options
    given = options.reservation_ref if options is not None else None
    return given.name if given is not None and given.name else job.metadata.uid


def _discard(index: defaultdict[Any, set[Uid]], key: object, uid: Uid) -> None:
    members = index.get(key)
    if members is not None:
        members.discard(uid)
        if not members:
            del index[key]
