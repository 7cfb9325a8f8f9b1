"""The fields that each key of ConfigMap slo-controller-config has, with their ranges (Koordinator 1.6)."""

from collections.abc import Mapping
from typing import Final

from dra.api.colocation.config_fields import Boolean, Durations, Field, Integer, Share, Table, Unused, Word
from dra.api.colocation.strategies import CalculatePolicy, SuppressPolicy

_PERCENT: Final = Integer(least=0, most=100)
_ANY: Final = Unused()

COLOCATION_FIELDS: Final[Mapping[str, Field]] = {
    "enable": Boolean(),
    "metricAggregateDurationSeconds": Integer(least=1),
    "metricReportIntervalSeconds": Integer(least=1),
    "metricAggregatePolicy": Table(fields={"durations": Durations(), "statisticTypes": _ANY}),
    "metricMemoryCollectPolicy": Word(words=("usageWithoutPageCache", "usageWithHotPageCache", "usageWithPageCache")),
    "cpuReclaimThresholdPercent": Integer(least=0),
    "cpuCalculatePolicy": Word(words=(CalculatePolicy.USAGE, CalculatePolicy.MAX_USAGE_REQUEST)),
    "memoryReclaimThresholdPercent": Integer(least=0),
    "memoryCalculatePolicy": Word(words=tuple(CalculatePolicy)),
    "degradeTimeMinutes": Integer(least=1),
    "updateTimeThresholdSeconds": Integer(least=1),
    "resourceDiffThreshold": Share(),
    "batchCPUThresholdPercent": Integer(least=0),
    "batchMemoryThresholdPercent": Integer(least=0),
    "midCPUThresholdPercent": _PERCENT,
    "midMemoryThresholdPercent": _PERCENT,
    "midUnallocatedPercent": _PERCENT,
    "midStaticCPUReservedPercent": _PERCENT,
    "midStaticMemoryReservedPercent": _PERCENT,
    "extensions": _ANY,
}

THRESHOLD_FIELDS: Final[Mapping[str, Field]] = {
    "enable": Boolean(),
    "cpuSuppressThresholdPercent": _PERCENT,
    "cpuSuppressMinPercent": _PERCENT,
    "cpuSuppressPolicy": Word(words=tuple(SuppressPolicy)),
    "memoryEvictThresholdPercent": _PERCENT,
    "memoryEvictLowerPercent": _PERCENT,
    "cpuEvictThresholdPercent": _PERCENT,
    "cpuEvictLowerPercent": _PERCENT,
    "cpuEvictBEUsageThresholdPercent": _PERCENT,
    "cpuEvictBESatisfactionLowerPercent": _PERCENT,
    "cpuEvictBESatisfactionUpperPercent": _PERCENT,
    "cpuEvictTimeWindowSeconds": Integer(least=1),
    "cpuEvictPolicy": _ANY,
    "sharePoolThresholdPercent": _PERCENT,
    "allocatableEvictPriorityThreshold": Integer(least=0, most=7999),
    "evictEnabledPriorityThreshold": _ANY,
    "cpuAllocatableEvictThresholdPercent": _ANY,
    "cpuAllocatableEvictLowerPercent": _ANY,
    "memoryAllocatableEvictThresholdPercent": _ANY,
    "memoryAllocatableEvictLowerPercent": _ANY,
    "extensions": _ANY,
}

THRESHOLD_PAIRS: Final = (
    ("memoryEvictLowerPercent", "memoryEvictThresholdPercent"),
    ("cpuEvictLowerPercent", "cpuEvictThresholdPercent"),
    ("cpuEvictBESatisfactionLowerPercent", "cpuEvictBESatisfactionUpperPercent"),
)
"""Pairs of fields of which the first must be less than the second."""

_CPU_QOS: Final[Mapping[str, Field]] = {
    "enable": Boolean(),
    "groupIdentity": Integer(least=-1, most=2),
    "schedIdle": Integer(least=0, most=1),
    "coreExpeller": Boolean(),
    "coreSched": _ANY,
}
_MEMORY_QOS: Final[Mapping[str, Field]] = {
    "enable": Boolean(),
    "minLimitPercent": _PERCENT,
    "lowLimitPercent": _PERCENT,
    "throttlingPercent": _PERCENT,
    "wmarkRatio": _PERCENT,
    "wmarkScalePermill": Integer(least=1, most=1000),
    "wmarkMinAdj": Integer(least=-25, most=50),
    "priorityEnable": Integer(least=0, most=1),
    "priority": Integer(least=0, most=12),
    "oomKillGroup": Integer(least=0, most=1),
    "memcgReapBackGround": Integer(least=0, most=1),
    "pageCacheLimitEnabled": Integer(least=0, most=1),
    "pageCacheLimitPercent": _PERCENT,
    "pageCacheLimitSyncPercent": _ANY,
    "pageCacheLimitSync": _ANY,
}
RESCTRL_FIELDS: Final[Mapping[str, Field]] = {
    "enable": Boolean(),
    "catRangeStartPercent": _PERCENT,
    "catRangeEndPercent": _PERCENT,
    "mbaPercent": _PERCENT,
}
QOS_CLASSES: Final = {"lsrClass": "lsr", "lsClass": "ls", "beClass": "be"}
"""Field of ``resource-qos-config`` → field of `QosStrategy`."""

_CLASS: Final = Table(
    fields={
        "cpuQOS": Table(fields=_CPU_QOS),
        "memoryQOS": Table(fields=_MEMORY_QOS),
        "blkioQOS": _ANY,
        "resctrlQOS": Table(fields=RESCTRL_FIELDS),
        "networkQOS": _ANY,
    }
)
QOS_FIELDS: Final[Mapping[str, Field]] = {
    "policies": _ANY,
    **dict.fromkeys(QOS_CLASSES, _CLASS),
    "systemClass": _CLASS,
    "cgroupRoot": _CLASS,
}
