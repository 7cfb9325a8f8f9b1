"""Device taints (resource.k8s.io): marks of devices that are unfit for use, and the tolerations of claims."""

from datetime import datetime
from typing import Any, Final

from dra.model.meta import ObjectMeta, Struct

NO_EXECUTE: Final = "NoExecute"
"""The only effect that evicts pods; the others only keep a device from being allocated."""

EXCLUDING_EFFECTS: Final = frozenset({"NoSchedule", NO_EXECUTE})
"""Effects that keep a device from being allocated to a claim that does not tolerate the taint."""

EXISTS: Final = "Exists"
EQUAL: Final = "Equal"


class DeviceTaint(Struct, frozen=True):
    """A taint on a device, set by its driver (``devices[].taints[]``) or by a `DeviceTaintRule`."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: datetime | None = None
    """Time at which the taint was added; the API server fills it in."""

    @property
    def evicts(self) -> bool:
        """Whether the taint evicts pods that do not tolerate it; without a time, the deadline would be unknown."""
        return self.effect == NO_EXECUTE and self.time_added is not None

    def __str__(self) -> str:
        """Return the taint as kubectl writes node taints: ``example.com/unhealthy=ecc:NoExecute``."""
        return f"{self.key}{f'={self.value}' if self.value else ''}:{self.effect}"


class DeviceToleration(Struct, frozen=True):
    """``allocation.devices.results[].tolerations[]``, copied by the scheduler from the request."""

    key: str = ""
    operator: str = EQUAL
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None

    def tolerates(self, taint: DeviceTaint) -> bool:
        """Return whether the toleration matches a taint of a device (resource/v1 ``DeviceToleration``)."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.operator == EXISTS:
            return self.key in {"", taint.key}
        return self.operator in {"", EQUAL} and self.key in {"", taint.key} and self.value == taint.value


class DeviceTaintRuleSpec(Struct, frozen=True):
    """``spec`` of a DeviceTaintRule."""

    device_selector: dict[str, Any] | None = None
    """Criteria by name, all of which must hold. Plain data, so that an unknown criterion is noticed and not skipped."""

    taint: DeviceTaint = DeviceTaint()


class DeviceTaintRule(Struct, frozen=True):
    """A DeviceTaintRule: an administrator's taint on all devices that a selector matches.

    Served without a gate from Kubernetes 1.37 on (``resource.k8s.io/v1``), up to 1.36 only with DRADeviceTaintRules.
    """

    metadata: ObjectMeta
    spec: DeviceTaintRuleSpec = DeviceTaintRuleSpec()
