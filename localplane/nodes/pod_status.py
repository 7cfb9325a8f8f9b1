"""The ``status`` that a kubelet writes for a pod, generated from the state of its pod worker: pure."""

from typing import Any, Final

from dra.model.pods import POD_READY_TO_START_CONTAINERS
from localplane.nodes.pod_workers import ContainerRun, PodWorker, PodWorkerState

HOST_IP: Final = "127.0.0.1"


def generate_pod_status(worker: PodWorker, *, wall: str) -> dict[str, Any]:
    """Return the status fields that a kubelet owns; as a merge patch, they leave all other fields alone."""
    worker.started_at = worker.started_at or worker.pod.status.start_time or wall
    host = worker.pod.spec.host_network
    address = HOST_IP if host else worker.address
    networked = worker.has_sandbox or not worker.never_started
    return {
        "phase": worker.phase,
        "conditions": _conditions(worker, wall=wall),
        "hostIP": HOST_IP,
        "hostIPs": [{"ip": HOST_IP}],
        **({"podIP": address, "podIPs": [{"ip": address}]} if networked else {}),
        "startTime": worker.started_at,
        "containerStatuses": _container_statuses(worker),
    }


def _conditions(worker: PodWorker, *, wall: str) -> list[dict[str, Any]]:
    """Return all conditions: other components' conditions unchanged, the kubelet's with their transition times."""
    known = {c.get("type"): c for c in worker.pod.status.conditions or ()}
    unready = [run.name for run in worker.containers if not run.running]
    if worker.never_started:
        unready = [container.name for container in worker.pod.spec.containers or ()]
    if not unready and worker.has_sandbox:
        ready: dict[str, Any] = {"status": "True"}
    elif worker.state is PodWorkerState.TERMINATED:
        ready = {"status": "False", "reason": "PodCompleted" if worker.phase == "Succeeded" else "PodFailed"}
    else:
        message = f"containers with unready status: [{' '.join(unready)}]"
        ready = {"status": "False", "reason": "ContainersNotReady", "message": message}
    wanted: dict[str, dict[str, Any]] = {
        POD_READY_TO_START_CONTAINERS: {"status": "True" if worker.has_sandbox else "False"},
        "Initialized": {"status": "True"},
        "Ready": ready,
        "ContainersReady": ready,
    }
    if "PodScheduled" not in known:
        wanted["PodScheduled"] = {"status": "True"}
    generation = worker.pod.metadata.generation
    observed = {"observedGeneration": generation} if generation else {}
    ours = []
    for kind, state in wanted.items():
        before = known.get(kind, {})
        moved = before.get("status") != state["status"]
        since = wall if moved else before.get("lastTransitionTime", wall)
        ours.append({"type": kind, "lastProbeTime": None, "lastTransitionTime": since, **observed, **state})
    return [*ours, *(c for kind, c in known.items() if kind not in wanted)]


def _container_statuses(worker: PodWorker) -> list[dict[str, Any]]:
    runs = {run.name: run for run in worker.containers}
    return [
        _container_status(worker, runs.get(c.name) or ContainerRun(c.name), c.image)
        for c in worker.pod.spec.containers or ()
    ]


def _container_status(worker: PodWorker, run: ContainerRun, image: str) -> dict[str, Any]:
    past = {
        "terminated": {
            "exitCode": run.exit_code,
            "reason": "Completed" if run.exit_code == 0 else "Error",
            "startedAt": run.started_at or None,
            "finishedAt": run.finished_at or None,
            "containerID": f"emulated://{worker.pod.metadata.uid}/{run.name}/{run.restarts}",
        }
    }
    last: dict[str, Any] = {}
    if run.running:
        state: dict[str, Any] = {"running": {"startedAt": run.started_at}}
        last = past if run.exit_code is not None else {}
    elif not run.started_at:
        state = {"waiting": {"reason": "ContainerCreating"}}
    elif run.restart_at is not None and run.failures > 1:
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
        **({"allocatedResourcesStatus": resources} if (resources := worker.resources.get(run.name)) else {}),
        **(
            {"containerID": f"emulated://{worker.pod.metadata.uid}/{run.name}/{run.restarts}"} if run.started_at else {}
        ),
    }
