"""The workload types that dra-reserve knows: one row for each, read by all parts that treat a type specially.

A claim may be reserved for an object of any kind. For the kinds below, the release rule, the permission to read them,
or the way from the object to its pods is built in.
"""

from typing import Final

from dra.model.meta import Struct
from dra.model.references import POD_GROUPS, GroupResource


class WorkloadType(Struct, frozen=True, kw_only=True):
    """One kind of workload."""

    resource: GroupResource
    version: str = ""
    """Version of the API, for kinds whose objects a Reservation names as controller."""

    kind: str = ""
    aliases: tuple[str, ...] = ()
    """Names without a group that kubectl accepts for the resource."""

    always_watched: bool = True
    """Whether the kind does not count against the bound on watched kinds."""

    readable: bool = False
    """Whether the manifests in deploy/ let the controller get, list and watch the kind."""

    release_rule: str = ""
    """CEL on ``object``, for kinds that end by themselves. A Deployment never does: its claim is released by its owner,
    or when it is deleted."""

    end: str = ""
    """The event that ends a workload with a release rule."""

    suspended_rule: str = ""
    """CEL on ``object``, true while a suspended workload has no pods and can be resumed (Kueue suspends workloads)."""

    controls_pods: bool = False
    """Whether its pods have an object of this kind as controller."""

    pods_belong_to: str = ""
    """The controller of its pods, for kinds whose pods have another one."""

    scalable: bool = False
    """Whether ``spec.replicas`` is the number of its pods."""

    @property
    def api_version(self) -> str:
        """The apiVersion of its objects."""
        return f"{self.resource.group}/{self.version}" if self.resource.group else self.version


JOBS: Final = GroupResource(resource="jobs", group="batch")
PODS: Final = GroupResource(resource="pods")

_COMPLETES: Final = "completes or fails, or is deleted"
_SUCCEEDS: Final = "succeeds or fails, or is deleted"

_COMPLETE_OR_FAILED: Final = (
    "object.status.conditions.exists(c, c.type in ['Complete', 'Failed'] && c.status == 'True')"
)
_SUCCEEDED_OR_FAILED: Final = (
    "object.status.conditions.exists(c, c.type in ['Succeeded', 'Failed'] && c.status == 'True')"
)

_SUSPENDED: Final = "object.spec.suspend"

_TRAINING_OPERATOR_KINDS: Final = {
    "pytorchjobs": "PyTorchJob",
    "tfjobs": "TFJob",
    "mpijobs": "MPIJob",
    "xgboostjobs": "XGBoostJob",
    "paddlejobs": "PaddleJob",
    "jaxjobs": "JAXJob",
}
"""Resources of the group kubeflow.org whose objects share one status, and their kinds."""

