"""Implements the scale subresource of custom kinds, for ``kubectl scale`` and autoscalers."""

from typing import Final

from localplane.crds.nested_fields import nested_field, set_nested_field
from localplane.crds.pruning import JsonSchemaProps
from localplane.kinds import field_errors
from localplane.kinds.subresource import Subresource
from localplane.objects import Object, metadata
from localplane.status_errors import FieldError

_MAX_REPLICAS: Final = 2**31 - 1
_COPIED_METADATA: Final = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


class CustomResourceScale(Subresource):
    """The scale subresource of one custom kind; `paths` is ``subresources.scale`` of the definition."""

    name = "scale"
    group = "autoscaling"
    version = "v1"
    kind = "Scale"

    def __init__(self, paths: JsonSchemaProps) -> None:
        self._wanted: str = paths["specReplicasPath"]
        self._there: str = paths["statusReplicasPath"]
        self._selector: str = paths.get("labelSelectorPath") or ""

    def read(self, obj: Object) -> Object:
        """Return the Scale of an object."""
        meta = metadata(obj)
        wanted = nested_field(obj, self._wanted)
        status: Object = {"replicas": nested_field(obj, self._there) or 0}
        if self._selector and (selector := nested_field(obj, self._selector)):
            status["selector"] = selector
        return {
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": {name: meta[name] for name in _COPIED_METADATA if name in meta},
            "spec": {"replicas": wanted} if wanted else {},
            "status": status,
        }

    def write(self, obj: Object, body: Object) -> None:
        """Set only the replicas of an object."""
        set_nested_field(obj, self._wanted, (body.get("spec") or {}).get("replicas") or 0)

    def validate(self, new: Object, old: Object) -> list[FieldError]:
        """Validate the replicas of the new object."""
        del old
        return self.check(new)

    def check(self, obj: Object) -> list[FieldError]:
        """Return the errors of replicas that are no non-negative int32."""
        found = []
        for path in (self._wanted, self._there):
            value = nested_field(obj, path)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int):
                kind = "string" if isinstance(value, str) else type(value).__name__
                detail = f"{path} accessor error: {value} is of the type {kind}, expected int64"
                found.append(field_errors.invalid(path, 0, detail))
            elif value < 0:
                found.append(field_errors.invalid(path, value, "should be a non-negative integer"))
            elif value > _MAX_REPLICAS:
                found.append(field_errors.invalid(path, value, f"should be less than or equal to {_MAX_REPLICAS}"))
        return found
