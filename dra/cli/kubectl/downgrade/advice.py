"""What a person does about a claim that cannot be converted by itself."""

from typing import Final

from dra.engine.claims.downgrade import Assessment, Standing
from dra.engine.remedies import Paste, Remedy, Weigh
from dra.model.references import GroupResource

APPLY: Final = Paste("kubectl dra downgrade --apply")
PURGE: Final = Paste("kubectl dra downgrade --apply --purge")
ADOPT: Final = Paste("kubectl dra adopt")

_SCALED: Final = frozenset(
    {
        GroupResource(resource="deployments", group="apps"),
        GroupResource(resource="statefulsets", group="apps"),
        GroupResource(resource="replicasets", group="apps"),
    }
)
_JOBS: Final = GroupResource(resource="jobs", group="batch")


def remedy(assessment: Assessment) -> Remedy | None:
    """Return what leads on; None if nothing is to be done."""
    match assessment.standing:
        case Standing.CONVERTIBLE | Standing.ORPHAN:
            return APPLY
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
