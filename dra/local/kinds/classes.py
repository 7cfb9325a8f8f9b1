"""DeviceClasses (``resource.k8s.io/v1``): which devices a name stands for."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from dra.local.kinds import causes, columns, devices, names
from dra.local.kinds.kind import Kind, WholeStrategy
from dra.local.objects import Object
from dra.local.refusals import Cause


class ClassStrategy(WholeStrategy):
    """A class can be changed at any time: claims that are allocated keep what they have."""

    def default(self, obj: Object) -> None:
        """Select every device where nothing is said."""
        obj.setdefault("spec", {})

    def validate(self, obj: Object) -> list[Cause]:
        """Check selectors and configuration."""
        spec = obj["spec"]
        found = devices.selectors("spec.selectors", spec.get("selectors") or [])
        found += causes.each("spec.config", spec.get("config") or [], devices.configuration, limit=devices.CONFIGS)
        resource = spec.get("extendedResourceName")
        if resource is not None and not extended(resource):
            detail = "must be a valid extended resource name"
            found.append(causes.invalid("spec.extendedResourceName", resource, detail))
        return found

    def cells(self, obj: Object, *, now: datetime) -> Mapping[str, Any]:
        """Return what ``kubectl get deviceclasses`` shows."""
        return {"Age": columns.age(obj, now)}


def extended(resource: str) -> bool:
    """Whether a name is one of an extended resource: with a domain, which is not Kubernetes' own."""
    domain, slash, _ = resource.partition("/")
    if not slash or domain == "kubernetes.io" or domain.endswith(".kubernetes.io") or resource.startswith("requests."):
        return False
    return not names.key(f"requests.{resource}")


KINDS: Final = (
    Kind(
        group="resource.k8s.io",
        plural="deviceclasses",
        name="DeviceClass",
        namespaced=False,
        subresources=(),
        strategy=ClassStrategy(),
        columns=(columns.NAME, columns.AGE),
    ),
)
