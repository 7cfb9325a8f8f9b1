"""The targets of batch pods' cgroups, which have the names that the container runtime gave them."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from dra.engine.kube_scheduler.pod_requests import pod_requests
from dra.engine.suppression.batch_pod_limits import BatchPodLimits, CgroupLimits, batch_pod_limits, cpu_shares
from dra.engine.suppression.cpu_weights import WeightFormula, cpu_weight, detect_weight_formula
from dra.engine.suppression.writes import CgroupTarget
from dra.model.meta import Struct
from dra.model.node_pods import NodePod
from dra.model.quantities import CPU, NANOS_PER_UNIT
from kubeletplugin.cgroups.cgroup_names import CgroupPath
from kubeletplugin.colocation.batch_pods.cgroup_values import ClassCgroups
from kubeletplugin.colocation.node_state import PodOnNode

_SAMPLES_MAX: Final = 16
"""Pods of the kubelet's that are asked for the formula of weights."""

_NANOS_PER_MILLI: Final = NANOS_PER_UNIT // 1000


class PodTargets(Struct, frozen=True):
    """The targets of all cgroups of batch pods."""

    targets: Mapping[CgroupPath, CgroupTarget]
    fractions: tuple[str, ...]
    """Pods with a batch-cpu that is no whole number of milli-CPUs."""

    outside: tuple[str, ...]
    """Batch pods with a cgroup outside of the class, whose files are the kubelet's."""

    pods: int
    """Batch pods in the class."""

    @property
    def of_quotas(self) -> Mapping[CgroupPath, CgroupTarget]:
        """The targets for the quotas alone."""
        return {path: target.of_quota for path, target in self.targets.items()}


def pod_targets(pods: Iterable[PodOnNode], cgroups: ClassCgroups) -> PodTargets:
    """Return the targets of the batch pods among these pods. Raises OSError."""
    listed = tuple(pods)
    formula = _weight_formula(listed, cgroups) if cgroups.is_v2 else None
    targets: dict[CgroupPath, CgroupTarget] = {}
    fractions, outside, count = [], [], 0
    for pod in listed:
        limits = batch_pod_limits(pod.pod)
        if limits is None or pod.cgroup is None:
            continue
        name = "/".join(pod.pod.metadata.key)
        if pod.cgroup[: len(cgroups.path)] != cgroups.path:
            outside.append(name)
            continue
        count += 1
        if limits.fractions:
            fractions.append(name)
        targets[pod.cgroup] = _target(limits, limits.pod, formula)
        for container, path in _container_cgroups(pod.pod, pod.cgroup, cgroups):
            targets[path] = _target(limits, limits.containers[container], formula)
    return PodTargets(targets=targets, fractions=tuple(fractions), outside=tuple(outside), pods=count)


def container_ids(pod: NodePod) -> Iterator[tuple[str, str]]:
    """Yield the names of a pod's containers with the ids that their runtime gave them."""
    for status in (*(pod.status.init_container_statuses or ()), *(pod.status.container_statuses or ())):
        _, _, number = status.container_id.partition("://")
        if number:
            yield status.name, number


def _container_cgroups(pod: NodePod, path: CgroupPath, cgroups: ClassCgroups) -> Iterator[tuple[str, CgroupPath]]:
    """Yield the containers of a pod whose cgroups exist; their names contain the containers' ids."""
    names = cgroups.containers(path)
    known = {declared.name for declared in (*(pod.spec.init_containers or ()), *(pod.spec.containers or ()))}
    for container, number in container_ids(pod):
        if container in known:
            yield from ((container, (*path, name)) for name in names if number in name)


def _target(limits: BatchPodLimits, own: CgroupLimits, formula: WeightFormula | None) -> CgroupTarget:
    shares = own.shares
    return CgroupTarget(
        cpu_milli=own.cpu_milli,
        owns_cpu=limits.has_cpu,
        shares=shares if shares is None or formula is None else cpu_weight(shares, formula),
        memory=own.memory_bytes,
        owns_memory=limits.has_memory,
    )


def _weight_formula(pods: Iterable[PodOnNode], cgroups: ClassCgroups) -> WeightFormula:
    """Return the formula of the kubelet's own cgroups: those of pods with requests."""
    samples = []
    for pod in pods:
        milli = pod_requests(pod.pod).get(CPU, 0) // _NANOS_PER_MILLI
        if pod.cgroup is None or not milli:
            continue
        sample = cgroups.weight(pod.cgroup, cpu_shares(milli))
        samples += [] if sample is None else [sample]
        if len(samples) == _SAMPLES_MAX:
            break
    return detect_weight_formula(samples)
