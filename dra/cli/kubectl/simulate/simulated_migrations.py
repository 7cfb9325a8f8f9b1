"""Simulates migrations: where the Reservation of each job would be, and the replacement in it.

`dra.engine.migration` builds the Reservations and refuses pods, as in the descheduler. All jobs
are taken at once: a limit or a budget delays a job, but does not change which nodes its Reservation may use.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from dra.api.descheduler.migration_controller_args import MigrationControllerArgs
from dra.api.migration.model import MigrationMode, PodMigrationJob
from dra.api.reservations.model import MalformedReservationError, parse_reservation
from dra.api.reservations.well_known import ANNOTATION_RESERVATION_ALLOCATED
from dra.cli.kubectl.simulate.simulated_manifests import Manifests, parse_reservation_manifest
from dra.cli.kubectl.simulate.simulation import PodOutcome, simulate_scheduling
from dra.cli.kubectl.simulate.unsimulated_fields import unsimulated_fields, unsimulated_text
from dra.engine.diagnosis import migrations as explaining
from dra.engine.diagnosis.snapshot import Snapshot
from dra.engine.migration.decide import effective_mode, effective_ttl
from dra.engine.migration.device_claims import claim_reach, named_claims
from dra.engine.migration.refusals import reservation_refusal
from dra.engine.migration.reservation_fit import misfit
from dra.engine.migration.reservation_manifest import reservation_manifest
from dra.engine.migration.view import ClaimReach, MigrationPod
from dra.model.claims import ResourceClaim
from dra.model.meta import Key, Struct, Uid, UnstructuredObject
from dra.model.scheduling import SchedulerPod

_SUFFIX: Final = "-replacement"


class MigrationOutcome(Struct, frozen=True):
    """The outcome of the simulation for one job."""

    job: str
    pod: Key
    from_node: str = ""
    to_node: str = ""
    """The node of the Reservation; empty if there is none."""

    refusal: str = ""
    """Reason for which the job would fail before anything is reserved."""

    reason: str = ""
    """Reason for which the Reservation gets no node, or the replacement does not use it."""

    devices: tuple[str, ...] = ()
    evicts_directly: bool = False
    unsimulated: tuple[str, ...] = ()
    """Fields for which kube-scheduler may refuse the node of the Reservation, and that are not simulated."""

    @property
    def moves(self) -> bool:
        """Whether the pod would be moved or, in mode EvictDirectly, evicted."""
        return not (self.refusal or self.reason)


def migration_outcome_text(outcome: MigrationOutcome) -> str:
    """Return what would come of a job, in a few words."""
    if outcome.refusal:
        return f"refused: {outcome.refusal}"
    if outcome.evicts_directly:
        return f"evicted from node {outcome.from_node}; no room is held for its replacement"
    if outcome.reason and not outcome.to_node:
        return f"stays: {outcome.reason}"
    verbs = ("may move", "may get") if outcome.unsimulated else ("moves", "gets")
    start = f"{verbs[0]} from node {outcome.from_node}" if outcome.from_node else f"{verbs[1]} room"
    start += f"; {unsimulated_text(outcome.unsimulated)}" if outcome.unsimulated else ""
    return f"{start}; {outcome.reason}" if outcome.reason else start


class SimulatedMigrations(Struct, frozen=True):
    """The outcomes of jobs, and the cluster as it would be after all moves."""

    outcomes: tuple[MigrationOutcome, ...]
    final_snapshot: Snapshot


@dataclass(slots=True)
class _JobPlans:
    """The jobs of a simulation, by what comes of them before anything is scheduled."""

    outcomes: dict[str, MigrationOutcome] = field(default_factory=dict)
    """Job name → outcome, as far as it is known."""
    reserving: dict[str, tuple[PodMigrationJob, SchedulerPod]] = field(default_factory=dict)
    """Name of the Reservation → job and pod."""
    reservations: list[UnstructuredObject] = field(default_factory=list)
    evicted: list[SchedulerPod] = field(default_factory=list)
    """Pods that are evicted without a Reservation."""


def simulate_migrations(
    snapshot: Snapshot, jobs: Sequence[PodMigrationJob], *, args: MigrationControllerArgs | None = None
) -> SimulatedMigrations:
    """Return what would come of jobs on a snapshot; raise MalformedReservationError for an invalid template."""
    plans = _plan_jobs(snapshot, jobs, args=args or MigrationControllerArgs())
    placed = simulate_scheduling(snapshot, Manifests(reservations=plans.reservations))
    reservations = {outcome.placeholder_for: outcome for outcome in placed.outcomes if outcome.placeholder_for}
    held = {name for name, outcome in reservations.items() if outcome.node}
    moved = [*plans.evicted, *(pod for name, (_, pod) in plans.reserving.items() if name in held)]
    after = without_pods(placed.final_snapshot, [pod for pod in moved if pod.spec.node_name])
    replaced = simulate_scheduling(after, Manifests(pods=[_replacement(pod) for pod in moved]))
    by_pod = {outcome.pod.metadata.key: outcome for outcome in replaced.outcomes}
    for name, (job, pod) in plans.reserving.items():
        known = plans.outcomes[job.metadata.name]
        replacement = by_pod.get(_replacement(pod).metadata.key)
        plans.outcomes[job.metadata.name] = _with_placement(known, reservations.get(name), replacement, pod=pod)
    return SimulatedMigrations(outcomes=tuple(plans.outcomes.values()), final_snapshot=replaced.final_snapshot)


def _plan_jobs(snapshot: Snapshot, jobs: Sequence[PodMigrationJob], *, args: MigrationControllerArgs) -> _JobPlans:
    plans = _JobPlans()
    pods = {pod.metadata.key: pod for pod in snapshot.pods}
    for job in jobs:
        name, key = job.metadata.name, explaining.pod_key(job)
        pod = pods.get(key)
        if pod is None or pod.terminal or job.spec.pod_ref.uid not in {"", pod.metadata.uid}:
            plans.outcomes[name] = MigrationOutcome(job=name, pod=key, refusal=f"pod {'/'.join(key)} does not exist")
            continue
        known = MigrationOutcome(job=name, pod=key, from_node=pod.spec.node_name)
        directly = effective_mode(job, args=args) is MigrationMode.EVICT_DIRECTLY
        refusal = "" if directly else _refusal(job, pod, snapshot, args=args)
        plans.outcomes[name] = msgspec.structs.replace(known, refusal=refusal, evicts_directly=directly)
        given = _supplied_reservation(job)
        if directly:
            plans.evicted.append(pod)
        elif given and not refusal:
            plans.outcomes[name] = _with_supplied(known, given, snapshot, pod=pod)
        elif not refusal:
            pending = not pod.spec.node_name
            made = reservation_manifest(job, _content(pod), ttl=effective_ttl(job, args=args), pending=pending, now=0.0)
            reservation = parse_reservation_manifest(made)
            if unusable := misfit(parse_reservation(reservation.content), _content(pod), pending=pending):
                plans.outcomes[name] = msgspec.structs.replace(known, refusal=unusable)
                continue
            plans.reservations.append(reservation)
            plans.reserving[made["metadata"]["name"]] = (job, pod)
    return plans


def _supplied_reservation(job: PodMigrationJob) -> str:
    """Return the name of the Reservation that a job is to use; empty if the job creates one."""
    options = job.spec.reservation_options
    return options.reservation_ref.name if options is not None and options.reservation_ref is not None else ""


def _with_supplied(known: MigrationOutcome, name: str, snapshot: Snapshot, *, pod: SchedulerPod) -> MigrationOutcome:
    """Return the outcome of a job with a supplied Reservation, by the Reservation's present node."""
    reservation = next(
        (candidate for candidate in snapshot.reservations or () if candidate.metadata.name == name), None
    )
    if reservation is None:
        return msgspec.structs.replace(known, refusal=f"reservation {name} does not exist")
    node = str((reservation.content.get("status") or {}).get("nodeName") or "")
    if node and node == known.from_node:
        return msgspec.structs.replace(known, refusal=f"reservation {name} is on node {node}, as the pod is")
    if unusable := _supplied_misfit(reservation, pod):
        return msgspec.structs.replace(known, refusal=unusable)
    reason = "" if node else f"reservation {name} has no node yet"
    return msgspec.structs.replace(known, to_node=node, reason=reason, unsimulated=_unsimulated(pod))


