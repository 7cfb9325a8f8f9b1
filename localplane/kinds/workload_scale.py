"""``deployments/scale`` and its like: how many, without the rest (``autoscaling/v1``)."""

from localplane.kinds import columns, field_errors
from localplane.kinds.subresource import Subresource
from localplane.objects import Object, metadata
from localplane.status_errors import FieldError

_COPIED_METADATA = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


class WorkloadScale(Subresource):
    """The replicas of a workload."""

    name = "scale"
    group = "autoscaling"
    version = "v1"
    kind = "Scale"

    def read(self, obj: Object) -> Object:
        """Return how many are wanted and there are."""
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
        """Want another number."""
        obj["spec"]["replicas"] = (body.get("spec") or {}).get("replicas", 0)

    def validate(self, new: Object, old: Object) -> list[FieldError]:
        """Refuse fewer than none."""
        del old
        return field_errors.validate_non_negative("spec", new["spec"], "replicas")
