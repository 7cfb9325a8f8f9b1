"""DeviceClasses (resource.k8s.io/v1): what a request may ask for by name."""

from typing import Any

from dra.model.meta import ObjectMeta, Struct


class CELSelector(Struct, frozen=True):
    """``selectors[].cel``."""

    expression: str = ""


class DeviceSelector(Struct, frozen=True):
    """``selectors[]``; CEL is the only kind upstream has."""

    cel: CELSelector | None = None


class DeviceClassSpec(Struct, frozen=True):
    """``spec``."""

    selectors: list[DeviceSelector] | None = None
    config: list[dict[str, Any]] | None = None
    extended_resource_name: str | None = None


class DeviceClass(Struct, frozen=True):
    """A class of devices."""

    metadata: ObjectMeta
    spec: DeviceClassSpec = DeviceClassSpec()
