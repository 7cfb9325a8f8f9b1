"""What a claim asks for (``spec.devices``): kept as plain data in `ResourceClaim`, typed here for schedulers."""

from enum import StrEnum
from typing import Any

import msgspec

from dra.model.device_classes import DeviceSelector
from dra.model.meta import Struct
from dra.model.taints import DeviceToleration


class AllocationMode(StrEnum):
    """How many devices a request wants."""

    EXACT_COUNT = "ExactCount"
    ALL = "All"


class CapacityRequirements(Struct, frozen=True):
    """``capacity``: how much of a device that several claims may share."""

    requests: dict[str, str] | None = None


class BaseDeviceRequest(Struct, frozen=True):
    """What ``exactly`` and the entries of ``firstAvailable`` have in common."""

    device_class_name: str = ""
    selectors: list[DeviceSelector] | None = None
    allocation_mode: str = AllocationMode.EXACT_COUNT
    count: int = 1
    tolerations: list[DeviceToleration] | None = None
    capacity: CapacityRequirements | None = None
    derived_attributes: list[dict[str, Any]] | None = None
    """Attributes that the scheduler computes by CEL (alpha: DRADerivedAttributes)."""


class ExactDeviceRequest(BaseDeviceRequest, frozen=True):
    """``requests[].exactly``."""

    admin_access: bool | None = None


class DeviceSubRequest(BaseDeviceRequest, frozen=True):
    """``requests[].firstAvailable[]``."""

    name: str = ""


class DeviceRequest(Struct, frozen=True):
    """``requests[]``: one thing that is asked for, exactly or as the first of some alternatives that can be had."""

    name: str = ""
    exactly: ExactDeviceRequest | None = None
    first_available: list[DeviceSubRequest] | None = None


class DeviceConstraint(Struct, frozen=True):
    """``constraints[]``: what devices of several requests must have in common, or must not."""

    requests: list[str] | None = None
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class DeviceClaimConfiguration(Struct, frozen=True):
    """``config[]``: parameters for drivers."""

    requests: list[str] | None = None
    opaque: dict[str, Any] | None = None


class DeviceClaim(Struct, frozen=True):
    """``spec.devices``."""

    requests: list[DeviceRequest] | None = None
    constraints: list[DeviceConstraint] | None = None
    config: list[DeviceClaimConfiguration] | None = None

    @classmethod
    def of(cls, devices: dict[str, Any] | None) -> "DeviceClaim":
        """Read ``spec.devices``. Raises msgspec.ValidationError."""
        return msgspec.convert(devices or {}, cls)
