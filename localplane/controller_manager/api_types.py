"""Pods and workloads as their controllers read them; templates stay plain data, because they are only copied."""

from datetime import datetime
from typing import Any

import msgspec

from dra.kube.resources import Resource
from dra.model.meta import ObjectMeta, Struct
from dra.model.pods import TERMINAL_PHASES, ContainerStatus
from dra.model.scheduling import Toleration


class Condition(Struct, frozen=True):
    """A condition in the status of any object."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None
    last_update_time: str | None = None
    last_probe_time: str | None = None


class TimedToleration(Toleration, frozen=True):
    """``tolerations[]`` of a Pod, with the seconds that the pod stays; None: for any time."""

    toleration_seconds: int | None = None


class PodSpec(Struct, frozen=True):
    """``spec`` of a Pod, as far as controllers read the spec."""

    node_name: str = ""
    restart_policy: str = ""
    tolerations: list[TimedToleration] | None = None


class PodStatus(Struct, frozen=True):
    """``status`` of a Pod, as far as controllers read the status."""

    phase: str = ""
    conditions: list[Condition] | None = None
    container_statuses: list[ContainerStatus] | None = None


class Pod(Struct, frozen=True):
    """A Pod with the fields that controllers read."""

    metadata: ObjectMeta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def terminal(self) -> bool:
        """Report whether the pod's containers have ended for good."""
        return self.status.phase in TERMINAL_PHASES

    @property
    def active(self) -> bool:
        """Report whether the pod is neither terminal nor being deleted."""
        return not self.terminal and self.metadata.deletion_timestamp is None

    @property
    def ready_since(self) -> str | None:
        """Return the time when the pod became ready; None if the pod is not ready."""
        for condition in self.status.conditions or ():
            if condition.type == "Ready" and condition.status == "True":
                return condition.last_transition_time or ""
        return None

    @property
    def ready(self) -> bool:
        """Report whether the pod is ready."""
        return self.ready_since is not None

    @property
    def restarts(self) -> int:
        """Return the number of restarts of the pod's containers."""
        return sum(status.restart_count for status in self.status.container_statuses or ())


class PodTemplateSpec(Struct, frozen=True):
    """``spec.template`` of a workload: metadata and spec as plain data."""

    metadata: dict[str, Any] | None = None
    spec: dict[str, Any] = msgspec.field(default_factory=dict)


class ReplicaSetSpec(Struct, frozen=True):
    """``spec`` of a ReplicaSet, as far as controllers read the spec."""

    replicas: int = 1
    min_ready_seconds: int = 0
    selector: dict[str, Any] | None = None
    template: PodTemplateSpec = PodTemplateSpec()


class ReplicaSetStatus(Struct, frozen=True):
    """``status`` of a ReplicaSet, as far as controllers read the status."""

    replicas: int = 0
    fully_labeled_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    observed_generation: int = 0


class ReplicaSet(Struct, frozen=True):
    """A ReplicaSet with the fields that controllers read."""

    metadata: ObjectMeta
    spec: ReplicaSetSpec = ReplicaSetSpec()
    status: ReplicaSetStatus = ReplicaSetStatus()


def controller_references(resource: Resource, metadata: ObjectMeta) -> list[dict[str, Any]]:
    """Return the owner references of objects that a controller creates for an object."""
    reference = {"apiVersion": resource.api_version, "kind": resource.kind, "name": metadata.name, "uid": metadata.uid}
    return [{**reference, "controller": True, "blockOwnerDeletion": True}]


def pod_from_template(template: PodTemplateSpec, *, name: str, owners: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a pod made from a template; `name` is the prefix of its generated name."""
    metadata = {k: v for k, v in (template.metadata or {}).items() if k in ("labels", "annotations", "finalizers")}
    return {"metadata": {**metadata, "generateName": name, "ownerReferences": owners}, "spec": template.spec}


def parse_time(text: str | None) -> datetime | None:
    """Return the datetime of an API timestamp; None if there is none."""
    return datetime.fromisoformat(text) if text else None
