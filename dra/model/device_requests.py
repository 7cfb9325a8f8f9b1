"""The device requests of a claim (``spec.devices``): plain data in `ResourceClaim`, typed here for schedulers."""

from enum import StrEnum
from typing import Any

import msgspec

from dra.model.device_classes import DeviceSelector
from dra.model.meta import Struct
from dra.model.taints import DeviceToleration


class AllocationMode(StrEnum):
    """The number of devices that a request needs: a count, or all devices."""

    EXACT_COUNT = "ExactCount"
    ALL = "All"


class CapacityRequirements(Struct, frozen=True):
    """``capacity``: quantities requested of a device that several claims may share."""

    requests: dict[str, str] | None = None


class BaseDeviceRequest(Struct, frozen=True):
    """The common fields of ``exactly`` and of the entries of ``firstAvailable``."""

    device_class_name: str = ""
    selectors: list[DeviceSelector] | None = None
    allocation_mode: str = AllocationMode.EXACT_COUNT
    count: int = 1
    tolerations: list[DeviceToleration] | None = None
    capacity: CapacityRequirements | None = None
    derived_attributes: list[dict[str, Any]] | None = None
    """Attributes that the scheduler computes with CEL (alpha: DRADerivedAttributes)."""


class ExactDeviceRequest(BaseDeviceRequest, frozen=True):
    """``requests[].exactly``: a request without alternatives."""

    admin_access: bool | None = None


class DeviceSubRequest(BaseDeviceRequest, frozen=True):
    """``requests[].firstAvailable[]``: one alternative of a request."""

    name: str = ""


class DeviceRequest(Struct, frozen=True):
    """``requests[]``: a request for devices, either exact or for the first available of several alternatives."""

    name: str = ""
    exactly: ExactDeviceRequest | None = None
    first_available: list[DeviceSubRequest] | None = None


class DeviceConstraint(Struct, frozen=True):
    """``constraints[]``: an attribute that must be equal, or distinct, on the devices of several requests."""

    requests: list[str] | None = None
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class DeviceClaimConfiguration(Struct, frozen=True):
    """``config[]``: parameters for drivers of the claim's devices."""

    requests: list[str] | None = None
    opaque: dict[str, Any] | None = None


class DeviceClaim(Struct, frozen=True):
    """``spec.devices`` of a ResourceClaim: requests, constraints and configuration."""

    requests: list[DeviceRequest] | None = None
    constraints: list[DeviceConstraint] | None = None
    config: list[DeviceClaimConfiguration] | None = None

    @classmethod
    def of(cls, devices: dict[str, Any] | None) -> "DeviceClaim":
        """Return the typed form of ``spec.devices``. Raises msgspec.ValidationError."""
        return msgspec.convert(devices or {}, cls)
