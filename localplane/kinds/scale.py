"""Implements the scale subresource (``autoscaling/v1``) of workloads and custom kinds, for ``kubectl scale``."""

from dataclasses import dataclass
from typing import Any, Final

from localplane.kinds import columns, field_errors
from localplane.kinds.subresource import Subresource
from localplane.objects import Object, metadata
from localplane.status_errors import FieldError

_MAX_REPLICAS: Final = 2**31 - 1
_COPIED_METADATA: Final = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


@dataclass(frozen=True, slots=True)
class Scale(Subresource):
    """The scale subresource of one kind, with the paths of ``subresources.scale`` in a definition."""

    spec_replicas_path: str = ".spec.replicas"
    status_replicas_path: str = ".status.replicas"
    label_selector_path: str = ".spec.selector"

    name = "scale"
    group = "autoscaling"
    version = "v1"
    kind = "Scale"

    def read(self, obj: Object) -> Object:
        """Return the Scale of an object: desired and current replicas."""
        meta, wanted = metadata(obj), nested_field(obj, self.spec_replicas_path)
        status: Object = {"replicas": nested_field(obj, self.status_replicas_path) or 0}
        if selector := self.label_selector_path and nested_field(obj, self.label_selector_path):
            status["selector"] = columns.format_label_selector(selector) if isinstance(selector, dict) else selector
        return {
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": {name: meta[name] for name in _COPIED_METADATA if name in meta},
            "spec": {"replicas": wanted} if wanted else {},
            "status": status,
        }

    def write(self, obj: Object, body: Object) -> None:
        """Set only the replicas of an object."""
        set_nested_field(obj, self.spec_replicas_path, (body.get("spec") or {}).get("replicas") or 0)

    def validate(self, new: Object, old: Object) -> list[FieldError]:
        """Validate the replicas of the new object."""
        del old
        return self.check_replicas(new)

    def check_replicas(self, obj: Object) -> list[FieldError]:
        """Return the errors of replicas that are no non-negative int32."""
        causes = []
        for path in (self.spec_replicas_path, self.status_replicas_path):
            value = nested_field(obj, path)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int):
                kind = "string" if isinstance(value, str) else type(value).__name__
                detail = f"{path} accessor error: {value} is of the type {kind}, expected int64"
                causes.append(field_errors.invalid(path, 0, detail))
            elif value < 0:
                causes.append(field_errors.invalid(path, value, "should be a non-negative integer"))
            elif value > _MAX_REPLICAS:
                causes.append(field_errors.invalid(path, value, f"should be less than or equal to {_MAX_REPLICAS}"))
        return causes


class WorkloadScale(Scale):
    """The scale subresource of workloads in ``apps/v1``, which have the default paths."""

    def validate(self, new: Object, old: Object) -> list[FieldError]:
        """Return the error of negative replicas."""
        del old
        return field_errors.validate_non_negative("spec", new["spec"], "replicas")


def nested_field(obj: Object, path: str) -> Any:  # noqa: ANN401 - whatever lies there
    """Return the value at a simple JSONPath such as ``.spec.replicas``, None if there is none."""
    value: Any = obj
    for name in path.removeprefix(".").split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def set_nested_field(obj: Object, path: str, value: object) -> None:
    """Set the value at a simple JSONPath; create the objects on the way."""
    *parents, last = path.removeprefix(".").split(".")
    for name in parents:
        if not isinstance(obj.get(name), dict):
            obj[name] = {}
        obj = obj[name]
    obj[last] = value
