"""Keeps equal parts of listed objects once: the pods of a workload differ in names, nodes and times, not in containers.

Objects of the API are immutable, so that one value can be part of many. Equal is what has the same encoding.
"""

from collections.abc import Iterable
from sys import intern
from typing import Any, Final

import msgspec

from dra.model.claims import ResourceClaim
from dra.model.meta import ObjectMeta, Struct
from dra.model.scheduling import SchedulerPod

VALUES_MAX: Final = 20_000
"""Maximum number of different values: whoever writes the objects decides how many there are."""

_METADATA: Final = ("labels", "annotations", "finalizers", "owner_references")
_POD_SPEC: Final = (
    "containers",
    "init_containers",
    "tolerations",
    "node_selector",
    "affinity",
    "volumes",
    "resource_claims",
)
_POD_STATUS: Final = ("conditions", "container_statuses", "init_container_statuses", "resource_claim_statuses")


class SharedValues:
    """The parts of objects that were seen, and that equal parts of further objects are replaced by."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, bytes], Any] = {}
        self._wholes: dict[tuple[str, bytes], Any] = {}
        """Whole specs and statuses: those of the pods of one claim on one node are often equal."""
        self._encoder = msgspec.msgpack.Encoder()

    def share(self, objects: Iterable[object]) -> None:
        """Replace parts of objects that were just decoded, in place."""
        for obj in objects:
            if isinstance(obj, SchedulerPod):
                self._share_metadata(obj.metadata)
                if self._share_whole(obj, "spec", _POD_SPEC):
                    _share_string(obj.spec, "node_name")
                self._share_whole(obj, "status", _POD_STATUS)
            elif isinstance(obj, ResourceClaim):
                self._share_metadata(obj.metadata)
                self._share_fields(obj.spec, ("devices",))

    def _share_metadata(self, metadata: ObjectMeta) -> None:
        self._share_fields(metadata, _METADATA)
        _share_string(metadata, "namespace")
        _share_string(metadata, "creation_timestamp")

    def _share_whole(self, pod: SchedulerPod, name: str, fields: tuple[str, ...]) -> bool:
        """Replace the spec or the status of a pod, or else parts of it; return whether the whole is new."""
        part = getattr(pod, name)
        key = (name, self._encoder.encode(part))
        known = self._wholes.get(key)
        if known is not None:
            msgspec.structs.force_setattr(pod, name, known)
            return False
        self._share_fields(part, fields)
        if len(self._wholes) < VALUES_MAX:
            self._wholes[key] = part
        return True

    def _share_fields(self, part: Struct, names: tuple[str, ...]) -> None:
        values = self._values
        for name in names:
            value = getattr(part, name)
            if value:
                key = (name, self._encoder.encode(value))
                known = values.get(key)
                if known is not None:
                    msgspec.structs.force_setattr(part, name, known)
                elif len(values) < VALUES_MAX:
                    values[key] = value


def _share_string(part: Struct, name: str) -> None:
    msgspec.structs.force_setattr(part, name, intern(getattr(part, name)))
