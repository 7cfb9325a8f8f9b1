"""Values that options accept, as texts: the modules that define them read configurations, which takes a second."""

from typing import Final

CONTROLLER_MODES: Final = ("replace", "alongside")
"""Values of `ControllerMode`."""

DEFAULT_MODE: Final = "alongside"

MIGRATION_MODES: Final = ("ReservationFirst", "EvictDirectly")
"""Values of `MigrationMode`."""

CPU_BIND_POLICIES: Final = ("FullPCPUs", "SpreadByPCPUs")
"""Values of `CpuBindPolicy`."""

DRY_RUN_STRATEGIES: Final = ("none", "client", "server")

FIELD_MANAGER: Final = "kubectl"
"""kubectl's own field manager, so that `kubectl apply --server-side` and `kubectl dra apply` share their fields."""

OPTIONAL_COMPONENTS: Final = (
    "reservations",
    "reservations-yielding",
    "descheduler",
    "page",
    "koordinator",
    "kubelet-plugin",
    "kubelet-plugin-nvidia",
    "kubelet-plugin-static",
    "koordinator-devices",
    "koordinator-priority-classes",
    "colocation",
    "colocation-profiles",
    "claim-status",
    "node-topology",
    "annotate-nodes",
    "gate",
)
"""Components that ``kubectl dra install --with`` accepts."""
