"""DeviceTaintRules, applied to devices: an administrator's taints beside those of the driver.

As in upstream's ResourceSlice tracker (dynamic-resource-allocation/resourceslice/tracker), the allocator sees slices
in which the selected devices carry the taints of the rules. The allocator does not read the rules themselves.
"""

import msgspec

from dra.engine.devices.taints import NamedDevice, TaintScope, scope_of_rule
from dra.model.slices import Device
from dra.model.taints import DeviceTaint, DeviceTaintRule


class DeviceTaintRules:
    """All rules that select devices. Each observation returns the scopes in which the taints of devices may change."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[TaintScope, DeviceTaint]] = {}

    def observe(self, rule: DeviceTaintRule) -> tuple[TaintScope, ...]:
        """Add or update a DeviceTaintRule."""
        name, scope = rule.metadata.name, scope_of_rule(rule)
        if scope is None:
            return self.forget(name)
        before, after = self._known.get(name), (scope, rule.spec.taint)
        if before == after:
            return ()
        self._known[name] = after
        return (scope,) if before is None else (before[0], scope)

    def forget(self, name: str) -> tuple[TaintScope, ...]:
        """Remove a DeviceTaintRule that was deleted."""
        before = self._known.pop(name, None)
        return () if before is None else (before[0],)

    def apply(self, named: NamedDevice, device: Device) -> Device:
        """Return a device with the taints of the rules that select the device, ordered by the names of the rules."""
        added = [taint for _, (scope, taint) in sorted(self._known.items()) if scope.covers(named)]
        return msgspec.structs.replace(device, taints=[*(device.taints or ()), *added]) if added else device