def _supplied_misfit(reservation_object: UnstructuredObject, pod: SchedulerPod) -> str:
    """Return why the replacement of a pod cannot use a supplied Reservation; empty if it can."""
    try:
        reservation = parse_reservation(reservation_object.content)
    except MalformedReservationError as error:
        return f"reservation {reservation_object.metadata.name}: {error}"
    return misfit(reservation, _content(pod), pending=not pod.spec.node_name)


def _refusal(job: PodMigrationJob, pod: SchedulerPod, snapshot: Snapshot, *, args: MigrationControllerArgs) -> str:
    options = job.spec.reservation_options
    spec = (options.template or {}).get("spec") if options is not None else None
    has_owners = isinstance(spec, Mapping) and bool(spec.get("owners"))
    template = _content(pod)
    return reservation_refusal(
        msgspec.convert(template, MigrationPod),
        template,
        _claim_reaches(pod, snapshot),
        args=args,
        has_owners=has_owners or bool(_supplied_reservation(job)),
    )


def _with_placement(
    known: MigrationOutcome, reservation: PodOutcome | None, replacement: PodOutcome | None, *, pod: SchedulerPod
) -> MigrationOutcome:
    if reservation is None or not reservation.node:
        why = reservation.reason if reservation is not None else "its Reservation could not be simulated"
        return msgspec.structs.replace(known, reason=f"no other node has room: {why}")
    devices = tuple(
        f"{result.driver}/{result.pool}/{result.device}"
        for claim in reservation.claims
        if claim.status.allocation is not None
        for result in claim.status.allocation.devices.results or ()
    )
    why = "" if replacement is None or replacement.node else f"its replacement would wait: {replacement.reason}"
    unsimulated = tuple(dict.fromkeys((*reservation.unsimulated, *_unsimulated(pod))))
    return msgspec.structs.replace(
        known, to_node=reservation.node, devices=devices, reason=why, unsimulated=unsimulated
    )


