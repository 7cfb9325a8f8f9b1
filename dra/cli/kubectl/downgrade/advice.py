"""What a person does about a claim that cannot be converted by itself."""

from typing import Final

from dra.engine.claims.downgrade import Assessment, Standing
from dra.model.references import GroupResource

APPLY: Final = "kubectl dra downgrade --apply"

_SCALED: Final = frozenset(
    {
        GroupResource(resource="deployments", group="apps"),
        GroupResource(resource="statefulsets", group="apps"),
        GroupResource(resource="replicasets", group="apps"),
    }
)
_JOBS: Final = GroupResource(resource="jobs", group="batch")


def command(assessment: Assessment) -> str:
    """Return the command that leads on; empty if nothing is to be done."""
    match assessment.standing:
        case Standing.CONVERTIBLE | Standing.ORPHAN:
            return APPLY
        case Standing.TOO_MANY:
            return _fewer(assessment)
        case Standing.OWNER:
            return _owner(assessment)
        case Standing.NODE:
            return f"kubectl get nodes {' '.join(assessment.nodes)}"
        case _:
            return ""


def _fewer(assessment: Assessment) -> str:
    """Return how to make the workload have no more pods than a list has room for; some of them end by that."""
    namespace, workload, room = assessment.claim[0], assessment.workload, assessment.room
    if workload is not None and workload.group_resource == _JOBS:
        spec = '{"spec":{"parallelism":' + str(room) + "}}"
        return f"kubectl patch jobs.batch {workload.name} -n {namespace} --type=merge -p '{spec}'"
    if workload is not None and workload.group_resource in _SCALED:
        return f"kubectl scale {workload.group_resource}/{workload.name} -n {namespace} --replicas={room}"
    return f"kubectl get pods -n {namespace}; let at most {room} of them use it, or wait for them to end"


def _owner(assessment: Assessment) -> str:
    namespace, name = assessment.claim
    if assessment.strays:
        gone = ",".join('{"$patch":"delete","uid":"' + entry.uid + '"}' for entry in assessment.strays)
        body = '{"status":{"reservedFor":[' + gone + "]}}"
        patch = f"--subresource=status --type=strategic -p '{body}'"
        return f"kubectl patch resourceclaims {name} -n {namespace} {patch}"
    if assessment.consuming or assessment.pending:
        return f"kubectl get pods -n {namespace}"
    return f"{APPLY} --give-up {namespace}/{name}"
