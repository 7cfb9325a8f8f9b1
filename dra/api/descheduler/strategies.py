"""The strategies of the community's DeschedulerPolicy v1alpha1, translated into profiles of v1alpha2.

Earlier versions of upstream's descheduler read strategies; today's reads such a file as a policy without profiles, and
does nothing. The translation is a proposal for people: what has no counterpart is left out.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from dra.api.descheduler.koordinator_configuration import API_VERSION

_BALANCE: Final = frozenset(
    {
        "RemoveDuplicates",
        "LowNodeUtilization",
        "HighNodeUtilization",
        "RemovePodsViolatingTopologySpreadConstraint",
    }
)
_NESTED: Final = (
    "nodeResourceUtilizationThresholds",
    "podsHavingTooManyRestarts",
    "podLifeTime",
    "removeDuplicates",
    "failedPods",
)
"""Objects in ``params`` whose fields are arguments of the plugin."""
_PLAIN: Final = (
    "nodeAffinityType",
    "includePreferNoSchedule",
    "excludedTaints",
    "includedTaints",
    "namespaces",
    "labelSelector",
)
_EVICTOR: Final = (
    "evictLocalStoragePods",
    "evictSystemCriticalPods",
    "evictFailedBarePods",
    "evictDaemonSetPods",
    "ignorePvcPods",
)
_KEPT: Final = (
    "nodeSelector",
    "maxNoOfPodsToEvictPerNode",
    "maxNoOfPodsToEvictPerNamespace",
    "maxNoOfPodsToEvictTotal",
)
_CONSTRAINTS: Final = ("DoNotSchedule", "ScheduleAnyway")


def translate(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return a DeschedulerPolicy v1alpha2 that does what a policy v1alpha1 says."""
    given = content.get("strategies")
    enabled = {
        str(name): _mapping(strategy.get("params"))
        for name, strategy in _mapping(given).items()
        if isinstance(strategy, Mapping) and strategy.get("enabled")
    }
    evictor = {name: content[name] for name in _EVICTOR if name in content}
    for params in enabled.values():
        evictor |= dict(_evictor_arguments(params))
    configs = [{"name": "DefaultEvictor", "args": evictor}] if evictor else []
    configs += [{"name": name, "args": args} for name, params in enabled.items() if (args := dict(_arguments(params)))]
    plugins = {}
    for point, names in (
        ("deschedule", [name for name in enabled if name not in _BALANCE]),
        ("balance", [name for name in enabled if name in _BALANCE]),
    ):
        if names:
            plugins[point] = {"enabled": names}
    profile = {"name": "default", "pluginConfig": configs, "plugins": plugins}
    kept = {name: content[name] for name in _KEPT if name in content}
    return {"apiVersion": API_VERSION, "kind": "DeschedulerPolicy", **kept, "profiles": [profile]}


def _arguments(params: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for nested in _NESTED:
        for name, value in _mapping(params.get(nested)).items():
            yield "states" if name == "podStatusPhases" else name, value
    for name in _PLAIN:
        if name in params:
            yield name, params[name]
    if params.get("includeSoftConstraints"):
        yield "constraints", list(_CONSTRAINTS)


def _evictor_arguments(params: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield what was said for each strategy, and is now said once for the evictor."""
    if params.get("nodeFit"):
        yield "nodeFit", True
    if (value := params.get("thresholdPriority")) is not None:
        yield "priorityThreshold", {"value": value}
    elif name := params.get("thresholdPriorityClassName"):
        yield "priorityThreshold", {"name": name}


def _mapping(value: Any) -> Mapping[str, Any]:  # noqa: ANN401 - any part of a document
    return value if isinstance(value, Mapping) else {}
