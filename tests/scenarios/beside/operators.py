"""The statuses that operators write to their workloads, state by state, and the smallest workloads that schemas accept.

Read in the operators' sources at the versions of tests/cluster/crds.py: JobSet pkg/controllers/jobset_controller.go,
Kubeflow Trainer pkg/controller/trainjob_controller.go, Kubeflow's training-operator pkg/util/status.go, Kueue
pkg/workload, KubeRay controllers/ray, LeaderWorkerSet pkg/controllers, Volcano pkg/controllers/job/state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tests.scenarios.resources import Resource
from tests.scenarios.workload_kinds import CUSTOM_KINDS

Json = dict[str, Any]

WHEN: Final = "2026-11-24T06:00:00Z"
"""The time of each transition: no rule looks at times."""

FINISHED_JOBS: Final = {"name": "workers", "ready": 0, "succeeded": 1, "failed": 0, "active": 0, "suspended": 0}
"""What JobSets and TrainJobs say of their child Jobs."""

RUNNING_JOBS: Final = FINISHED_JOBS | {"ready": 1, "succeeded": 0, "active": 1}
SUSPENDED_JOBS: Final = FINISHED_JOBS | {"succeeded": 0, "suspended": 1}


@dataclass(frozen=True, kw_only=True)
class Operator:
    """An operator of one kind of workload, as a claim's release rule sees the operator: by statuses."""

    resource: Resource
    spec: Callable[[Json], Json]
    """Makes the smallest spec from the spec of a pod."""
    unfinished: Mapping[str, Json]
    """Statuses of a workload that runs, waits or can go on; in the order in which the operator writes them."""
    finished: Mapping[str, Json] = field(default_factory=dict)
    """Statuses of a workload that has ended for good; empty for kinds without an end."""
    takes_back: str = ""
    """The unfinished state between which and a finished state an operator toggles."""
    names_claims: bool = True
    """Whether the schema has room for a claim in the pods' spec."""

    @property
    def group_resource(self) -> str:
        """The resource and the group, as a claim names them."""
        return f"{self.resource.plural}.{self.resource.api_version.partition('/')[0]}"

    def workload(self, name: str, *, claim: str) -> Json:
        """Return a workload whose pods use the claim, where the kind itself says what its pods use."""
        pod: Json = {"containers": [{"name": "main", "image": "busybox:1.37"}]}
        if self.names_claims:
            pod["containers"][0]["resources"] = {"claims": [{"name": "device"}]}
            pod["resourceClaims"] = [{"name": "device", "resourceClaimName": claim}]
        return {
            "apiVersion": self.resource.api_version,
            "kind": self.resource.kind,
            "metadata": {"name": name},
            "spec": self.spec(pod),
        }


def conditions(*conditions: tuple[str, bool, str]) -> list[Json]:
    """Return conditions as most operators write them, from type, status and reason."""
    return [
        {
            "type": kind,
            "status": str(status),
            "reason": reason,
            "message": f"the reason is {reason}",
            "lastTransitionTime": WHEN,
        }
        for kind, status, reason in conditions
    ]


JOB_SETS: Final = Operator(
    resource=CUSTOM_KINDS["jobsets"],
    spec=lambda pod: {"replicatedJobs": [{"name": "workers", "template": {"spec": {"template": {"spec": pod}}}}]},
    unfinished={
        "running": {"restarts": 0, "replicatedJobsStatus": [RUNNING_JOBS]},
        "suspended": {
            "replicatedJobsStatus": [SUSPENDED_JOBS],
            "conditions": conditions(
                ("Suspended", True, "SuspendedJobs"), ("RestartingJobSet", False, "JobSetSuspended")
            ),
        },
        "resumed": {
            "replicatedJobsStatus": [RUNNING_JOBS],
            "conditions": conditions(
                ("Suspended", False, "ResumeJobs"), ("StartupPolicyCompleted", True, "InOrderStartupPolicyCompleted")
            ),
        },
        "restarting": {
            "restarts": 1,
            "restartsCountTowardsMax": 1,
            "replicatedJobsStatus": [FINISHED_JOBS | {"succeeded": 0, "failed": 1}],
            "conditions": conditions(("RestartingJobSet", True, "DefaultFailurePolicy")),
        },
    },
    finished={
        "completed": {
            "replicatedJobsStatus": [FINISHED_JOBS],
            "terminalState": "Completed",
            "conditions": conditions(
                ("RestartingJobSet", False, "JobSetCompleted"), ("Completed", True, "AllJobsCompleted")
            ),
        },
        "failed": {
            "terminalState": "Failed",
            "restarts": 1,
            "conditions": conditions(
                ("RestartingJobSet", False, "JobSetFailed"), ("Failed", True, "ReachedMaxRestarts")
            ),
        },
    },
    takes_back="restarting",
)


