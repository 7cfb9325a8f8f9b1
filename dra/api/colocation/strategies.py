"""The strategies of a node: what the keys of ConfigMap slo-controller-config say, with Koordinator's defaults."""

from collections.abc import Mapping
from enum import StrEnum
from fractions import Fraction
from typing import Final

from dra.model.meta import Struct


class CalculatePolicy(StrEnum):
    """The amount of a high-priority pod that batch pods cannot have."""

    USAGE = "usage"
    REQUEST = "request"
    MAX_USAGE_REQUEST = "maxUsageRequest"


class SuppressPolicy(StrEnum):
    """By what batch pods are held back."""

    CPUSET = "cpuset"
    CFS_QUOTA = "cfsQuota"


class ColocationStrategy(Struct, frozen=True):
    """The way to compute and publish the batch resources of a node, and its reporting (``colocation-config``)."""

    enable: bool = False
    metric_aggregate_duration_seconds: int = 300
    metric_report_interval_seconds: int = 60
    metric_aggregate_durations: tuple[str, ...] = ("5m0s", "10m0s", "30m0s")
    metric_memory_collect_policy: str = ""
    cpu_reclaim_threshold_percent: int = 60
    cpu_calculate_policy: CalculatePolicy = CalculatePolicy.USAGE
    memory_reclaim_threshold_percent: int = 65
    memory_calculate_policy: CalculatePolicy = CalculatePolicy.USAGE
    degrade_time_minutes: int = 15
    update_time_threshold_seconds: int = 300
    resource_diff_threshold: Fraction = Fraction(1, 10)
    batch_cpu_threshold_percent: int | None = None
    """The most that batch pods may have, in percent of the capacity; None: no such limit."""

    batch_memory_threshold_percent: int | None = None


class ThresholdStrategy(Struct, frozen=True):
    """The way in which a node holds batch pods back (``resource-threshold-config``)."""

    enable: bool = False
    cpu_suppress_threshold_percent: int = 65
    cpu_suppress_min_percent: int | None = None
    cpu_suppress_policy: SuppressPolicy = SuppressPolicy.CPUSET


class ResctrlStrategy(Struct, frozen=True):
    """The part of L3 cache and memory bandwidth that a class may use, in percent (``resctrlQOS``)."""

    enable: bool = False
    cat_range_start_percent: int = 0
    cat_range_end_percent: int = 100
    mba_percent: int = 100


class QosStrategy(Struct, frozen=True):
    """The strategies of the QoS classes (``resource-qos-config``)."""

    lsr: ResctrlStrategy = ResctrlStrategy()
    """Of the classes LSE and LSR."""

    ls: ResctrlStrategy = ResctrlStrategy()
    be: ResctrlStrategy = ResctrlStrategy(cat_range_end_percent=30)

    @property
    def by_class(self) -> Mapping[str, ResctrlStrategy]:
        """The strategies by the names of the classes, LSR, LS and BE."""
        return {"LSR": self.lsr, "LS": self.ls, "BE": self.be}


DEFAULT_DURATIONS: Final = ColocationStrategy().metric_aggregate_durations
