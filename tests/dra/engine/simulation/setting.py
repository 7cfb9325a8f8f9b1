"""What a history happens in, and what does not change in it: devices, components that are there, and how slow each is.

No number here is a constant of the engine. What upstream promises is named after its place there; what upstream does
not bound is drawn for each history, and `docs/explanation/guarantees.md` says up to where we promise anything.
"""

from typing import Final

from dra.engine.claims.policy import REPLACE, Policy
from dra.model.meta import Struct
from tests.dra.engine.simulation import list_limits
from tests.dra.engine.simulation.objects import ONE_DEVICE, Device

VOLUME_BINDING_TIMEOUT: Final = 600.0
"""Seconds for which PreBind waits for volumes (``VolumeBindingArgs.bindTimeoutSeconds``)."""

DEVICE_BINDING_TIMEOUT: Final = 600.0
"""Seconds for which PreBind waits for binding conditions (``DynamicResourcesArgs.bindingTimeout``)."""

PERMIT_TIMEOUT: Final = 900.0
"""Seconds for which a Permit plugin can make a pod wait at most (``maxTimeout``, framework/runtime/framework.go)."""

PLUGINS_TIMEOUT: Final = 1200.0
"""Seconds for which plugins together may make a binding cycle wait that we promise anything of: 20 minutes."""

NODE_MONITOR_GRACE_PERIOD: Final = 50.0
"""Seconds of silence after which the node controller calls a node not ready (``--node-monitor-grace-period``)."""

TERMINATION_GRACE_PERIOD: Final = 30
"""Seconds that a pod's containers have to end (``terminationGracePeriodSeconds``)."""


class Setting(Struct, frozen=True):
    """The cluster of a history."""

    devices: tuple[Device, ...] = ONE_DEVICE
    list_size: tuple[int, int] = list_limits.DEFAULT_LIST_SIZE
    policy: Policy = REPLACE
    binding_seconds: float = 50.0
    """Seconds from a scheduler's last look into its cache to the last request of the cycle, waits by plugins apart."""

    nominates: bool = True
    """Whether the scheduler writes nominatedNodeName before it binds (on since 1.35)."""

    stock: bool = False
    """Whether the stock claim controller runs as well."""

    second_scheduler: bool = False
    """Whether the scheduler of pods that name another one runs; else nobody ever judges these pods."""

    drivers: bool = True
    """Whether drivers report that devices are ready to be bound."""

    lags: tuple[float, ...] = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    """Seconds by which the watches are behind in the beginning: of nodes, claims, pods, Jobs, PodGroups, Reservations.
    """

    def __str__(self) -> str:
        usual = Setting()
        shown = {
            "devices": " ".join(str(device) for device in self.devices),
            "lists": self.list_size,
            "mode": "replace" if self.policy.prune_started else "alongside",
        }
        shown |= {"suspended Jobs": "release"} if self.policy.release_suspended else {}
        others = ("binding_seconds", "nominates", "stock", "second_scheduler", "drivers", "lags")
        shown |= {name: getattr(self, name) for name in others if getattr(self, name) != getattr(usual, name)}
        return ", ".join(f"{name} {value}" for name, value in shown.items())
