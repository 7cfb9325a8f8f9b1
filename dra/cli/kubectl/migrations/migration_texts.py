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


def step_text(found: MigrationDiagnosis) -> str:
    """Return the step of a migration, with the reason for a wait."""
    if found.step is MigrationStep.ENDED:
        return _end_text(found)
    if found.step is MigrationStep.PAUSED:
        return "paused"
    if found.step is MigrationStep.UNAPPROVED:
        return "waits for approval"
    if found.step is MigrationStep.WAITING:
        return f"waits: {found.message}" if found.message else "waits for the descheduler to begin"
    pod = "/".join(found.new_pod) if found.new_pod else "the replacement"
    text = _PAST_ARBITRATION[found.step].format(node=found.to_node or "unknown", pod=pod)
    if found.step in {MigrationStep.SCHEDULING, MigrationStep.EVICTING} and found.message:
        return f"{text}: {found.message}"
    return text.replace(" on node unknown", "")


def _end_text(found: MigrationDiagnosis) -> str:
    if found.phase != MigrationPhase.SUCCEEDED:
        ended = "aborted" if found.phase == MigrationPhase.ABORTED else "failed"
        reason = f" {found.reason}" if found.reason else ""
        return f"{ended}{reason}: {found.message}" if found.message else f"{ended}{reason}"
    if found.to_node and found.new_pod:
        return f"moved to node {found.to_node}, as pod {'/'.join(found.new_pod)}"
    return f"moved to node {found.to_node}" if found.to_node else "evicted"


def describe_migration(found: MigrationDiagnosis, *, now: datetime) -> Iterator[str]:
    """Yield the description of a migration, without problems."""
    yield f"migration {found.name}: {'being deleted' if found.deleting else found.phase}"
    on = f" on node {found.from_node}" if found.from_node else ""
    yield f"  pod       {'/'.join(found.pod)}{on}{', evicted' if found.evicted else ''}"
    if found.reservation:
        place = f" on node {found.to_node}" if found.to_node else ", without a node yet"
        yield f"  room      reservation {found.reservation}{place}"
    if found.new_pod is not None:
        yield f"  new pod   {'/'.join(found.new_pod)}"
    if text := cause_text(found):
        yield f"  why       {text}"
    yield f"  step      {step_text(found)}{_since_text(found, now)}"


def cause_text(found: MigrationDiagnosis) -> str:
    """Return why a pod is or was to move, and which plugin says so; empty if nobody has said."""
    if not found.plugin:
        return found.cause
    profile = f" of profile {found.profile}" if found.profile else ""
    return f"{found.plugin}{profile}: {found.cause or 'no reason given'}"


def _since_text(found: MigrationDiagnosis, now: datetime) -> str:
    if not found.since:
        return ""
    seconds = max((now - datetime.fromisoformat(found.since)).total_seconds(), 0.0)
    return f" (since {found.since}, {human_duration(seconds)})"


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


def next_step(found: MigrationDiagnosis) -> Remedy | None:
    """Return the command that shows what a migration waits for, or how to go on after a failure."""
    if found.step is MigrationStep.UNAPPROVED:
        return WeighedChoice(_UNAPPROVED.format(name=found.name))
    namespace, pod = found.pod
    new_namespace, new_name = found.new_pod or ("", "")
    facts = {
        "namespace": namespace,
        "reservation": found.reservation,
        "new_name": new_name,
        "new_namespace": new_namespace,
    }
    if found.step is MigrationStep.ENDED:
        if found.phase in {MigrationPhase.SUCCEEDED, MigrationPhase.ABORTED}:
            return None
        if found.evicted:
            return WeighedChoice(_EVICTED_FAILURE.format(**facts))
        return SafeCommand(f"kubectl dra migrate pod/{pod} -n {namespace} --dry-run")
    template = _NEXT_COMMANDS.get(found.step, "")
    if not all(facts[name] for name in facts if f"{{{name}}}" in template):
        return None
    return SafeCommand(template.format(**facts)) if template else None


def next_lines(found: MigrationDiagnosis) -> Iterator[str]:
    """Yield the line of the next step."""
    yield from printers.remedy_lines(next_step(found))


def age_text(created: datetime | None, *, now: datetime) -> str:
    """Return the age of an object as kubectl prints ages."""
    return NONE_TEXT if created is None else human_duration(max((now - created).total_seconds(), 0.0))
