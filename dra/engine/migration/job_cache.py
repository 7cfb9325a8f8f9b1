"""The cache of migrations: jobs, Reservations and pods, with the indexes that tell which jobs an event concerns.

Watches fill the cache; the responses to writes come first, so that the next decision sees them. What only a live read
shows is kept apart for each job (`LiveReads`): the watch may skip an object that was created and deleted between two
lists, and such an object must not stay.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from dra.api.migration.model import (
    ENDED_PHASES,
    MalformedPodMigrationJobError,
    MigrationPhase,
    PodMigrationJob,
    parse_pod_migration_job,
)
from dra.api.migration.well_known import ANNOTATION_EVICT_TRIGGER, ANNOTATION_JOB_CREATED_BY, ANNOTATION_PROFILE
from dra.api.object_fields import ObjectReference
from dra.api.reservations.model import MalformedReservationError, Reservation, parse_reservation
from dra.engine.dirty_keys import Cache, DirtyKeys
from dra.engine.instants import NEVER, Instant
from dra.engine.migration import exchange
from dra.engine.migration.approval import needs_approval
from dra.engine.migration.arbitration import ArbitrationView, is_waiting, migrated_workload
from dra.engine.migration.arbitration_input import ArbitrationInput
from dra.engine.migration.job_index import Groups, JobIndex, reservation_name
from dra.engine.migration.live_reads import LiveReads, LookedAtPod
from dra.engine.migration.pod_index import NamespacedUid, PodIndex
from dra.engine.migration.reservation_fit import is_used
from dra.engine.migration.reservation_manifest import is_created_by
from dra.engine.migration.view import ClaimReach, JobView, MigrationPod, Sibling, unreadable_job
from dra.model.deleted_uids import DeletedUids
from dra.model.meta import Key, Uid, UnstructuredObject, content_fault
from dra.model.resource_versions import is_newer, is_older, list_covers


class CachedJob(msgspec.Struct, frozen=True, gc=False):
    """A job as last seen."""

    job: PodMigrationJob
    parse_error: str = ""
    is_too_large: bool = False

    @property
    def is_waiting(self) -> bool:
        """Whether the job waits for arbitration."""
        return not self.parse_error and self.job.metadata.deletion_timestamp is None and is_waiting(self.job)


class JobCache(Cache[Uid]):
    """Jobs, Reservations and pods, and the jobs that have to be decided again."""

    def __init__(self) -> None:
        self.pods = PodIndex()
        self.dirty: DirtyKeys[Uid] = DirtyKeys()
        self.arbitration = ArbitrationInput()
        self._jobs: dict[Uid, CachedJob] = {}
        self._live: dict[Uid, LiveReads] = {}
        self._reservations: dict[str, Reservation] = {}
        self._index = JobIndex()
        self._used: Groups[NamespacedUid | None, str] = Groups()
        """Workload → Reservations of its jobs that are used by a pod which no job has recorded."""
        self._unwatched_jobs: set[Uid] = set()
        self._unwatched_reservations: set[str] = set()
        """Objects that only reads and writes have shown; a list of the watch without one of them proves its end."""
        self._undeletable: dict[str, Instant] = {}
        """Uid of a Reservation that the API server forbids to delete → when the deletion may be tried again."""
        self._sources: dict[str, frozenset[str]] = {}
        """``PROFILE/PLUGIN`` → the nodes that the plugin took pods from in the last round."""
        self._gone = DeletedUids()
        """Jobs and Reservations that are certainly deleted, the latest ones."""

    def mark_all_dirty(self) -> None:
        """Mark all jobs, and arbitration, which decides about all of them."""
        self.dirty.update(self._jobs)
        self.arbitration.is_due = True

    # Jobs

    def uids(self) -> Iterator[Uid]:
        """Yield the uids of all jobs."""
        yield from self._jobs

    def job(self, uid: Uid) -> PodMigrationJob | None:
        """Return a job by its uid; None if there is none."""
        cached = self._jobs.get(uid)
        return None if cached is None else cached.job

    def live(self, uid: Uid) -> LiveReads:
        """Return what live reads showed for a job; nothing is kept for a job that has ended or is gone."""
        live = self._live.get(uid)
        if live is None:
            live = LiveReads()
            job = self.job(uid)
            if job is not None and job.status.phase not in ENDED_PHASES:
                self._live[uid] = live
        return live

    def watch_job(self, obj: UnstructuredObject) -> None:
        """Record a job from the watch."""
        self.observe_job(obj)
        self._unwatched_jobs.discard(obj.metadata.uid)

    def watch_job_end(self, obj: UnstructuredObject) -> None:
        """Remove a job whose deletion the watch has shown."""
        self.forget_job(obj.metadata.uid)

    def jobs_listed(self, version: str) -> None:
        """Remove the jobs that the watch has not shown up to the version of its list."""
        for uid in sorted(self._unwatched_jobs):
            job = self.job(uid)
            if job is not None and list_covers(version, job.metadata.resource_version):
                self.forget_job(uid)

    def observe_job(self, obj: UnstructuredObject) -> None:
        """Record a job from a read, or the response to a write; an older version, or a deleted job, is ignored."""
        uid = obj.metadata.uid
        if uid in self._gone:
            return
        before = self._jobs.get(uid)
        if before is not None and not is_newer(obj.metadata.resource_version, before.job.metadata.resource_version):
            return
        try:
            cached = CachedJob(parse_pod_migration_job(obj.content))
        except MalformedPodMigrationJobError as error:
            cached = CachedJob(
                unreadable_job(obj.content), parse_error=str(error), is_too_large=bool(content_fault(obj.content))
            )
        if before is not None:
            self._index.remove(uid, before.job)
        else:
            self._unwatched_jobs.add(uid)
        self._jobs[uid] = cached
        self._index.add(uid, cached.job)
        self._index_bound_pod(uid)
        for name in (uid, *self._used.of(migrated_workload(cached.job))):
            self._update_used(name)
        if cached.job.status.phase in ENDED_PHASES:
            self._live.pop(uid, None)
        self.dirty.add(uid)
        self._mark_siblings(cached.job)
        self.arbitration.job_changed(uid, is_waiting=cached.is_waiting)

    def forget_job(self, uid: Uid) -> None:
        """Remove a job that is certainly deleted."""
        self._gone.add(uid)
        self._unwatched_jobs.discard(uid)
        cached = self._jobs.pop(uid, None)
        if cached is None:
            return
        self._index.remove(uid, cached.job)
        self._used.discard(migrated_workload(cached.job), uid)
        self._mark_siblings(cached.job)
        self._index.bind(uid, None)
        self._live.pop(uid, None)
        self.arbitration.job_changed(uid, is_waiting=False)

    def _mark_siblings(self, job: PodMigrationJob) -> None:
        """Mark the jobs whose decisions may depend on a job that has changed, or on the pod in its Reservation."""
        self.dirty.update(self._index.contenders.of(migrated_workload(job)))
        if (creator := Uid(reservation_name(job))) in self._jobs:
            self.dirty.add(creator)

    def _update_used(self, name: str) -> None:
        """Record whether a Reservation that a job created is used by a pod which no job has recorded."""
        creator, reservation = self._jobs.get(Uid(name)), self._reservations.get(name)
        if creator is None or not (workload := migrated_workload(creator.job)):
            return
        is_own = reservation is not None and is_created_by(creator.job, reservation)
        if (
            reservation is None
            or not is_own
            or not is_used(reservation)
            or self._is_any_recorded(reservation.status.current_owners)
        ):
            self._used.discard(workload, name)
        else:
            self._used.add(workload, name)

    def _index_bound_pod(self, uid: Uid) -> None:
        cached = self._jobs.get(uid)
        is_other = self._index.bind(uid, None if cached is None else self._find_bound_pod(cached.job))
        if is_other and (live := self._live.get(uid)) is not None:
            live.bound_pod, live.bound_pod_gone = None, False

    def _find_bound_pod(self, job: PodMigrationJob) -> ObjectReference | None:
        if job.status.pod_ref is not None and job.status.pod_ref.name:
            return job.status.pod_ref
        reservation = self._reservations.get(reservation_name(job))
        return next(iter(reservation.status.current_owners), None) if reservation is not None else None

    # Reservations

    def has_reservation(self, name: str) -> bool:
        """Return whether a Reservation exists that can be read."""
        return name in self._reservations

    def watch_reservation(self, obj: UnstructuredObject) -> None:
        """Record a Reservation from the watch."""
        self.observe_reservation(obj)
        self._unwatched_reservations.discard(obj.metadata.name)

    def watch_reservation_end(self, obj: UnstructuredObject) -> None:
        """Remove a Reservation whose deletion the watch has shown."""
        self.forget_reservation(obj.metadata.name, obj.metadata.uid)

    def reservations_listed(self, version: str) -> None:
        """Remove the Reservations that the watch has not shown up to the version of its list."""
        for name in sorted(self._unwatched_reservations):
            reservation = self._reservations.get(name)
            if reservation is not None and list_covers(version, reservation.metadata.resource_version):
                self.forget_reservation(name, Uid(reservation.metadata.uid))

    def observe_reservation(self, obj: UnstructuredObject) -> None:
        """Record a Reservation from a read, or the response to a write; an older version, or a deleted one, is ignored.

        A Reservation that cannot be read holds nothing that a job could rely on, and counts as absent.
        """
        if obj.metadata.uid in self._gone:
            return
        name = obj.metadata.name
        before = self._reservations.get(name)
        is_same = before is not None and before.metadata.uid == obj.metadata.uid
        if before is not None and is_same:
            version = before.metadata.resource_version
            if obj.metadata.resource_version == version:
                jobs = self._index.by_reservation.of(name)
                if not any(self._live[uid].reservation_gone for uid in jobs if uid in self._live):
                    return  # the same once more changes no decision, and must not make a job due that waits for a retry
            elif not is_newer(obj.metadata.resource_version, version):
                return
        if not is_same:
            self._unwatched_reservations.add(name)
        try:
            self._reservations[name] = parse_reservation(obj.content)
        except MalformedReservationError:
            self._reservations.pop(name, None)
        self._reservation_changed(name, gone=False)

    def keep_reservation(self, uid: Uid, *, until: Instant) -> None:
        """Record that the API server forbids to delete a Reservation: an earlier attempt would have the same answer."""
        self._undeletable[uid] = until

    def forget_reservation(self, name: str, uid: Uid) -> None:
        """Remove a Reservation that is certainly deleted."""
        self._undeletable.pop(uid, None)
        self._gone.add(uid)
        self._unwatched_reservations.discard(name)
        reservation = self._reservations.get(name)
        if reservation is not None and reservation.metadata.uid == uid:
            del self._reservations[name]
            self._reservation_changed(name, gone=True)

    def _reservation_changed(self, name: str, *, gone: bool) -> None:
        for uid in self._index.by_reservation.of(name):
            if not gone and uid in self._live:
                self._live[uid].reservation_gone = False
            self._index_bound_pod(uid)
            self.dirty.add(uid)
            self._mark_siblings(self._jobs[uid].job)
        self._update_used(name)
        if (creator := self._jobs.get(Uid(name))) is not None:
            self._mark_siblings(creator.job)

    # Pods

    def observe_pod(self, pod: MigrationPod) -> None:
        """Record a pod from the watch."""
        key = pod.metadata.key
        known = self.pods.by_key(key)
        if known is None or not _is_older_version(pod, known):  # a live read may have shown a newer version
            self.pods.observe(pod)
        for uid in self._index.by_pod.of(key):
            if (live := self._live.get(uid)) is not None:
                live.pod_gone, live.pod = False, None
                if live.pod_template is not None and live.pod_template["metadata"].get("uid") != pod.metadata.uid:
                    live.pod_template = None
            self.dirty.add(uid)
        for uid in self._index.by_bound_pod.of(key):
            if (live := self._live.get(uid)) is not None:
                live.bound_pod_gone, live.bound_pod = False, None
            self.dirty.add(uid)
        self.arbitration.input_changed()

    def is_own_pod(self, uid: Uid, key: Key) -> bool:
        """Return whether a pod is the one that a job migrates."""
        job = self.job(uid)
        return job is not None and key == job.spec.pod_ref.key

    def observe_read_pod(
        self,
        uid: Uid,
        key: Key,
        looked_at: LookedAtPod | None,
        *,
        claims: tuple[ClaimReach, ...] = (),
        was_watched: bool,
        now: Instant,
    ) -> None:
        """Record a live read of a job's pod or of the pod in its Reservation; None if no pod has the name.

        `was_watched` is whether the watch showed a pod of the name before the read; it may have shown the end since.
        """
        if was_watched and self.pods.by_key(key) is None:
            looked_at = None
        pod = None if looked_at is None else looked_at.pod
        if pod is not None:
            self._observe_newer_pod(pod)
        if self.is_own_pod(uid, key):
            self.live(uid).record_pod(looked_at, claims, now=now)
        if key == self.bound_pod_key(uid):
            self.live(uid).record_bound_pod(pod, now=now)

    def _observe_newer_pod(self, pod: MigrationPod) -> None:
        """Record a newer version of a pod than the watch has shown: the limits for each node count the pod there."""
        known = self.pods.by_key(pod.metadata.key)
        if known is not None and _is_older_version(known, pod):
            self.pods.observe(pod)
            self.arbitration.input_changed()

    def forget_pod(self, pod: MigrationPod) -> None:
        """Remove a pod that is certainly deleted."""
        self.pods.forget(pod.metadata.uid)
        key = pod.metadata.key
        is_gone = self.pods.by_key(key) is None
        for uid in self._index.by_pod.of(key):
            live = self.live(uid)
            live.pod_gone, live.pod = is_gone, None
            self.dirty.add(uid)
        for uid in self._index.by_bound_pod.of(key):
            bound = self._index.bound_pod(uid)
            if bound is not None and bound.uid == pod.metadata.uid:  # a StatefulSet gives a name again
                live = self.live(uid)
                live.bound_pod_gone, live.bound_pod = True, None
            self.dirty.add(uid)
        self.arbitration.input_changed()

    # Views

    def bound_pod_key(self, uid: Uid) -> Key | None:
        """Return the namespace and name of the pod in a job's Reservation; None if there is none."""
        reference = self._index.bound_pod(uid)
        return None if reference is None else reference.key

    def drop_old_reads(self, uid: Uid, *, now: Instant) -> Instant:
        """Drop what only old responses showed, which may have changed; return when the rest is to be dropped.

        That is pods that live reads showed, and a refused deletion of the Reservation that the job created.
        """
        live, created = self._live.get(uid), self._reservations.get(uid)
        due = NEVER if live is None else live.drop_old_pods(now=now)
        refused_until = NEVER if created is None else self._undeletable.get(created.metadata.uid, NEVER)
        if created is not None and refused_until <= now:
            del self._undeletable[created.metadata.uid]
            return due
        return min(due, refused_until)

    def view(self, uid: Uid) -> JobView | None:
        """Return everything that a decision about a job reads; None if the job is gone.

        The watch may be behind: a pod with another uid than ``spec.podRef`` names counts once a live read has shown it.
        """
        cached = self._jobs.get(uid)
        if cached is None:
            return None
        job, live = cached.job, self._live.get(uid) or LiveReads()
        key = job.spec.pod_ref.key
        pod, wanted = self.pods.by_key(key), job.spec.pod_ref.uid
        if pod is None or (wanted and pod.metadata.uid != wanted):
            pod = live.pod
        bound_key = self.bound_pod_key(uid)
        bound = None if bound_key is None else self.pods.by_key(bound_key)
        reservation = self._reservations.get(reservation_name(job))
        created = self._reservations.get(uid)
        siblings = self._siblings(uid) if exchange.concerns_siblings(job, reservation) else ()
        return JobView(
            job=job,
            parse_error=cached.parse_error,
            is_too_large=cached.is_too_large,
            pod=pod,
            pod_gone=live.pod_gone and pod is None,
            pod_template=live.pod_template,
            claims=live.claims,
            reservation=reservation,
            created=created if reservation is None or reservation.metadata.name != uid else None,
            keeps_created=created is not None and created.metadata.uid in self._undeletable,
            siblings=siblings,
            unclaimed=self._unclaimed(job, siblings),
            reservation_gone=live.reservation_gone,
            bound_pod=bound or live.bound_pod,
            bound_pod_gone=live.bound_pod_gone and bound is None,
            create_error=live.create_error,
            evict_error=live.evict_error,
            evict_failed_at=live.evict_failed_at,
            sources=self._sources_of(job),
            evicted=live.evicted,
        )

    def round_ended(self, sources: Mapping[str, frozenset[str]]) -> None:
        """Record the nodes that plugins took pods from in a round, by ``PROFILE/PLUGIN``; others receive pods."""
        self._sources = dict(sources)
        self.dirty.update(uid for uid, cached in self._jobs.items() if self._sources_of(cached.job))

    def _sources_of(self, job: PodMigrationJob) -> frozenset[str]:
        """Return the nodes that must not receive the pod of a job whose receivers a plugin has chosen."""
        options, annotations = job.spec.reservation_options, job.metadata.annotations
        if options is None or options.template is None or ANNOTATION_JOB_CREATED_BY not in annotations:
            return frozenset()
        key = f"{annotations.get(ANNOTATION_PROFILE, '')}/{annotations.get(ANNOTATION_EVICT_TRIGGER, '')}"
        return self._sources.get(key, frozenset())

    def _siblings(self, uid: Uid) -> tuple[Sibling, ...]:
        """Return the jobs with which a job may exchange Reservations, by name."""
        contenders = self._index.contenders.of(migrated_workload(self._jobs[uid].job))
        jobs = sorted((self._jobs[one].job for one in contenders if one != uid), key=lambda job: job.metadata.name)
        return tuple(map(self._sibling, jobs))

    def _sibling(self, job: PodMigrationJob) -> Sibling:
        pod = self.pods.by_key(job.spec.pod_ref.key)
        is_present = pod is not None and pod.metadata.uid == job.spec.pod_ref.uid
        return Sibling(
            job=job,
            reservation=self._reservations.get(reservation_name(job)),
            is_leaving=pod is None or not is_present or pod.metadata.deleting or pod.terminal,
        )

    def _unclaimed(self, job: PodMigrationJob, siblings: tuple[Sibling, ...]) -> tuple[Reservation, ...]:
        """Return the Reservations of a workload with a pod that no job has recorded, and to which no job refers."""
        claimed = {reservation_name(job), *(reservation_name(sibling.job) for sibling in siblings)}
        names = self._used.of(migrated_workload(job)) if exchange.is_undecided(job) else ()
        return tuple(self._reservations[name] for name in sorted(names) if name not in claimed)

    def _is_any_recorded(self, pods: Iterable[ObjectReference]) -> bool:
        """Return whether a job has recorded one of the pods as the replacement of its own pod."""
        return any(
            (recorded := self._jobs[uid].job.status.pod_ref) is not None and recorded.uid == pod.uid
            for pod in pods
            for uid in self._index.by_bound_pod.of(pod.key)
        )

    def arbitration_view(self) -> ArbitrationView:
        """Return everything that arbitration reads, except for the replicas of workloads."""
        return ArbitrationView(
            jobs=tuple(
                cached.job
                for cached in self._jobs.values()
                if not cached.parse_error and cached.job.metadata.deletion_timestamp is None
            ),
            pods=self.pods,
            replicas={},
            disruption_budgets=tuple(self.arbitration.disruption_budgets.values()),
            unavailable_budgets=tuple(self.arbitration.unavailable_budgets.values()),
        )

    def count_waiting_for_approval(self) -> int:
        """Return the number of jobs that wait for the approval of a person."""
        return sum(needs_approval(cached.job) for cached in self._jobs.values())

    @property
    def has_waiting_jobs(self) -> bool:
        """Whether a job waits for arbitration."""
        return any(is_waiting(cached.job) for cached in self._jobs.values())

    def count_by_phase(self) -> Counter[tuple[str, str]]:
        """Return the number of jobs by phase and, for jobs that failed or wait, reason."""
        statuses = (cached.job.status for cached in self._jobs.values())
        return Counter(
            (status.phase.value, status.reason if status.phase is not MigrationPhase.SUCCEEDED else "")
            for status in statuses
        )


def _is_older_version(one: MigrationPod, other: MigrationPod) -> bool:
    """Return whether both are the same pod, and the first one is an older version."""
    same = one.metadata.uid == other.metadata.uid
    return same and is_older(one.metadata.resource_version, other.metadata.resource_version)