def _train_job(pod: Json) -> Json:
    """Return the spec of a TrainJob, whose pods' spec belongs to its runtime: a TrainJob may patch some fields."""
    spec = {
        "replicatedJobs": [{"name": "node", "template": {"spec": {"template": {"spec": _without_containers(pod)}}}}]
    }
    patch = {"manager": "scenario.dra/player", "trainingRuntimeSpec": {"template": {"spec": spec}}}
    return {"runtimeRef": {"name": "torch-distributed"}, "runtimePatches": [patch]}


def _without_containers(pod: Json) -> Json:
    return {name: value for name, value in pod.items() if name != "containers"}


TRAIN_JOBS: Final = Operator(
    resource=CUSTOM_KINDS["trainjobs"],
    spec=_train_job,
    unfinished={
        "running": {"jobsStatus": [RUNNING_JOBS]},
        "suspended": {
            "jobsStatus": [SUSPENDED_JOBS],
            "conditions": conditions(("Suspended", True, "Suspended")),
        },
        "resumed": {"jobsStatus": [RUNNING_JOBS], "conditions": conditions(("Suspended", False, "Resumed"))},
    },
    finished={
        "complete": {"jobsStatus": [FINISHED_JOBS], "conditions": conditions(("Complete", True, "AllJobsCompleted"))},
        "failed": {"conditions": conditions(("Suspended", False, "Resumed"), ("Failed", True, "FailedJobs"))},
    },
    # Each reconciliation removes the condition Failed; only the JobSet's condition brings it back.
    takes_back="running",
    names_claims=False,
)


def _training_job(alias: str, *, replicas: str, role: str, names_claims: bool) -> Operator:
    """Return the operator of a kind whose jobs are told apart by little but the name of their replicas' field."""
    kind = CUSTOM_KINDS[alias].kind

    def status(*states: tuple[str, bool]) -> Json:
        resumed = {("Suspended", False): "Resumed"}
        found = [(state, holds, f"{kind}{resumed.get((state, holds), state)}") for state, holds in states]
        return {
            "startTime": WHEN,
            "replicaStatuses": {role: {"active": 1}},
            "conditions": [each | {"lastUpdateTime": WHEN} for each in conditions(*found)],
        }

    return Operator(
        resource=CUSTOM_KINDS[alias],
        spec=lambda pod: {replicas: {role: {"replicas": 1, "template": {"spec": pod}}}},
        unfinished={
            "created": status(("Created", True)),
            "running": status(("Created", True), ("Running", True)),
            "suspended": status(("Created", True), ("Running", False), ("Suspended", True)),
            "restarting": status(("Created", True), ("Suspended", False), ("Restarting", True)),
        },
        finished={
            "succeeded": status(("Created", True), ("Running", False), ("Succeeded", True)),
            "failed": status(("Created", True), ("Running", False), ("Failed", True)),
        },
        takes_back="restarting",
        names_claims=names_claims,
    )


def training_jobs(*, names_claims: bool) -> tuple[Operator, ...]:
    """Return the operators of all kinds of training-operator but JAXJob."""
    rows = {
        "pytorchjobs": ("pytorchReplicaSpecs", "Master"),
        "tfjobs": ("tfReplicaSpecs", "Chief"),
        "mpijobs": ("mpiReplicaSpecs", "Launcher"),
        "xgboostjobs": ("xgbReplicaSpecs", "Master"),
        "paddlejobs": ("paddleReplicaSpecs", "Worker"),
    }
    return tuple(
        _training_job(alias, replicas=replicas, role=role, names_claims=names_claims)
        for alias, (replicas, role) in rows.items()
    )


JAX_JOBS: Final = _training_job("jaxjobs", replicas="jaxReplicaSpecs", role="Worker", names_claims=True)


def _admitted(*more: tuple[str, bool, str]) -> Json:
    admission = {"clusterQueue": "all", "podSetAssignments": [{"name": "main", "count": 1}]}
    held = ("QuotaReserved", True, "QuotaReserved"), ("Admitted", True, "Admitted")
    return {"admission": admission, "conditions": conditions(*held, *more)}


WORKLOADS: Final = Operator(
    resource=CUSTOM_KINDS["workloads"],
    spec=lambda pod: {
        "queueName": "team",
        "podSets": [{"name": "main", "count": 1, "template": {"spec": pod | {"restartPolicy": "Never"}}}],
    },
    unfinished={
        "pending": {"conditions": conditions(("QuotaReserved", False, "WaitingForQuota"))},
        "admitted": _admitted(),
        "running": _admitted(("PodsReady", True, "Started")),
        "evicted": _admitted(
            ("PodsReady", False, "WaitForStart"), ("Evicted", True, "Preempted"), ("Preempted", True, "InClusterQueue")
        ),
        "requeued": {
            "requeueState": {"count": 1},
            "conditions": conditions(
                ("QuotaReserved", False, "Pending"),
                ("Admitted", False, "NoReservation"),
                ("Evicted", True, "Preempted"),
                ("Requeued", True, "Preempted"),
            ),
        },
        "admitted-again": _admitted(("Evicted", False, "QuotaReserved"), ("Preempted", False, "QuotaReserved")),
    },
    finished={"finished": _admitted(("Finished", True, "Succeeded"))},
    takes_back="admitted-again",
)


