"""DeviceTaintRules (``resource.k8s.io/v1``): taints that an administrator puts on devices of any driver."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from dra.kube.clock import second_time
from dra.local.kinds import allocations, columns, devices
from dra.local.kinds.kind import Kind, Strategy
from dra.local.objects import Object
from dra.local.refusals import Cause
from dra.local.schemas.releases import Traits

CONDITIONS: Final = 8

_CRITERIA: Final = (("driver", devices.driver), ("pool", devices.pool), ("device", devices.device))


class TaintRuleStrategy(Strategy):
    """A rule may change at any time; ``timeAdded`` says since when its effect is what it is."""

    def default(self, obj: Object) -> None:
        """Have a taint."""
        obj.setdefault("spec", {}).setdefault("taint", {})

    def stamp(self, obj: Object, now: datetime) -> None:
        """Note since when devices are tainted."""
        if not obj["spec"]["taint"].get("timeAdded"):
            obj["spec"]["taint"]["timeAdded"] = second_time(now)

    def stamp_update(self, new: Object, old: Object, now: datetime) -> None:
        """Count anew from a change of the effect, unless the client has set another time itself."""
        after, before = new["spec"]["taint"], old["spec"]["taint"]
        if after.get("effect") != before.get("effect") and after["timeAdded"] == before.get("timeAdded"):
            after["timeAdded"] = second_time(now)

    def validate(self, obj: Object) -> list[Cause]:
        """Check the selector, the taint and, where it has one, the status."""
        spec, selector = obj["spec"], obj["spec"].get("deviceSelector") or {}
        found = [
            cause
            for name, check in _CRITERIA
            if selector.get(name) is not None
            for cause in check(f"spec.deviceSelector.{name}", selector[name])
        ]
        found += devices.taint("spec.taint", spec["taint"])
        return found + allocations.conditions("status", obj.get("status") or {}, limit=CONDITIONS)

    def cells(self, obj: Object, *, now: datetime) -> Mapping[str, Any]:
        """Return what ``kubectl get devicetaintrules`` shows."""
        taint = obj["spec"]["taint"]
        return {
            "Key": taint.get("key", ""),
            "Value": taint.get("value", ""),
            "Effect": taint.get("effect", ""),
            "Time Added": columns.since(taint.get("timeAdded"), now),
            "Age": columns.age(obj, now),
        }


def kinds(traits: Traits) -> tuple[Kind, ...]:
    """Return the kind, where a version of Kubernetes serves it without a feature gate."""
    if not traits.device_taint_rules:
        return ()
    shown = (columns.NAME, *columns.plain("Key", "Value", "Effect", "Time Added"), columns.AGE)
    return (
        Kind(
            group="resource.k8s.io",
            plural="devicetaintrules",
            name="DeviceTaintRule",
            namespaced=False,
            unconditional_updates=False,
            strategy=TaintRuleStrategy(),
            columns=shown,
        ),
    )
