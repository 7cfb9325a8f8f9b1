"""The state of the pod that a job migrates.

A pod that the watch does not show proves nothing: only a live read shows that the pod is gone, or another pod of the
same name.
"""

from datetime import datetime
from enum import StrEnum

from dra.engine.instants import WallTime
from dra.engine.migration.view import JobView, MigrationPod


class PodState(StrEnum):
    """The state of the pod that a job migrates."""

    UNSEEN = "Unseen"
    """The watch does not show the pod; a live read has to."""
    PRESENT = "Present"
    TERMINATING = "Terminating"
    """Being deleted, by an eviction or by another client."""
    FAILED = "Failed"
    """The containers have ended with an error; a workload replaces such a pod."""
    FINISHED = "Finished"
    """The containers have ended as they should; nothing is left to migrate."""
    GONE = "Gone"


def pod_state(view: JobView) -> PodState:
    """Return the state of the pod that a job migrates."""
    pod, wanted = view.pod, view.job.spec.pod_ref.uid
    read_uid = ((view.pod_template or {}).get("metadata") or {}).get("uid")
    if view.pod_gone or (wanted and read_uid and read_uid != wanted):
        return PodState.GONE
    if pod is None:
        return PodState.UNSEEN
    if wanted and pod.metadata.uid != wanted:
        return PodState.GONE
    if pod.metadata.deleting:
        return PodState.TERMINATING
    return {"Failed": PodState.FAILED, "Succeeded": PodState.FINISHED}.get(pod.status.phase, PodState.PRESENT)


def created_at(pod: MigrationPod) -> WallTime:
    """Return when a pod was created; 0 if that is unknown."""
    given = pod.metadata.creation_timestamp
    return datetime.fromisoformat(given).timestamp() if given else 0.0
