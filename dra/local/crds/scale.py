"""The scale of custom objects: their replicas under a name that ``kubectl scale`` and autoscalers know."""

from typing import Final

from dra.local.crds.paths import at, put
from dra.local.crds.pruning import Node
from dra.local.kinds import causes
from dra.local.kinds.subresource import Subresource
from dra.local.objects import Object, metadata
from dra.local.refusals import Cause

_MOST: Final = 2**31 - 1
_SHOWN: Final = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


class Scale(Subresource):
    """The scale of one custom kind; `paths` is what its definition says about it."""

    name = "scale"
    group = "autoscaling"
    version = "v1"
    kind = "Scale"

    def __init__(self, paths: Node) -> None:
        self._wanted: str = paths["specReplicasPath"]
        self._there: str = paths["statusReplicasPath"]
        self._selector: str = paths.get("labelSelectorPath") or ""

    def read(self, obj: Object) -> Object:
        """Return the scale of an object."""
        meta = metadata(obj)
        wanted = at(obj, self._wanted)
        status: Object = {"replicas": at(obj, self._there) or 0}
        if self._selector and (selector := at(obj, self._selector)):
            status["selector"] = selector
        return {
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": {name: meta[name] for name in _SHOWN if name in meta},
            "spec": {"replicas": wanted} if wanted else {},
            "status": status,
        }

    def write(self, obj: Object, body: Object) -> None:
        """Set the number of replicas, and nothing else."""
        put(obj, self._wanted, (body.get("spec") or {}).get("replicas") or 0)

    def validate(self, new: Object, old: Object) -> list[Cause]:
        """Check the numbers."""
        del old
        return self.check(new)

    def check(self, obj: Object) -> list[Cause]:
        """Return which numbers of an object are none."""
        found = []
        for path in (self._wanted, self._there):
            value = at(obj, path)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int):
                kind = "string" if isinstance(value, str) else type(value).__name__
                detail = f"{path} accessor error: {value} is of the type {kind}, expected int64"
                found.append(causes.invalid(path, 0, detail))
            elif value < 0:
                found.append(causes.invalid(path, value, "should be a non-negative integer"))
            elif value > _MOST:
                found.append(causes.invalid(path, value, f"should be less than or equal to {_MOST}"))
        return found
