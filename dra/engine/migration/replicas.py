"""The replicas that a workload wants, by its own fields or by its subresource ``scale``."""

from typing import Final

from dra.model.meta import ObjectMeta, OwnerReference, Struct

DEFAULT_REPLICAS: Final = 1
"""Value that the API server gives to an absent ``spec.replicas``, and to an absent ``spec.parallelism`` of a Job."""

_JOB: Final = "Job"


class WorkloadSpec(Struct, frozen=True):
    """``spec`` of a workload, with the fields that tell its replicas."""

    replicas: int | None = None
    parallelism: int | None = None


class Workload(Struct, frozen=True):
    """A workload of Kubernetes' own kinds, or the subresource ``scale`` of any other one."""

    metadata: ObjectMeta
    spec: WorkloadSpec = WorkloadSpec()


def wanted_replicas(workload: Workload, owner: OwnerReference) -> int | None:
    """Return the replicas of a workload of Kubernetes' own kinds; None if it is not the owner that its pods name."""
    if workload.metadata.uid != owner.uid:
        return None
    given = workload.spec.parallelism if owner.kind == _JOB else workload.spec.replicas
    return DEFAULT_REPLICAS if given is None else given


def scale_replicas(scale: Workload, owner: OwnerReference) -> int | None:
    """Return the replicas in a subresource ``scale``; None if it is not that of the owner that its pods name."""
    return scale.spec.replicas or 0 if scale.metadata.uid == owner.uid else None
