"""Defines DeviceTaintRules (``resource.k8s.io/v1``), by which an administrator taints devices of any driver."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from dra.kube.clock import rfc3339
from dra.model.releases import Traits
from localplane.kinds import claim_status, columns, device_validation
from localplane.kinds.kind import Kind, Strategy
from localplane.objects import Object
from localplane.status_errors import FieldError

CONDITIONS_MAX_SIZE: Final = 8

_SELECTOR_CHECKS: Final = (
    ("driver", device_validation.validate_driver_name),
    ("pool", device_validation.validate_pool_name),
    ("device", device_validation.validate_device_name),
)


class DeviceTaintRuleStrategy(Strategy):
    """The strategy of DeviceTaintRules, which may change at any time; ``timeAdded`` is the time of the last effect."""

    def __init__(self, *, warns: bool = False) -> None:
        """Create the strategy; `warns` of rules that select all devices of the cluster."""
        self._warns = warns

    def default(self, obj: Object) -> None:
        """Set an empty taint if the rule has none."""
        obj.setdefault("spec", {}).setdefault("taint", {})

    def set_times(self, obj: Object, now: datetime) -> None:
        """Set ``timeAdded`` of the taint if absent."""
        if not obj["spec"]["taint"].get("timeAdded"):
            obj["spec"]["taint"]["timeAdded"] = rfc3339(now)

    def set_update_times(self, new: Object, old: Object, now: datetime) -> None:
        """Reset ``timeAdded`` when the effect changes, unless the client has changed ``timeAdded`` itself."""
        after, before = new["spec"]["taint"], old["spec"]["taint"]
        if after.get("effect") != before.get("effect") and after["timeAdded"] == before.get("timeAdded"):
            after["timeAdded"] = rfc3339(now)

    def validate(self, obj: Object) -> list[FieldError]:
        """Return the errors of the device selector, the taint and the status conditions."""
        spec, selector = obj["spec"], obj["spec"].get("deviceSelector") or {}
        causes = [
            cause
            for name, check in _SELECTOR_CHECKS
            if selector.get(name) is not None
            for cause in check(f"spec.deviceSelector.{name}", selector[name])
        ]
        causes += device_validation.validate_device_taint("spec.taint", spec["taint"])
        return causes + claim_status.validate_conditions("status", obj.get("status") or {}, limit=CONDITIONS_MAX_SIZE)

    def warnings(self, obj: Object) -> list[str]:
        """Return the warning of a selector that is there and empty, as since 1.38."""
        selector = (obj.get("spec") or {}).get("deviceSelector")
        if not self._warns or selector is None or any(selector.get(name) is not None for name, _ in _SELECTOR_CHECKS):
            return []
        return ["spec.deviceSelector: an empty selector matches every device from every driver in the cluster"]

    def table_cells(self, obj: Object, *, now: datetime) -> Mapping[str, Any]:
        """Return the cells of ``kubectl get devicetaintrules``."""
        taint = obj["spec"]["taint"]
        return {
            "Key": taint.get("key", ""),
            "Value": taint.get("value", ""),
            "Effect": taint.get("effect", ""),
            "Time Added": columns.elapsed(taint.get("timeAdded"), now),
            "Age": columns.age(obj, now),
        }


def device_taint_rule_kinds(traits: Traits) -> tuple[Kind, ...]:
    """Return the kind if a release of Kubernetes serves it by default, without a feature gate."""
    if not traits.device_taint_rules:
        return ()
    shown = (columns.NAME, *columns.strings("Key", "Value", "Effect", "Time Added"), columns.AGE)
    return (
        Kind(
            group="resource.k8s.io",
            plural="devicetaintrules",
            name="DeviceTaintRule",
            namespaced=False,
            allow_unconditional_update=False,
            strategy=DeviceTaintRuleStrategy(warns=traits.warns_of_empty_selectors),
            columns=shown,
        ),
    )
