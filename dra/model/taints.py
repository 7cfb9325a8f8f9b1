"""Device taints (resource.k8s.io): what makes a device unfit for use, and for how long a claim bears that."""

from datetime import datetime
from typing import Any, Final

from dra.model.meta import ObjectMeta, Struct

NO_EXECUTE: Final = "NoExecute"
"""The one effect that ends pods; the others only keep a device from being allocated."""

EXISTS: Final = "Exists"
EQUAL: Final = "Equal"


class DeviceTaint(Struct, frozen=True):
    """A taint on a device, by its driver (``devices[].taints[]``) or by a `DeviceTaintRule`."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: datetime | None = None
    """When it was put on; the API server fills it in."""

    @property
    def evicts(self) -> bool:
        """Whether it ends pods that do not tolerate it; without a time nobody could tell when."""
        return self.effect == NO_EXECUTE and self.time_added is not None

    def __str__(self) -> str:
        """Write it as kubectl writes node taints: ``example.com/unhealthy=ecc:NoExecute``."""
        return f"{self.key}{f'={self.value}' if self.value else ''}:{self.effect}"


class DeviceToleration(Struct, frozen=True):
    """``allocation.devices.results[].tolerations[]``, copied there from the request by the scheduler."""

    key: str = ""
    operator: str = EQUAL
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class DeviceTaintRuleSpec(Struct, frozen=True):
    """``spec``."""

    device_selector: dict[str, Any] | None = None
    """Criteria by name, all of which must hold: plain data, so that one we do not know is noticed and not skipped."""

    taint: DeviceTaint = DeviceTaint()


class DeviceTaintRule(Struct, frozen=True):
    """An administrator's taint on all devices that a selector matches.

    Served without a gate from Kubernetes 1.37 on (``resource.k8s.io/v1``), up to 1.36 only with DRADeviceTaintRules.
    """

    metadata: ObjectMeta
    spec: DeviceTaintRuleSpec = DeviceTaintRuleSpec()
