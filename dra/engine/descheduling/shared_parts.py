"""One copy of what equal pods have in common: a cluster has a hundred thousand pods of a few thousand kinds.

The containers, tolerations, constraints, labels and owners of the pods of a workload are equal. Objects of the API are
never changed, so pods can share them; a decoded pod then takes a third of the memory.
"""

from typing import Any, Final

import msgspec

from dra.engine.descheduling.pods import DeschedulingPod
from dra.model.meta import Struct

_PARTS: Final = {
    "metadata": ("labels", "annotations", "owner_references"),
    "spec": (
        "containers",
        "init_containers",
        "tolerations",
        "affinity",
        "topology_spread_constraints",
        "node_selector",
        "overhead",
        "resource_claims",
        "volumes",
    ),
    "container status": ("resources", "allocated_resources"),
}
"""Fields that are equal in many pods. Conditions and states of containers have times and are not."""
_TEXTS: Final = {
    "metadata": ("namespace",),
    "spec": ("node_name", "scheduler_name", "priority_class_name"),
    "status": ("phase", "qos_class"),
    "condition": ("type", "status", "reason"),
    "container status": ("name",),
}

PARTS_MAX: Final = 200_000
"""Maximum number of different parts that are remembered; pods of one kind come together, so older ones can go."""


class SharedParts:
    """The parts and texts that pods share."""

    def __init__(self) -> None:
        self._parts: dict[bytes, Any] = {}
        self._texts: dict[str, str] = {}

    def share(self, pod: DeschedulingPod) -> DeschedulingPod:
        """Return a pod, just decoded and not used elsewhere, after replacing its parts by equal ones, in place."""
        if len(self._parts) > PARTS_MAX or len(self._texts) > PARTS_MAX:
            self._parts.clear()
            self._texts.clear()
        status = pod.status
        self._share(pod.metadata, "metadata")
        self._share(pod.spec, "spec")
        self._share(status, "status")
        for condition in status.conditions or ():
            self._share(condition, "condition")
        for each in (*(status.container_statuses or ()), *(status.init_container_statuses or ())):
            self._share(each, "container status")
        return pod

    def _share(self, struct: Struct, kind: str) -> None:
        for field in _PARTS.get(kind, ()):
            part = getattr(struct, field)
            if part:
                key = field.encode() + msgspec.json.encode(part)  # parts of different types may be written alike
                msgspec.structs.force_setattr(struct, field, self._parts.setdefault(key, part))
        for field in _TEXTS.get(kind, ()):
            text = getattr(struct, field)
            msgspec.structs.force_setattr(struct, field, self._texts.setdefault(text, text))
