"""Implements the scale subresource of workloads (``autoscaling/v1``): ``deployments/scale``, ``replicasets/scale``."""

from localplane.kinds import columns, field_errors
from localplane.kinds.subresource import Subresource
from localplane.objects import Object, metadata
from localplane.status_errors import FieldError

_COPIED_METADATA = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


class WorkloadScale(Subresource):
    """The scale subresource of a workload."""

    name = "scale"
    group = "autoscaling"
    version = "v1"
    kind = "Scale"

    def read(self, obj: Object) -> Object:
        """Return the Scale of a workload: desired and current replicas."""
        meta, spec, status = metadata(obj), obj["spec"], obj.get("status") or {}
        shown: Object = {"replicas": status.get("replicas", 0)}
        if spec.get("selector"):
            shown["selector"] = columns.format_label_selector(spec["selector"])
        return {
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": {name: meta[name] for name in _COPIED_METADATA if name in meta},
            "spec": {"replicas": spec["replicas"]} if spec.get("replicas") else {},
            "status": shown,
        }

    def write(self, obj: Object, body: Object) -> None:
        """Set the desired replicas of a workload."""
        obj["spec"]["replicas"] = (body.get("spec") or {}).get("replicas", 0)

    def validate(self, new: Object, old: Object) -> list[FieldError]:
        """Return the error of negative replicas."""
        del old
        return field_errors.validate_non_negative("spec", new["spec"], "replicas")
