"""What a person does about a claim that cannot be converted by itself."""

import shlex
from typing import Final

from dra.api.rights import LEASE, NAMESPACE
from dra.engine.claims.downgrade import Assessment, Standing
from dra.engine.remedies import Paste, Remedy, Weigh
from dra.model.meta import Key
from dra.model.references import GroupResource

_OPTIONS: Final = {"lease_namespace": NAMESPACE, "lease_name": LEASE}
"""Options that name the controllers' lease → what they are by default."""


def options(*, namespace: str | None, lease: Key) -> str:
    """Return the options that a printed command repeats, so that it is about what was asked: namespace and lease."""
    given = ["-n", namespace] if namespace else []
    for name, value in zip(_OPTIONS, lease, strict=True):
        if value != _OPTIONS[name]:
            given += [f"--{name.replace('_', '-')}", value]
    return "".join(f" {shlex.quote(each)}" for each in given)


def apply(given: str = "") -> Paste:
    """Return the command that does what can be done; `given` are the options of the question."""
    return Paste(f"kubectl dra downgrade --apply{given}")


def purge(given: str = "") -> Paste:
    """Return the command that leaves nothing behind."""
    return Paste(f"kubectl dra downgrade --apply --purge{given}")


def adopt(lease: Key) -> Paste:
    """Return the command that lets the controllers of a lease act again."""
    return Paste(f"kubectl dra adopt{options(namespace=None, lease=lease)}")


_SCALED: Final = frozenset(
    {
        GroupResource(resource="deployments", group="apps"),
        GroupResource(resource="statefulsets", group="apps"),
        GroupResource(resource="replicasets", group="apps"),
    }
)
_JOBS: Final = GroupResource(resource="jobs", group="batch")


def remedy(assessment: Assessment, given: str = "") -> Remedy | None:
    """Return what leads on; None if nothing is to be done. `given` are the options of the question."""
    match assessment.standing:
        case Standing.CONVERTIBLE | Standing.ORPHAN:
            return apply(given)
        case Standing.TOO_MANY:
            return Weigh(_fewer(assessment))
        case Standing.OWNER:
            return _owner(assessment)
        case Standing.NODE:
            return Paste(f"kubectl get nodes {' '.join(assessment.nodes)}")
        case _:
            return None


def _fewer(assessment: Assessment) -> str:
    """Return how the workload has no more pods than a list has room for; some of them end by that."""
    namespace, workload, room = assessment.claim[0], assessment.workload, assessment.room
    ending = f"let at most {room} pods use the claim, by which the work of the others ends, or wait for them to end"
    if workload is not None and workload.group_resource == _JOBS:
        return f"{ending}: spec.parallelism {room} of {workload} in {namespace}"
    if workload is not None and workload.group_resource in _SCALED:
        return f"{ending}: spec.replicas {room} of {workload} in {namespace}"
    return f"{ending}. See: kubectl get pods -n {namespace}"


def _owner(assessment: Assessment) -> Remedy:
    namespace, name = assessment.claim
    if assessment.strays:
        entries = ", ".join(f"{entry} (uid {entry.uid})" for entry in assessment.strays)
        return Weigh(
            f"take {entries} off status.reservedFor of claim {name} in {namespace} if nothing of theirs uses its "
            "devices; if something does, two share them"
        )
    if assessment.consuming or assessment.pending:
        return Paste(f"kubectl get pods -n {namespace}")
    return Weigh(
        f"have the workload's controller let go of claim {name}, or give the reservation up: option --give-up "
        f"{namespace}/{name} beside --apply; the workload's next pods may find its devices taken"
    )