WORKLOAD_TYPES: Final = (
    WorkloadType(
        resource=JOBS,
        version="v1",
        kind="Job",
        aliases=("job", "jobs"),
        readable=True,
        release_rule=_COMPLETE_OR_FAILED,
        end=_COMPLETES,
        suspended_rule=_SUSPENDED,
        controls_pods=True,
    ),
    WorkloadType(
        resource=GroupResource(resource="jobsets", group="jobset.x-k8s.io"),
        kind="JobSet",
        always_watched=False,
        readable=True,
        release_rule="object.status.conditions.exists(c, c.type in ['Completed', 'Failed'] && c.status == 'True')",
        end=_COMPLETES,
        suspended_rule=_SUSPENDED,
        pods_belong_to="its Jobs",
    ),
    WorkloadType(
        resource=GroupResource(resource="rayjobs", group="ray.io"),
        kind="RayJob",
        always_watched=False,
        readable=True,
        release_rule="object.status.jobDeploymentStatus in ['Complete', 'Failed']",
        end=_COMPLETES,
        suspended_rule=_SUSPENDED,
        pods_belong_to="its RayCluster, whose name changes",
    ),
    WorkloadType(
        resource=GroupResource(resource="rayclusters", group="ray.io"),
        version="v1",
        kind="RayCluster",
        always_watched=False,
        readable=True,
        suspended_rule=_SUSPENDED,
        controls_pods=True,
    ),
    WorkloadType(
        resource=GroupResource(resource="trainjobs", group="trainer.kubeflow.org"),
        kind="TrainJob",
        always_watched=False,
        readable=True,
        release_rule=_COMPLETE_OR_FAILED,
        end=_COMPLETES,
        suspended_rule=_SUSPENDED,
        pods_belong_to="the Jobs of its JobSet",
    ),
    *(
        WorkloadType(
            resource=GroupResource(resource=resource, group="kubeflow.org"),
            kind=kind,
            always_watched=False,
            readable=True,
            release_rule=_SUCCEEDED_OR_FAILED,
            end=_SUCCEEDS,
            suspended_rule="object.spec.runPolicy.suspend",
        )
        for resource, kind in _TRAINING_OPERATOR_KINDS.items()
    ),
    WorkloadType(
        resource=GroupResource(resource="leaderworkersets", group="leaderworkerset.x-k8s.io"),
        kind="LeaderWorkerSet",
        always_watched=False,
        readable=True,
        pods_belong_to="its StatefulSets",
    ),
    WorkloadType(
        resource=GroupResource(resource="jobs", group="batch.volcano.sh"),
        kind="Job",
        always_watched=False,
        readable=True,
        # Not Aborted: a Command resumes an aborted Job.
        release_rule="object.status.state.phase in ['Completed', 'Failed', 'Terminated']",
        end="completes, fails or is terminated, or is deleted",
        suspended_rule="object.status.state.phase == 'Aborted'",
    ),
    WorkloadType(
        resource=GroupResource(resource="workloads", group="kueue.x-k8s.io"),
        kind="Workload",
        always_watched=False,
        readable=True,
        release_rule="object.status.conditions.exists(c, c.type == 'Finished' && c.status == 'True')",
        end="finishes, or is deleted",
        suspended_rule="object.status.conditions.exists(c, c.type == 'Evicted' && c.status == 'True')",
    ),
    WorkloadType(
        resource=GroupResource(resource="deployments", group="apps"),
        kind="Deployment",
        aliases=("deploy", "deployment", "deployments"),
        readable=True,
        pods_belong_to="its ReplicaSets, whose names change",
        scalable=True,
    ),
    WorkloadType(
        resource=GroupResource(resource="statefulsets", group="apps"),
        version="v1",
        kind="StatefulSet",
        aliases=("sts", "statefulset", "statefulsets"),
        readable=True,
        controls_pods=True,
        scalable=True,
    ),
    WorkloadType(
        resource=GroupResource(resource="replicasets", group="apps"),
        version="v1",
        kind="ReplicaSet",
        aliases=("rs", "replicaset", "replicasets"),
        readable=True,
        controls_pods=True,
        scalable=True,
    ),
    WorkloadType(
        resource=GroupResource(resource="daemonsets", group="apps"),
        version="v1",
        kind="DaemonSet",
        aliases=("ds", "daemonset", "daemonsets"),
        controls_pods=True,
    ),
    WorkloadType(
        resource=GroupResource(resource="replicationcontrollers"),
        version="v1",
        kind="ReplicationController",
        aliases=("rc", "replicationcontroller"),
        always_watched=False,
        controls_pods=True,
    ),
    WorkloadType(
        resource=GroupResource(resource="cronjobs", group="batch"),
        kind="CronJob",
        aliases=("cj", "cronjob", "cronjobs"),
        pods_belong_to="its Jobs, whose names change",
    ),
    WorkloadType(
        resource=PODS,
        kind="Pod",
        aliases=("po", "pod"),
        release_rule="object.status.phase in ['Succeeded', 'Failed']",
        end="ends",
    ),
    WorkloadType(resource=POD_GROUPS, kind="PodGroup"),
)

RELEASE_RULES: Final = {
    str(workload_type.resource): workload_type.release_rule
    for workload_type in WORKLOAD_TYPES
    if workload_type.release_rule
}
"""Resource → CEL on ``object``, in the order in which the rules are listed."""

SUSPENDED_RULES: Final = {
    str(workload_type.resource): workload_type.suspended_rule
    for workload_type in WORKLOAD_TYPES
    if workload_type.suspended_rule
}
"""Resource → CEL on ``object``: whether the workload is suspended."""
