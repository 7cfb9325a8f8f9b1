"""Remedies for claims that a downgrade cannot convert by itself."""

import shlex
from typing import Final

from dra.api.rbac import LEASE_NAME, NAMESPACE
from dra.engine.claims.downgrade import DowngradeAssessment, DowngradeState
from dra.engine.messages.remedies import Remedy, SafeCommand, WeighedChoice
from dra.model.meta import Key
from dra.model.references import GroupResource

_LEASE_FLAGS: Final = {"lease_namespace": NAMESPACE, "lease_name": LEASE_NAME}
"""Options that name the controllers' lease → their defaults."""


def repeated_flags(*, namespace: str | None, lease: Key) -> str:
    """Return the options for the namespace and the lease that a printed command repeats."""
    given = ["-n", namespace] if namespace else []
    for name, value in zip(_LEASE_FLAGS, lease, strict=True):
        if value != _LEASE_FLAGS[name]:
            given += [f"--{name.replace('_', '-')}", value]
    return "".join(f" {shlex.quote(each)}" for each in given)


def apply_command(given: str = "") -> SafeCommand:
    """Return the command that converts what can be converted; `given` are the options of the question."""
    return SafeCommand(f"kubectl dra downgrade --apply{given}")


def purge_command(given: str = "") -> SafeCommand:
    """Return the command that leaves nothing of dra-reserve behind."""
    return SafeCommand(f"kubectl dra downgrade --apply --purge{given}")


def adopt_command(lease: Key) -> SafeCommand:
    """Return the command that lets the controllers of a lease act again."""
    return SafeCommand(f"kubectl dra adopt{repeated_flags(namespace=None, lease=lease)}")


_SCALABLE_KINDS: Final = frozenset(
    {
        GroupResource(resource="deployments", group="apps"),
        GroupResource(resource="statefulsets", group="apps"),
        GroupResource(resource="replicasets", group="apps"),
    }
)
_JOB_KIND: Final = GroupResource(resource="jobs", group="batch")


def claim_remedy(assessment: DowngradeAssessment, given: str = "") -> Remedy | None:
    """Return the next step for a claim; None if nothing is to be done. `given` are the options of the question."""
    match assessment.standing:
        case DowngradeState.CONVERTIBLE | DowngradeState.ORPHAN:
            return apply_command(given)
        case DowngradeState.TOO_MANY:
            return WeighedChoice(_scale_down_text(assessment))
        case DowngradeState.OWNER:
            return _kept_claim_remedy(assessment)
        case DowngradeState.NODE:
            return SafeCommand(f"kubectl get nodes {' '.join(assessment.nodes)}")
        case _:
            return None


def _scale_down_text(assessment: DowngradeAssessment) -> str:
    """Return how to reduce the workload to the pods that a list has room for; the work of the other pods ends."""
    namespace, workload, room = assessment.claim[0], assessment.workload, assessment.room
    ending = f"let at most {room} pods use the claim, by which the work of the others ends, or wait for them to end"
    if workload is not None and workload.group_resource == _JOB_KIND:
        return f"{ending}: spec.parallelism {room} of {workload} in {namespace}"
    if workload is not None and workload.group_resource in _SCALABLE_KINDS:
        return f"{ending}: spec.replicas {room} of {workload} in {namespace}"
    return f"{ending}. See: kubectl get pods -n {namespace}"


def _kept_claim_remedy(assessment: DowngradeAssessment) -> Remedy:
    namespace, name = assessment.claim
    if assessment.strays:
        entries = ", ".join(f"{entry} (uid {entry.uid})" for entry in assessment.strays)
        return WeighedChoice(
            f"take {entries} off status.reservedFor of claim {name} in {namespace} if nothing of theirs uses its "
            "devices; if something does, two share them"
        )
    if assessment.consuming or assessment.pending:
        return SafeCommand(f"kubectl get pods -n {namespace}")
    return WeighedChoice(
        f"have the workload's controller let go of claim {name}, or give the reservation up: option --give-up "
        f"{namespace}/{name} beside --apply; the workload's next pods may find its devices taken"
    )