def _ray_job(status: str, **more: Any) -> Json:
    """Return the status of a RayJob; the operator leaves out a status that is empty."""
    deployment = {"jobDeploymentStatus": status} if status else {}
    return {"rayClusterName": "ray-1", "startTime": WHEN, **deployment, **more}


def _ray_cluster(pod: Json) -> Json:
    return {"headGroupSpec": {"template": {"spec": pod}}}


RAY_JOBS: Final = Operator(
    resource=CUSTOM_KINDS["rayjobs"],
    spec=lambda pod: {"entrypoint": "python train.py", "backoffLimit": 1, "rayClusterSpec": _ray_cluster(pod)},
    unfinished={
        "initializing": _ray_job("Initializing"),
        "running": _ray_job("Running", jobStatus="RUNNING"),
        "succeeded-while-the-submitter-runs": _ray_job("Running", jobStatus="SUCCEEDED"),
        "suspending": _ray_job("Suspending", jobStatus="RUNNING"),
        "suspended": {"startTime": WHEN, "jobDeploymentStatus": "Suspended"},
        "new": _ray_job(""),
        "waiting": _ray_job("Waiting"),
        "retrying": _ray_job("Retrying", jobStatus="FAILED", failed=1, reason="AppFailed"),
    },
    finished={
        "complete": _ray_job("Complete", jobStatus="SUCCEEDED", succeeded=1, endTime=WHEN),
        "failed": _ray_job("Failed", jobStatus="FAILED", failed=2, reason="AppFailed", endTime=WHEN),
    },
    takes_back="retrying",
)

RAY_CLUSTERS: Final = Operator(
    resource=CUSTOM_KINDS["rayclusters"],
    spec=_ray_cluster,
    unfinished={
        "ready": {
            "state": "ready",
            "conditions": conditions(("RayClusterProvisioned", True, "AllPodRunningAndReadyFirstTime")),
        },
        "suspending": {
            "state": "ready",
            "conditions": conditions(("RayClusterSuspending", True, "RayClusterSuspending")),
        },
        "suspended": {
            "state": "suspended",
            "conditions": conditions(("RayClusterSuspended", True, "RayClusterSuspended")),
        },
        "failed": {"state": "failed", "conditions": conditions(("ReplicaFailure", True, "FailedCreateWorkerPod"))},
    },
)

LEADER_WORKER_SETS: Final = Operator(
    resource=CUSTOM_KINDS["leaderworkersets"],
    spec=lambda pod: {"replicas": 1, "leaderWorkerTemplate": {"size": 2, "workerTemplate": {"spec": pod}}},
    unfinished={
        "progressing": {"replicas": 1, "conditions": conditions(("Progressing", True, "GroupsProgressing"))},
        "available": {
            "replicas": 1,
            "readyReplicas": 1,
            "conditions": conditions(
                ("Progressing", False, "GroupsProgressing"), ("Available", True, "AllGroupsReady")
            ),
        },
        "updating": {
            "replicas": 1,
            "updatedReplicas": 0,
            "conditions": conditions(
                ("Available", False, "AllGroupsReady"), ("UpdateInProgress", True, "GroupsUpdating")
            ),
        },
        "scaled-to-zero": {"replicas": 0, "conditions": conditions(("Available", True, "AllGroupsReady"))},
    },
)


def _volcano(phase: str, **more: Any) -> Json:
    """Return the status of a Volcano Job; its conditions are the phases that it has been in."""
    state = {"phase": phase, "lastTransitionTime": WHEN}
    return {"state": state, "minAvailable": 1, "conditions": [{"status": phase, "lastTransitionTime": WHEN}], **more}


VOLCANO_JOBS: Final = Operator(
    resource=CUSTOM_KINDS["volcanojobs"],
    spec=lambda pod: {
        "minAvailable": 1,
        "schedulerName": "volcano",
        "tasks": [{"name": "worker", "replicas": 1, "template": {"spec": pod}}],
    },
    unfinished={
        "pending": _volcano("Pending", pending=1),
        "running": _volcano("Running", running=1),
        "aborting": _volcano("Aborting", terminating=1),
        "aborted-until-a-command-resumes": _volcano("Aborted"),
        "restarting": _volcano("Restarting", retryCount=1),
        "completing": _volcano("Completing", terminating=1),
        "terminating": _volcano("Terminating", terminating=1),
    },
    finished={
        "completed": _volcano("Completed", succeeded=1),
        "failed": _volcano("Failed", failed=1, retryCount=3),
        "terminated": _volcano("Terminated"),
    },
    takes_back="restarting",
)
