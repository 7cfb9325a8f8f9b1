"""Scheduling constraints of a pod that the engine does not evaluate, read where their presence matters."""

from typing import Any

from dra.model.scheduling import Affinity, SchedulerPod, SchedulerPodSpec


class InterPodAffinity(Affinity, frozen=True):
    """``affinity`` of a Pod, including affinity to other pods."""

    pod_affinity: dict[str, Any] | None = None
    pod_anti_affinity: dict[str, Any] | None = None


class FullSchedulerPodSpec(SchedulerPodSpec, frozen=True):
    """``spec`` of a Pod, with all constraints on where the pod can run."""

    affinity: InterPodAffinity | None = None
    topology_spread_constraints: list[dict[str, Any]] | None = None


class FullSchedulerPod(SchedulerPod, frozen=True):
    """A Pod with all constraints on where it can run, whether the engine evaluates them or not."""

    spec: FullSchedulerPodSpec = FullSchedulerPodSpec()


def has_undecided_constraints(pod: SchedulerPod) -> bool:
    """Report whether volumes, other pods or topology may exclude nodes that this engine would accept.

    If the pod was read without its constraints, only its volumes are known.
    """
    spec = pod.spec
    if any(v.persistent_volume_claim or v.ephemeral for v in spec.volumes or ()):
        return True
    if not isinstance(spec, FullSchedulerPodSpec):
        return False
    spread = any(c.get("whenUnsatisfiable") != "ScheduleAnyway" for c in spec.topology_spread_constraints or ())
    return spread or (spec.affinity is not None and _requires_inter_pod_affinity(spec.affinity))


def _requires_inter_pod_affinity(affinity: InterPodAffinity) -> bool:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    return any(each and each.get(required) for each in (affinity.pod_affinity, affinity.pod_anti_affinity))
