"""Batch pods that are refused, since their requests would count wrongly or not at all.

A pod of QoS class BE with plain CPU or memory takes the capacity of prod pods, and its cgroup is none of those that are
held back. An amount of ``batch-cpu`` with a fraction is a mistake of the unit. The same rules are in the admission
policy batch-pods.reserve.dra.
"""

from collections.abc import Mapping
from typing import Any, Final

from dra.api.profiles.well_known import ANNOTATION_SKIP_RESOURCES, BATCH_CPU, BATCH_MEMORY
from dra.engine.translation import classes, pod_fields
from dra.engine.translation.pod_fields import ContainerFields
from dra.engine.translation.requests import Refusal

PLAIN: Final = ("cpu", "memory")
UNITS: Final[Mapping[str, str]] = {
    BATCH_CPU: "has a fraction, but counts milli-CPUs; write 200 for 200m",
    BATCH_MEMORY: "has a fraction, but counts bytes; write a whole number, such as 1Gi",
}
PLAIN_TEXT: Final = (
    "requests cpu or memory, but a pod of QoS class BE requests kubernetes.io/batch-cpu and "
    "kubernetes.io/batch-memory; see which profile should have translated the request: kubectl dra colocation why -f "
    "FILE; a LimitRange of the namespace may have added it, and so may a webhook"
)
POD_LEVEL_TEXT: Final = (
    "a pod of QoS class BE has no resources of the whole pod; give kubernetes.io/batch-cpu to its containers"
)
MAX_REFUSALS: Final = 8


def batch_refusals(pod: Mapping[str, Any]) -> list[Refusal]:
    """Return the refusals of a new pod."""
    if pod_fields.is_mirror(pod):
        return []
    containers = list(pod_fields.containers(pod))
    refusals = [
        Refusal(f"container {container.name}", PLAIN_TEXT) for container in containers if _is_plain(pod, container)
    ]
    pod_level = pod_fields.mapping(pod_fields.mapping(pod.get("spec")).get("resources"))
    if _is_guarded(pod) and any(pod_fields.mapping(pod_level.get(kind)) for kind in ("requests", "limits")):
        refusals.append(Refusal("spec.resources", POD_LEVEL_TEXT))
    refusals += [
        Refusal(f"container {container.name}", f"{name} {UNITS[name]}")
        for container in containers
        for name in UNITS
        if any(
            name in given and pod_fields.integer(given[name]) is None
            for given in (container.limits, container.requests)
        )
    ]
    if classes.qos_label(pod) != classes.BEST_EFFORT:
        refusals += [
            Refusal(f"container {container.name}", f"{name}: {classes.BATCH_TEXT}")
            for container in containers
            for name in classes.BATCH_RESOURCES
            if name in container.limits or name in container.requests
        ]
    return refusals


def _is_guarded(pod: Mapping[str, Any]) -> bool:
    return classes.qos_label(pod) == classes.BEST_EFFORT and ANNOTATION_SKIP_RESOURCES not in pod_fields.annotations(
        pod
    )


def _is_plain(pod: Mapping[str, Any], container: ContainerFields) -> bool:
    return _is_guarded(pod) and any(name in container.limits or name in container.requests for name in PLAIN)
