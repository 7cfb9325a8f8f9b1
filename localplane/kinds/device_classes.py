"""DeviceClasses (``resource.k8s.io/v1``): which devices a name stands for."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from localplane.kinds import columns, device_validation, field_errors, name_validation
from localplane.kinds.kind import Kind, NoStatusStrategy
from localplane.objects import Object
from localplane.status_errors import FieldError


class DeviceClassStrategy(NoStatusStrategy):
    """A class can be changed at any time: claims that are allocated keep what they have."""

    def default(self, obj: Object) -> None:
        """Select every device where nothing is said."""
        obj.setdefault("spec", {})

    def validate(self, obj: Object) -> list[FieldError]:
        """Check selectors and configuration."""
        spec = obj["spec"]
        found = device_validation.validate_selectors("spec.selectors", spec.get("selectors") or [])
        found += field_errors.validate_items(
            "spec.config",
            spec.get("config") or [],
            device_validation.validate_device_configuration,
            limit=device_validation.DEVICE_CONFIG_MAX_SIZE,
        )
        resource = spec.get("extendedResourceName")
        if resource is not None and not is_extended_resource_name(resource):
            detail = "must be a valid extended resource name"
            found.append(field_errors.invalid("spec.extendedResourceName", resource, detail))
        return found

    def cells(self, obj: Object, *, now: datetime) -> Mapping[str, Any]:
        """Return what ``kubectl get deviceclasses`` shows."""
        return {"Age": columns.age(obj, now)}


def is_extended_resource_name(resource: str) -> bool:
    """Whether a name is one of an extended resource: with a domain, which is not Kubernetes' own."""
    domain, slash, _ = resource.partition("/")
    if not slash or domain == "kubernetes.io" or domain.endswith(".kubernetes.io") or resource.startswith("requests."):
        return False
    return not name_validation.qualified_name(f"requests.{resource}")


KINDS: Final = (
    Kind(
        group="resource.k8s.io",
        plural="deviceclasses",
        name="DeviceClass",
        namespaced=False,
        subresources=(),
        strategy=DeviceClassStrategy(),
        columns=(columns.NAME, columns.AGE),
    ),
)
