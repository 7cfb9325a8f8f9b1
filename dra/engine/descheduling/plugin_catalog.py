"""The plugins that a profile can name: the built-in ones, and those of users."""

import difflib
from collections.abc import Mapping
from typing import Any, Final

from dra.api.descheduler.forms import DEFAULT_EVICTOR, MIGRATION_CONTROLLER
from dra.engine.descheduling.evictor_filter import DefaultEvictorFilter
from dra.engine.descheduling.migration_filter import MigrationControllerFilter
from dra.engine.descheduling.plugin import Plugin
from dra.engine.descheduling.plugins.device_defragmentation import DeviceDefragmentation
from dra.engine.descheduling.plugins.duplicates import RemoveDuplicates
from dra.engine.descheduling.plugins.failed_pods import RemoveFailedPods
from dra.engine.descheduling.plugins.high_node_utilization import HighNodeUtilization
from dra.engine.descheduling.plugins.inter_pod_anti_affinity import RemovePodsViolatingInterPodAntiAffinity
from dra.engine.descheduling.plugins.low_node_load import LowNodeLoad
from dra.engine.descheduling.plugins.low_node_utilization import LowNodeUtilization
from dra.engine.descheduling.plugins.node_affinity import RemovePodsViolatingNodeAffinity
from dra.engine.descheduling.plugins.node_reservation import RemovePodsViolatingNodeReservation
from dra.engine.descheduling.plugins.node_taints import RemovePodsViolatingNodeTaints
from dra.engine.descheduling.plugins.pod_life_time import PodLifeTime
from dra.engine.descheduling.plugins.pods_under_pressure import RemovePodsUnderPressure
from dra.engine.descheduling.plugins.too_many_restarts import RemovePodsHavingTooManyRestarts
from dra.engine.descheduling.plugins.topology_spread_constraint import RemovePodsViolatingTopologySpreadConstraint

EVICTORS: Final = (MIGRATION_CONTROLLER, DEFAULT_EVICTOR)
"""Built-in plugins of the extension point ``evict``."""

BUILT_IN: Final[tuple[type[Any], ...]] = (
    DefaultEvictorFilter,
    DeviceDefragmentation,
    HighNodeUtilization,
    LowNodeLoad,
    LowNodeUtilization,
    MigrationControllerFilter,
    PodLifeTime,
    RemoveDuplicates,
    RemoveFailedPods,
    RemovePodsHavingTooManyRestarts,
    RemovePodsUnderPressure,
    RemovePodsViolatingInterPodAntiAffinity,
    RemovePodsViolatingNodeAffinity,
    RemovePodsViolatingNodeReservation,
    RemovePodsViolatingNodeTaints,
    RemovePodsViolatingTopologySpreadConstraint,
)
"""All built-in plugins; a new one is added here."""

BUILT_IN_NAMES: Final = frozenset(plugin.name for plugin in BUILT_IN)
"""Names that no plugin of a user can have."""

POINTS: Final = ("deschedule", "balance", "filter", "evict")
"""Extension points; a plugin has a method of the name for each of its own."""

NOT_PLANNED: Final[Mapping[str, str]] = {
    "CustomPriority": "RemovePodsViolatingNodeAffinity moves pods to preferred nodes",
    "FragmentationAware": "it serves Koordinator's own scheduler",
    "ScaleDownBinPack": "HighNodeUtilization empties nodes",
}
"""Plugin of Koordinator that is not here → what there is instead."""


class PluginCatalog:
    """The plugins by their names."""

    def __init__(self, users: Mapping[str, Plugin]) -> None:
        """Create a catalog; ``users`` has plugins beside the built-in ones, whose names no user can take."""
        self._plugins: dict[str, Plugin] = {**users, **{plugin.name: plugin() for plugin in BUILT_IN}}

    def find(self, name: str) -> Plugin | None:
        """Return the plugin of a name, if there is one."""
        return self._plugins.get(name)

    def points(self, plugin: Plugin) -> tuple[str, ...]:
        """Return the extension points of a plugin."""
        return tuple(
            point for point in POINTS if hasattr(plugin, point) or (point == "evict" and plugin.name in EVICTORS)
        )

    def unknown_text(self, name: str) -> str:
        """Return what to say about a name that no plugin has."""
        if instead := NOT_PLANNED.get(name):
            return f"Koordinator's {name} is not supported; {instead}"
        near = difflib.get_close_matches(name[:64], self._plugins, n=1)
        names = ", ".join(sorted(self._plugins))
        known = f"known are {names}; a package with a plugin of yours must be installed here, too"
        hint = f"did you mean {near[0]}?" if near else known
        return f"no plugin is named {name[:64]!r}; {hint}"
