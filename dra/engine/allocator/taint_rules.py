"""DeviceTaintRules, laid over devices: an administrator's taints beside those of the driver.

As upstream's tracker of ResourceSlices (dynamic-resource-allocation/resourceslice/tracker): the allocator sees slices
in which the selected devices have the taints of the rules, and knows nothing of rules.
"""

import msgspec

from dra.engine.devices.taints import NamedDevice, TaintScope, scope_of_rule
from dra.model.slices import Device
from dra.model.taints import DeviceTaint, DeviceTaintRule


class DeviceTaintRules:
    """All rules that select devices. Observations return the scopes in which devices may have other taints now."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[TaintScope, DeviceTaint]] = {}

    def observe(self, rule: DeviceTaintRule) -> tuple[TaintScope, ...]:
        """Take in a rule."""
        name, scope = rule.metadata.name, scope_of_rule(rule)
        if scope is None:
            return self.forget(name)
        before, after = self._known.get(name), (scope, rule.spec.taint)
        if before == after:
            return ()
        self._known[name] = after
        return (scope,) if before is None else (before[0], scope)

    def forget(self, name: str) -> tuple[TaintScope, ...]:
        """Drop a rule that is gone."""
        before = self._known.pop(name, None)
        return () if before is None else (before[0],)

    def over(self, named: NamedDevice, device: Device) -> Device:
        """Return a device with the taints of the rules that select it, in the order of the rules' names."""
        laid = [taint for _, (scope, taint) in sorted(self._known.items()) if scope.covers(named)]
        return msgspec.structs.replace(device, taints=[*(device.taints or ()), *laid]) if laid else device
