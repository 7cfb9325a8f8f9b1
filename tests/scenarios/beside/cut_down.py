"""CRDs with no more than the fields that operators write, for kinds whose own CRDs may not be on the machine.

Group, version, names, the status subresource and the values of phases are those of the kinds' own CRDs, at the versions
of tests/cluster/crds.py; the schema of the status drops unknown fields, as theirs do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tests.scenarios.resources import CRDS

if TYPE_CHECKING:
    from tests.scenarios.beside.operators import Operator

Json = dict[str, Any]

_TEXT: Final[Json] = {"type": "string"}
_COUNT: Final[Json] = {"type": "integer", "format": "int32"}
_TIME: Final[Json] = {"type": "string", "format": "date-time"}
_CONDITION: Final[Json] = {
    "type": "object",
    "required": ["status", "type"],
    "properties": {
        "type": _TEXT,
        "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
        "reason": _TEXT,
        "message": _TEXT,
        "lastTransitionTime": _TIME,
        "lastUpdateTime": _TIME,
    },
}
_VOLCANO_PHASE: Final[Json] = {
    "type": "string",
    "enum": [
        *("Pending", "Aborting", "Aborted", "Running", "Restarting"),
        *("Completing", "Completed", "Terminating", "Terminated", "Failed"),
    ],
}


def _array(items: Json) -> Json:
    return {"type": "array", "items": items}


def _object(**properties: Json) -> Json:
    return {"type": "object", "properties": properties}


_STATUSES: Final[dict[str, Json]] = {
    "rayjobs.ray.io": _object(
        **dict.fromkeys(("jobDeploymentStatus", "jobStatus", "rayClusterName", "reason"), _TEXT),
        **dict.fromkeys(("succeeded", "failed"), _COUNT | {"default": 0}),
        **dict.fromkeys(("startTime", "endTime"), _TIME),
    ),
    "rayclusters.ray.io": _object(state=_TEXT, conditions=_array(_CONDITION)),
    "leaderworkersets.leaderworkerset.x-k8s.io": _object(
        **dict.fromkeys(("replicas", "readyReplicas", "updatedReplicas"), _COUNT), conditions=_array(_CONDITION)
    ),
    "jobs.batch.volcano.sh": _object(
        **dict.fromkeys(
            ("minAvailable", "retryCount", "pending", "running", "terminating", "succeeded", "failed"), _COUNT
        ),
        state=_object(phase=_VOLCANO_PHASE, lastTransitionTime=_TIME),
        conditions=_array(_object(status=_TEXT, lastTransitionTime=_TIME) | {"required": ["status"]}),
    ),
    "jaxjobs.kubeflow.org": _object(
        startTime=_TIME,
        conditions=_array(_CONDITION),
        replicaStatuses={"type": "object", "additionalProperties": _object(active=_COUNT)},
    ),
}


def definition(operator: Operator) -> Json:
    """Return the cut-down CRD of an operator's kind."""
    kind = operator.resource
    group, _, version = kind.api_version.partition("/")
    spec = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = {
        "name": version,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": _object(spec=spec, status=_STATUSES[operator.group_resource])},
    }
    return {
        "apiVersion": CRDS.api_version,
        "kind": CRDS.kind,
        "metadata": {"name": operator.group_resource},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": kind.plural, "singular": kind.kind.lower(), "kind": kind.kind},
            "versions": [served],
        },
    }
