"""The ``status`` that a kubelet writes for a pod, generated from the state of its pod worker: pure."""

from typing import Any, Final

from dra.model.pods import POD_READY_TO_START_CONTAINERS
from localplane.nodes.pod_workers import ContainerRun, PodWorker, PodWorkerState

HOST_IP: Final = "127.0.0.1"


def generate_pod_status(resident: PodWorker, *, wall: str) -> dict[str, Any]:
    """Return the status fields that a kubelet owns; as a merge patch, they leave all other fields alone."""
    resident.started_at = resident.started_at or resident.pod.status.start_time or wall
    host = resident.pod.spec.host_network
    address = HOST_IP if host else resident.address
    networked = resident.sandbox or not resident.never_ran
    return {
        "phase": resident.phase,
        "conditions": _conditions(resident, wall=wall),
        "hostIP": HOST_IP,
        "hostIPs": [{"ip": HOST_IP}],
        **({"podIP": address, "podIPs": [{"ip": address}]} if networked else {}),
        "startTime": resident.started_at,
        "containerStatuses": _container_statuses(resident),
    }


def _conditions(resident: PodWorker, *, wall: str) -> list[dict[str, Any]]:
    """Return all conditions: other components' conditions unchanged, the kubelet's with their transition times."""
    known = {c.get("type"): c for c in resident.pod.status.conditions or ()}
    unready = [run.name for run in resident.runs if not run.running]
    if resident.never_ran:
        unready = [container.name for container in resident.pod.spec.containers or ()]
    if not unready and resident.sandbox:
        ready: dict[str, Any] = {"status": "True"}
    elif resident.stage is PodWorkerState.DONE:
        ready = {"status": "False", "reason": "PodCompleted" if resident.phase == "Succeeded" else "PodFailed"}
    else:
        message = f"containers with unready status: [{' '.join(unready)}]"
        ready = {"status": "False", "reason": "ContainersNotReady", "message": message}
    wanted: dict[str, dict[str, Any]] = {
        POD_READY_TO_START_CONTAINERS: {"status": "True" if resident.sandbox else "False"},
        "Initialized": {"status": "True"},
        "Ready": ready,
        "ContainersReady": ready,
    }
    if "PodScheduled" not in known:
        wanted["PodScheduled"] = {"status": "True"}
    generation = resident.pod.metadata.generation
    observed = {"observedGeneration": generation} if generation else {}
    ours = []
    for kind, state in wanted.items():
        before = known.get(kind, {})
        moved = before.get("status") != state["status"]
        since = wall if moved else before.get("lastTransitionTime", wall)
        ours.append({"type": kind, "lastProbeTime": None, "lastTransitionTime": since, **observed, **state})
    return [*ours, *(c for kind, c in known.items() if kind not in wanted)]


def _container_statuses(resident: PodWorker) -> list[dict[str, Any]]:
    runs = {run.name: run for run in resident.runs}
    return [
        _container_status(resident, runs.get(c.name) or ContainerRun(c.name), c.image)
        for c in resident.pod.spec.containers or ()
    ]


def _container_status(resident: PodWorker, run: ContainerRun, image: str) -> dict[str, Any]:
    past = {
        "terminated": {
            "exitCode": run.exit_code,
            "reason": "Completed" if run.exit_code == 0 else "Error",
            "startedAt": run.started_at or None,
            "finishedAt": run.finished_at or None,
            "containerID": f"emulated://{resident.pod.metadata.uid}/{run.name}/{run.restarts}",
        }
    }
    last: dict[str, Any] = {}
    if run.running:
        state: dict[str, Any] = {"running": {"startedAt": run.started_at}}
        last = past if run.exit_code is not None else {}
    elif not run.started_at:
        state = {"waiting": {"reason": "ContainerCreating"}}
    elif run.again is not None and run.failures > 1:
        wait = f"back-off restarting failed container {run.name}"
        state, last = {"waiting": {"reason": "CrashLoopBackOff", "message": wait}}, past
    else:
        state = past
    return {
        "name": run.name,
        "image": image,
        "imageID": "",
        "ready": run.running,
        "started": run.running,
        "restartCount": run.restarts,
        "state": state,
        "lastState": last,
        **({"allocatedResourcesStatus": resources} if (resources := resident.resources.get(run.name)) else {}),
        **(
            {"containerID": f"emulated://{resident.pod.metadata.uid}/{run.name}/{run.restarts}"}
            if run.started_at
            else {}
        ),
    }
