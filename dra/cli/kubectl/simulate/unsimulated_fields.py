"""Fields of pods that decide about nodes in kube-scheduler, but not in a simulation.

A pod that has such a field may wait although the simulation has a node for it, so that nothing is claimed about it.
Fields that only prefer nodes are left out: they keep no pod from a node.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from dra.engine.claims.reasons import list_names

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"

RUNTIME_CLASS: Final = "runtimeClassName"
"""Not simulated where RuntimeClasses could not be read: admission adds overhead and node selector of the class."""

_STORAGE: Final = frozenset(
    {
        "persistentVolumeClaim",
        "ephemeral",
        "csi",
        "awsElasticBlockStore",
        "azureDisk",
        "azureFile",
        "cinder",
        "gcePersistentDisk",
        "iscsi",
        "portworxVolume",
        "rbd",
        "vsphereVolume",
    }
)
"""Volumes that some nodes only can attach, or a limited number of times (VolumeBinding, VolumeRestrictions and others).
"""


def unsimulated_fields(spec: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the fields of a pod's spec that the simulation does not read, although they may exclude nodes."""
    return (*_unsimulated_fields(spec),)


def undecided_text(node: str, fields: Sequence[str]) -> str:
    """Return what can be said of a pod with unsimulated fields for which the simulation has a node."""
    return f"would fit on node {node} as far as devices, CPU and memory go; {unsimulated_text(fields)}"


def unsimulated_text(fields: Sequence[str]) -> str:
    """Return what follows from fields that are not simulated."""
    verb = "are" if len(fields) > 1 else "is"
    return f"{list_names(fields)} {verb} not simulated, so kube-scheduler may refuse the node"


def _unsimulated_fields(spec: Mapping[str, Any]) -> Iterator[str]:
    affinity = spec.get("affinity") or {}
    yield from (kind for kind in ("podAffinity", "podAntiAffinity") if (affinity.get(kind) or {}).get(_REQUIRED))
    constraints = spec.get("topologySpreadConstraints") or ()
    if any(constraint.get("whenUnsatisfiable") != "ScheduleAnyway" for constraint in constraints):
        yield "topologySpreadConstraints"
    if any(not _STORAGE.isdisjoint(volume) for volume in spec.get("volumes") or ()):
        yield "volumes"
