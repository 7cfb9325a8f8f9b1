"""The pods that the MigrationController would not migrate now: such a pod is no candidate, and gets no job.

These are the rules and limits of arbitration (`dra.engine.migration`), asked before a job exists. A job that is refused
later would fail, to be proposed again by the next round; one that waits would take a place in the limits of the round.
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from dra.api.descheduler.migration_controller_args import MigrationControllerArgs
from dra.api.migration.model import ENDED_PHASES, MigrationMode, PodMigrationJob, PodMigrationJobSpec
from dra.api.object_fields import ObjectMetadata, ObjectReference
from dra.api.reservations.well_known import LABEL_RESERVATION_IGNORED
from dra.engine.descheduling.evictor_filter import resolved_threshold
from dra.engine.descheduling.plugin import WorkloadLimit
from dra.engine.descheduling.pod_volumes import PodVolumes
from dra.engine.descheduling.pods import DeschedulingPod
from dra.engine.descheduling.round_budgets import CountedPods
from dra.engine.descheduling.snapshot import Snapshot
from dra.engine.migration import evictability
from dra.engine.migration.arbitration import migrated_workload
from dra.engine.migration.evictability import EvictabilityRules
from dra.engine.migration.limits import MigrationCounts, effective_args
from dra.engine.migration.pod_index import workload_of
from dra.engine.migration.reasons import MigrationReason
from dra.engine.reservations.pod_info import ignores_reservations

_OF_ALL_REPLICAS: Final = frozenset(
    {
        MigrationReason.MAX_MIGRATING_GLOBALLY,
        MigrationReason.MAX_MIGRATING_PER_NAMESPACE,
        MigrationReason.MAX_MIGRATING_PER_WORKLOAD,
        MigrationReason.OBJECT_LIMITER,
    }
)
"""Limits that all pods of a workload meet alike; of those that are not ready, some may go although others may not."""


class _InForce(NamedTuple):
    """Arguments in force, and the rules that these choose for jobs of each mode."""

    args: MigrationControllerArgs
    rules: Mapping[MigrationMode, EvictabilityRules]


class MigrationControllerFilter:
    """The protections of MigrationController."""

    name = "MigrationController"
    Args = MigrationControllerArgs

    def filter(self, pod: DeschedulingPod, snapshot: Snapshot, args: MigrationControllerArgs) -> str:
        """Return why a pod must not be migrated now; empty if it may be."""
        in_force = snapshot.part(_EffectiveArgs).of(args)
        return next(filter(None, _reasons(pod, snapshot, in_force)), "")


def _reasons(pod: DeschedulingPod, snapshot: Snapshot, in_force: _InForce) -> Iterator[str]:
    args = in_force.args
    holds_place = args.default_job_mode is MigrationMode.RESERVATION_FIRST and not pod.terminal
    is_bare = pod.metadata.controller is None
    mode = MigrationMode.EVICT_DIRECTLY if is_bare or not holds_place else MigrationMode.RESERVATION_FIRST
    yield evictability.refusal_by(in_force.rules[mode], pod, mode=mode)
    yield snapshot.part(PodVolumes).single_node_reason(pod)
    name = f"pod {'/'.join(pod.metadata.key)}"
    if holds_place and not is_bare and pod.spec.scheduler_name not in args.scheduler_names:
        yield f"{name}: scheduler {pod.spec.scheduler_name} places no Reservations (schedulerNames)"
    if holds_place and not is_bare and ignores_reservations(pod.metadata.labels):
        yield f"{name}: has label {LABEL_RESERVATION_IGNORED}=true, so its replacement would use no Reservation"
    counts = snapshot.part(InFlightMigrations).counts()
    yield counts.replicas_refusal(pod, args=args)
    for refusal in counts.refusals(snapshot.part(_ProposedJobs).of(pod), pod, args=args, now=snapshot.now):
        yield WorkloadLimit(refusal.message) if refusal.reason in _OF_ALL_REPLICAS else refusal.message


class InFlightMigrations:
    """The migrations in flight and those of the round, as arbitration counts them."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._counts = MigrationCounts(snapshot.part(CountedPods), replicas=snapshot.objects.replicas)
        self._counted = 0
        moving = {pod.metadata.key for pod in snapshot.moves_since(0)}
        for job in snapshot.objects.jobs:
            if job.status.phase not in ENDED_PHASES and job.spec.pod_ref.key not in moving:
                self._counts.add(job, None, workload=migrated_workload(job))

    def counts(self) -> MigrationCounts:
        """Return the counts, with all pods that move by now."""
        for pod in self._snapshot.moves_since(self._counted):
            workload = workload_of(pod)
            self._counts.add(
                self._snapshot.part(_ProposedJobs).of(pod),
                pod,
                workload=None if workload is None else workload.in_namespace,
            )
        self._counted = len(self._snapshot.moved)
        return self._counts


class _EffectiveArgs:
    """The arguments in force, worked out once for each profile: gates skipped, PriorityClass looked up."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._known: dict[int, tuple[MigrationControllerArgs, _InForce]] = {}

    def of(self, args: MigrationControllerArgs) -> _InForce:
        """Return the arguments in force."""
        known = self._known.get(id(args))
        if known is None:
            effective = effective_args(args)
            threshold = resolved_threshold(effective.priority_threshold, self._snapshot)
            effective = effective.model_copy(update={"priority_threshold": threshold})
            rules = {mode: evictability.migration_rules(effective, mode) for mode in MigrationMode}
            known = (args, _InForce(effective, rules))
            self._known[id(args)] = known  # with the key itself, whose id is taken for as long
        return known[1]


class _ProposedJobs:
    """The jobs that would migrate pods, as far as limits read jobs: the namespace."""

    def __init__(self, snapshot: Snapshot) -> None:
        del snapshot
        self._known: dict[str, PodMigrationJob] = {}

    def of(self, pod: DeschedulingPod) -> PodMigrationJob:
        """Return the job that would migrate a pod."""
        namespace = pod.metadata.namespace
        known = self._known.get(namespace)
        if known is None:
            spec = PodMigrationJobSpec(pod_ref=ObjectReference(namespace=namespace))
            known = self._known[namespace] = PodMigrationJob(metadata=ObjectMetadata(), spec=spec)
        return known
