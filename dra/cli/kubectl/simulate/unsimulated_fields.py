"""Fields of pods that decide about nodes in kube-scheduler, but not in a simulation.

A pod that has such a field may wait although the simulation has a node for it. Fields that only prefer nodes are left
out: they keep no pod from a node.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from dra.engine.claims.reasons import list_names

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_STORAGE: Final = ("persistentVolumeClaim", "ephemeral")
"""Volumes that may be on some nodes only."""


def unsimulated_text(kind: str, name: str, spec: Mapping[str, Any]) -> str:
    """Return which fields of a pod's spec the simulation does not read; empty if it reads all."""
    fields = [*_unsimulated_fields(spec)]
    if not fields:
        return ""
    return (
        f"{kind.lower()} {name}: {list_names(fields)}: not read by the simulation, so kube-scheduler may refuse the "
        "nodes that fit here"
    )


def _unsimulated_fields(spec: Mapping[str, Any]) -> Iterator[str]:
    if spec.get("runtimeClassName"):  # admission adds the overhead and the node selector of the class
        yield "runtimeClassName"
    affinity = spec.get("affinity") or {}
    yield from (kind for kind in ("podAffinity", "podAntiAffinity") if (affinity.get(kind) or {}).get(_REQUIRED))
    constraints = spec.get("topologySpreadConstraints") or ()
    if any(constraint.get("whenUnsatisfiable") != "ScheduleAnyway" for constraint in constraints):
        yield "topologySpreadConstraints"
    containers = (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
    ports = [port for container in containers for port in container.get("ports") or ()]
    if any(port.get("hostPort") for port in ports) or (spec.get("hostNetwork") and ports):
        yield "hostPort"
    if any(volume.get(kind) for volume in spec.get("volumes") or () for kind in _STORAGE):
        yield "volumes"
