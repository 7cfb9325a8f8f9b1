"""Defines the kind DeviceClass (``resource.k8s.io/v1``)."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from dra.model import name_validation
from localplane.kinds import columns, device_validation, field_errors
from localplane.kinds.kind import Kind, NoStatusStrategy
from localplane.objects import Object
from localplane.status_errors import FieldError


class DeviceClassStrategy(NoStatusStrategy):
    """The strategy of DeviceClasses, which may change at any time: allocated claims keep their devices."""

    def default(self, obj: Object) -> None:
        """Set an empty spec, which selects every device."""
        obj.setdefault("spec", {})

    def validate(self, obj: Object) -> list[FieldError]:
        """Return the errors of selectors, configuration and extendedResourceName."""
        spec = obj["spec"]
        causes = device_validation.validate_selectors("spec.selectors", spec.get("selectors") or [])
        causes += field_errors.validate_items(
            "spec.config",
            spec.get("config") or [],
            device_validation.validate_device_configuration,
            limit=device_validation.DEVICE_CONFIG_MAX_SIZE,
        )
        resource = spec.get("extendedResourceName")
        if resource is not None and not is_extended_resource_name(resource):
            detail = "must be a valid extended resource name"
            causes.append(field_errors.invalid("spec.extendedResourceName", resource, detail))
        return causes

    def table_cells(self, obj: Object, *, now: datetime) -> Mapping[str, Any]:
        """Return the cells of ``kubectl get deviceclasses``."""
        return {"Age": columns.age(obj, now)}


def is_extended_resource_name(resource: str) -> bool:
    """Return whether a resource name is that of an extended resource: prefixed by a domain outside of kubernetes.io."""
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
