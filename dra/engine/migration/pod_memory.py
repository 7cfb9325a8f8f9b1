"""The parts of pods that are kept in memory: a cluster may have a hundred thousand pods.

Migrations alone read neither containers nor constraints on nodes. Descheduling reads both, but pods of one workload
have equal ones, labels and owners as well, and share these. Pods are changed in place, right after they are decoded and
before anybody sees them.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from dra.engine.migration.view import MigrationPod
from dra.model.meta import Struct

_UNREAD_SPEC: Final[Mapping[str, Any]] = {
    "containers": None,
    "init_containers": None,
    "overhead": None,
    "resources": None,
    "node_selector": None,
    "affinity": None,
    "tolerations": None,
}
_UNREAD_STATUS: Final[Mapping[str, Any]] = {
    "reason": "",
    "message": "",
    "start_time": None,
    "container_statuses": None,
    "init_container_statuses": None,
    "resources": None,
    "allocated_resources": None,
    "node_allocatable_resource_claim_statuses": None,
}

_SHARED_METADATA: Final = ("labels", "owner_references")
_SHARED_SPEC: Final = (
    "containers",
    "init_containers",
    "overhead",
    "node_selector",
    "affinity",
    "tolerations",
    "topology_spread_constraints",
    "resource_claims",
    "volumes",
)
_SHARED_CONTAINER_STATUS: Final = ("resources", "allocated_resources")
"""Conditions and states of containers have times, and are hardly ever equal."""

_TEXTS_OF_METADATA: Final = ("namespace",)
_TEXTS_OF_SPEC: Final = ("node_name", "scheduler_name", "priority_class_name")
_TEXTS_OF_STATUS: Final = ("phase", "qos_class")
_TEXTS_OF_CONDITION: Final = ("type", "status", "reason")
_TEXTS_OF_CONTAINER_STATUS: Final = ("name",)

PARTS_MAX: Final = 65_536
"""Parts that are remembered to be shared; a cluster with more kinds of pods shares less."""

PART_BYTES_MAX: Final = 16 << 10
"""Bytes of JSON from which on a part is not shared: remembering it would cost more than it saves."""


def drop_unread(pod: MigrationPod) -> None:
    """Remove from a pod what migrations do not read, in place."""
    for part, unread in ((pod.spec, _UNREAD_SPEC), (pod.status, _UNREAD_STATUS)):
        for name, nothing in unread.items():
            msgspec.structs.force_setattr(part, name, nothing)


class SharedParts:
    """Parts of pods that have been seen, by their content."""

    def __init__(self) -> None:
        self._parts: dict[bytes, Any] = {}
        self._texts: dict[str, str] = {}

    def __len__(self) -> int:
        """Return the number of parts that are remembered."""
        return len(self._parts)

    def share(self, pod: MigrationPod) -> None:
        """Replace parts and texts of a pod by equal ones of pods before it, in place."""
        status = pod.status
        self._share(pod.metadata, _SHARED_METADATA, _TEXTS_OF_METADATA)
        self._share(pod.spec, _SHARED_SPEC, _TEXTS_OF_SPEC)
        self._share(status, (), _TEXTS_OF_STATUS)
        for condition in status.conditions or ():
            self._share(condition, (), _TEXTS_OF_CONDITION)
        for container in (*(status.container_statuses or ()), *(status.init_container_statuses or ())):
            self._share(container, _SHARED_CONTAINER_STATUS, _TEXTS_OF_CONTAINER_STATUS)

    def _share(self, struct: Struct, parts: Iterable[str], texts: Iterable[str]) -> None:
        for name in parts:
            part = getattr(struct, name, None)
            if part:
                msgspec.structs.force_setattr(struct, name, self._shared(name, part))
        for name in texts:
            text = getattr(struct, name)
            if len(self._texts) >= PARTS_MAX:
                self._texts.clear()
            msgspec.structs.force_setattr(struct, name, self._texts.setdefault(text, text))

    def _shared(self, name: str, part: Any) -> Any:  # noqa: ANN401 - of many types
        content = name.encode() + msgspec.json.encode(part)
        if len(content) > PART_BYTES_MAX:
            return part
        if len(self._parts) >= PARTS_MAX:
            self._parts.clear()
        return self._parts.setdefault(content, part)