def _unsimulated(pod: SchedulerPod) -> tuple[str, ...]:
    """Return the fields for which kube-scheduler may refuse a node to the replacement of a pod."""
    return unsimulated_fields(_content(pod)["spec"])


def _content(pod: SchedulerPod) -> dict[str, Any]:
    """Return a pod as in the API, with the fields that a scheduler reads."""
    content: dict[str, Any] = msgspec.to_builtins(pod)
    return content


def _replacement(pod: SchedulerPod) -> SchedulerPod:
    """Return the pod that the controller of an evicted pod creates; a pod without a node stays itself."""
    if not pod.spec.node_name:
        return pod
    content = _content(pod)
    metadata = {
        field: content["metadata"][field]
        for field in ("namespace", "labels", "ownerReferences")
        if field in content["metadata"]
    }
    annotations = {
        key: value for key, value in (pod.metadata.annotations or {}).items() if key != ANNOTATION_RESERVATION_ALLOCATED
    }
    name = f"{pod.metadata.name}{_SUFFIX}"
    metadata |= {"name": name, "uid": f"simulated-{pod.metadata.namespace}-{name}", "annotations": annotations}
    spec = {field: value for field, value in content["spec"].items() if field != "nodeName"}
    return msgspec.convert({"metadata": metadata, "spec": spec}, SchedulerPod)


def _claim_reaches(pod: SchedulerPod, snapshot: Snapshot) -> tuple[ClaimReach, ...]:
    """Return which nodes of a snapshot can use each claim that a pod names."""
    claims = {claim.metadata.key: claim for claim in snapshot.claims}
    node, nodes = pod.spec.node_name, snapshot.nodes
    return tuple(claim_reach(key, claims.get(key), pod_node=node, nodes=nodes) for key in named_claims(pod))


def without_pods(snapshot: Snapshot, evicted: Iterable[SchedulerPod]) -> Snapshot:
    """Return a snapshot after pods have ended, with their generated claims gone and their entries removed."""
    gone = {pod.metadata.uid for pod in evicted}
    return msgspec.structs.replace(
        snapshot,
        pods=tuple(pod for pod in snapshot.pods if pod.metadata.uid not in gone),
        claims=tuple(_without_entries(claim, gone) for claim in snapshot.claims if claim.generated_for not in gone),
    )


def _without_entries(claim: ResourceClaim, gone: set[Uid]) -> ResourceClaim:
    left = [entry for entry in claim.entries if entry.uid not in gone]
    if len(left) == len(claim.entries):
        return claim
    allocation = claim.status.allocation if left else None
    return msgspec.structs.replace(
        claim, status=msgspec.structs.replace(claim.status, reserved_for=left, allocation=allocation)
    )
