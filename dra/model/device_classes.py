"""DeviceClasses (resource.k8s.io/v1): named sets of devices that a request can refer to."""

from typing import Any

from dra.model.meta import ObjectMeta, Struct


class CELSelector(Struct, frozen=True):
    """``selectors[].cel``: a CEL expression over a device."""

    expression: str = ""


class DeviceSelector(Struct, frozen=True):
    """``selectors[]``: a criterion for devices; CEL is the only kind that upstream has."""

    cel: CELSelector | None = None


class DeviceClassSpec(Struct, frozen=True):
    """``spec`` of a DeviceClass."""

    selectors: list[DeviceSelector] | None = None
    config: list[dict[str, Any]] | None = None
    extended_resource_name: str | None = None


class DeviceClass(Struct, frozen=True):
    """A DeviceClass: selectors and configuration under a name."""

    metadata: ObjectMeta
    spec: DeviceClassSpec = DeviceClassSpec()
