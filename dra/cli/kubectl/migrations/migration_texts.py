"""The texts about one migration: its step in a few words, and its lines in ``kubectl dra explain``."""

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from dra.api.migration.model import MigrationPhase
from dra.cli.kubectl import printers
from dra.cli.kubectl.reservations.reservation_describer import NONE_TEXT, human_duration
from dra.engine.diagnosis.migrations import MigrationDiagnosis, MigrationStep
from dra.engine.messages.remedies import Remedy, SafeCommand, WeighedChoice

NOT_INSTALLED: Final = (
    "the server does not serve PodMigrationJobs; install component descheduler; see kubectl dra install --help"
)

SCHEDULABLE_NODE: Final = (
    "is schedulable: none of these pods returns to it, but other new pods may be placed there. To prevent it, give "
    "--cordon."
)
"""What follows from a node that is not cordoned while its pods are migrated."""

KIND_NAME: Final = "podmigrationjob.scheduling.koordinator.sh"

_PAST_ARBITRATION: Final = {
    MigrationStep.STARTING: "begins",
    MigrationStep.SCHEDULING: "waits for a node that has room",
    MigrationStep.RESERVED: "node {node} holds the room; the eviction comes next",
    MigrationStep.EVICTING: "evicts the pod",
    MigrationStep.BINDING: "waits for the replacement pod to use the room on node {node}",
    MigrationStep.READYING: "waits for pod {pod} to become Ready on node {node}",
}


def step_text(migration: MigrationDiagnosis) -> str:
    """Return the step of a migration, with the reason for a wait."""
    if migration.step is MigrationStep.ENDED:
        return _end_text(migration)
    if migration.step is MigrationStep.PAUSED:
        return "paused"
    if migration.step is MigrationStep.UNAPPROVED:
        return "waits for approval"
    if migration.step is MigrationStep.WAITING:
        return f"waits: {migration.message}" if migration.message else "waits for the descheduler to begin"
    pod = "/".join(migration.new_pod) if migration.new_pod else "the replacement"
    text = _PAST_ARBITRATION[migration.step].format(node=migration.to_node or "unknown", pod=pod)
    if migration.step in {MigrationStep.SCHEDULING, MigrationStep.EVICTING} and migration.message:
        return f"{text}: {migration.message}"
    return text.replace(" on node unknown", "")


def _end_text(migration: MigrationDiagnosis) -> str:
    if migration.phase != MigrationPhase.SUCCEEDED:
        ended = "aborted" if migration.phase == MigrationPhase.ABORTED else "failed"
        reason = f" {migration.reason}" if migration.reason else ""
        return f"{ended}{reason}: {migration.message}" if migration.message else f"{ended}{reason}"
    if migration.to_node and migration.new_pod:
        return f"moved to node {migration.to_node}, as pod {'/'.join(migration.new_pod)}"
    return f"moved to node {migration.to_node}" if migration.to_node else "evicted"


def describe_migration(migration: MigrationDiagnosis, *, now: datetime) -> Iterator[str]:
    """Yield the description of a migration, without problems."""
    yield f"migration {migration.name}: {'being deleted' if migration.deleting else migration.phase}"
    on = f" on node {migration.from_node}" if migration.from_node else ""
    yield f"  pod       {'/'.join(migration.pod)}{on}{', evicted' if migration.evicted else ''}"
    if migration.reservation:
        place = f" on node {migration.to_node}" if migration.to_node else ", without a node yet"
        yield f"  room      reservation {migration.reservation}{place}"
    if migration.new_pod is not None:
        yield f"  new pod   {'/'.join(migration.new_pod)}"
    if text := cause_text(migration):
        yield f"  why       {text}"
    yield f"  step      {step_text(migration)}{_since_text(migration, now)}"


def cause_text(migration: MigrationDiagnosis) -> str:
    """Return why a pod is or was to move, and which plugin says so; empty if nobody has said."""
    if not migration.plugin:
        return migration.cause
    profile = f" of profile {migration.profile}" if migration.profile else ""
    return f"{migration.plugin}{profile}: {migration.cause or 'no reason given'}"


def _since_text(migration: MigrationDiagnosis, now: datetime) -> str:
    if not migration.since:
        return ""
    seconds = max((now - datetime.fromisoformat(migration.since)).total_seconds(), 0.0)
    return f" (since {migration.since}, {human_duration(seconds)})"


_NEXT_COMMANDS: Final = {
    MigrationStep.WAITING: "kubectl dra migrations",
    MigrationStep.SCHEDULING: "kubectl dra explain reservation {reservation}",
    MigrationStep.EVICTING: "kubectl get poddisruptionbudgets -n {namespace}",
    MigrationStep.BINDING: "kubectl dra explain reservation {reservation}",
    MigrationStep.READYING: "kubectl describe pod {new_name} -n {new_namespace}",
}
"""Step → the command that shows what the step waits for."""

_UNAPPROVED: Final = "approve migration {name}, or reject it: then the pod stays. See kubectl dra approve --help"

_EVICTED_FAILURE: Final = "the pod is evicted: look after its replacement with kubectl get pods -n {namespace}"


def next_step(migration: MigrationDiagnosis) -> Remedy | None:
    """Return the command that shows what a migration waits for, or how to go on after a failure."""
    if migration.step is MigrationStep.UNAPPROVED:
        return WeighedChoice(_UNAPPROVED.format(name=migration.name))
    namespace, pod = migration.pod
    new_namespace, new_name = migration.new_pod or ("", "")
    facts = {
        "namespace": namespace,
        "reservation": migration.reservation,
        "new_name": new_name,
        "new_namespace": new_namespace,
    }
    if migration.step is MigrationStep.ENDED:
        if migration.phase in {MigrationPhase.SUCCEEDED, MigrationPhase.ABORTED}:
            return None
        if migration.evicted:
            return WeighedChoice(_EVICTED_FAILURE.format(**facts))
        return SafeCommand(f"kubectl dra migrate pod/{pod} -n {namespace} --dry-run")
    template = _NEXT_COMMANDS.get(migration.step, "")
    if not all(facts[name] for name in facts if f"{{{name}}}" in template):
        return None
    return SafeCommand(template.format(**facts)) if template else None


def next_lines(migration: MigrationDiagnosis) -> Iterator[str]:
    """Yield the line of the next step."""
    yield from printers.remedy_lines(next_step(migration))


def age_text(created: datetime | None, *, now: datetime) -> str:
    """Return the age of an object as kubectl prints ages."""
    return NONE_TEXT if created is None else human_duration(max((now - created).total_seconds(), 0.0))
