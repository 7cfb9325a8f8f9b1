"""What of a pod's scheduling constraints this engine does not decide: read only where their presence matters."""

from typing import Any

from dra.model.placement import Affinity, PlacedPod, PlacedPodSpec


class AffinityToPods(Affinity, frozen=True):
    """``affinity``, with what it says about other pods."""

    pod_affinity: dict[str, Any] | None = None
    pod_anti_affinity: dict[str, Any] | None = None


class ConstrainedPodSpec(PlacedPodSpec, frozen=True):
    """``spec``."""

    affinity: AffinityToPods | None = None
    topology_spread_constraints: list[dict[str, Any]] | None = None


class ConstrainedPod(PlacedPod, frozen=True):
    """A pod with all constraints on where it can run, heeded here or not."""

    spec: ConstrainedPodSpec = ConstrainedPodSpec()


def beyond(pod: PlacedPod) -> bool:
    """Whether volumes, other pods or topology may exclude nodes that this engine would take.

    Of a pod that was read without its constraints only the volumes are known.
    """
    spec = pod.spec
    if any(v.persistent_volume_claim or v.ephemeral for v in spec.volumes or ()):
        return True
    if not isinstance(spec, ConstrainedPodSpec):
        return False
    spread = any(c.get("whenUnsatisfiable") != "ScheduleAnyway" for c in spec.topology_spread_constraints or ())
    return spread or (spec.affinity is not None and _required(spec.affinity))


def _required(affinity: AffinityToPods) -> bool:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    return any(each and each.get(required) for each in (affinity.pod_affinity, affinity.pod_anti_affinity))
