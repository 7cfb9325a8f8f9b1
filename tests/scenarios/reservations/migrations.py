"""PodMigrationJobs, workloads and the state of both, for scenarios about migrations."""

from __future__ import annotations

from typing import Any, Final

from tests.scenarios.api import Api, Json
from tests.scenarios.eventually import eventually
from tests.scenarios.resources import EVENTS, POD_MIGRATION_JOBS, PODS

SCHEDULER: Final = "koord-scheduler"
ENDED: Final = frozenset({"Succeeded", "Failed"})


def migration(name: str, pod: Json, *, labels: dict[str, str] | None = None, **spec: Any) -> Json:
    """Return a job for a pod."""
    metadata = pod["metadata"]
    return {
        "apiVersion": POD_MIGRATION_JOBS.api_version,
        "kind": POD_MIGRATION_JOBS.kind,
        "metadata": {"name": name, **({"labels": labels} if labels else {})},
        "spec": {"podRef": {"namespace": metadata["namespace"], "name": metadata["name"]}, **spec},
    }


def deployment(
    name: str, *, replicas: int, cpu: str = "100m", labels: dict[str, str] | None = None, **pod_spec: Any
) -> Json:
    """Return a Deployment whose pods run until they are stopped; ``labels``: of its pods, beside the app."""
    selected = {"app": name}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu, "memory": "32Mi"}}}
    template = {
        "metadata": {"labels": selected | (labels or {})},
        "spec": {
            "schedulerName": SCHEDULER,
            "terminationGracePeriodSeconds": 1,
            "containers": [container],
            **pod_spec,
        },
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": selected}, "template": template},
    }


async def pods_of(api: Api, app: str, *, namespace: str = "default") -> list[Json]:
    """Return the pods of a Deployment that are not being deleted."""
    found = await api.all(PODS, namespace=namespace, labelSelector=f"app={app}")
    return [
        pod
        for pod in found
        if "deletionTimestamp" not in pod["metadata"] and not pod["metadata"]["name"].startswith("reservation-")
    ]


async def ready_pods(api: Api, app: str, count: int, *, namespace: str = "default", within: float = 30.0) -> list[Json]:
    """Wait until a Deployment has so many ready pods; return the pods."""
    return await eventually(
        lambda: pods_of(api, app, namespace=namespace),
        until=lambda pods: len(pods) == count and all(map(is_ready, pods)),
        within=within,
        saying=f"{count} pods of {app} are ready",
    )


def is_ready(pod: Json) -> bool:
    """Return whether a pod is ready."""
    conditions = pod.get("status", {}).get("conditions", ())
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


async def ended(api: Api, name: str, *, within: float = 40.0) -> Json:
    """Wait until a job has ended; return the job."""
    return await eventually(
        lambda: api.get(POD_MIGRATION_JOBS, name),
        until=lambda found: found.get("status", {}).get("phase") in ENDED,
        within=within,
        saying=f"job {name} has ended",
    )


def outcome(job: Json) -> tuple[str, str]:
    """Return phase and reason."""
    status = job.get("status", {})
    return status.get("phase", ""), status.get("reason", "")


def condition(job: Json, kind: str) -> tuple[str, str, str]:
    """Return status, reason and message of a condition; empty texts if the job lacks the condition."""
    found = next((each for each in job.get("status", {}).get("conditions", ()) if each["type"] == kind), {})
    return found.get("status", ""), found.get("reason", ""), found.get("message", "")


async def reasons(api: Api, regarding: Json) -> list[str]:
    """Return the reasons of the Events about an object, in the order of their creation."""
    uid = regarding["metadata"]["uid"]
    found = await api.all(EVENTS, fieldSelector=f"involvedObject.uid={uid}")
    ordered = sorted(found, key=lambda each: (each.get("eventTime") or "", int(each["metadata"]["resourceVersion"])))
    return [each["reason"] for each in ordered]
