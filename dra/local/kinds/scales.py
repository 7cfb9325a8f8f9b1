"""``deployments/scale`` and its like: how many, without the rest (``autoscaling/v1``)."""

from dra.local.kinds import causes, columns
from dra.local.kinds.subresource import Subresource
from dra.local.objects import Object, metadata
from dra.local.refusals import Cause

_SHOWN = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


class Scale(Subresource):
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
            shown["selector"] = columns.selector(spec["selector"])
        return {
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": {name: meta[name] for name in _SHOWN if name in meta},
            "spec": {"replicas": spec["replicas"]} if spec.get("replicas") else {},
            "status": shown,
        }

    def write(self, obj: Object, body: Object) -> None:
        """Want another number."""
        obj["spec"]["replicas"] = (body.get("spec") or {}).get("replicas", 0)

    def validate(self, new: Object, old: Object) -> list[Cause]:
        """Refuse fewer than none."""
        del old
        return causes.not_negative("spec", new["spec"], "replicas")
