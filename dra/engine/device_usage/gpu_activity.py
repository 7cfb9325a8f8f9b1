"""Whether GPUs compute, by the NodeMetrics of their nodes; the UUIDs come from ResourceSlices.

A NodeMetric is believed about GPUs of its own node alone: an agent that reports the UUID of another node's GPU says
nothing. What is not known is None, never idle.
"""

from functools import partial
from typing import Final, NamedTuple

from dra.engine.colocation.node_usage import NodeUsage
from dra.engine.colocation.staleness import report_age
from dra.engine.colocation.watched import reported_usage
from dra.engine.device_usage.groups import Activity
from dra.engine.instants import Instant, Moment
from dra.model.claims import DeviceRequestAllocationResult
from dra.model.node_metrics import NodeMetric
from dra.model.slices import ResourceSliceTaints

REPORT_VALID: Final = 900.0
"""Seconds for which a report counts: Koordinator's default of degradeTimeMinutes."""


class _Report(NamedTuple):
    usage: NodeUsage
    seen: Instant
    """When this process saw the report change."""


class GpuActivity:
    """The GPUs of all nodes with their last reports."""

    def __init__(self) -> None:
        self._slices: dict[str, ResourceSliceTaints] = {}
        self._gpus: dict[tuple[str, str, str], dict[str, tuple[str, str]]] = {}
        """Driver, pool and device → ResourceSlice → node and UUID; two while a driver replaces slices."""

        self._reports: dict[str, _Report] = {}

    def observe_slice(self, resource_slice: ResourceSliceTaints) -> None:
        """Record the UUIDs of a ResourceSlice; slices without any cost nothing."""
        self.forget_slice(resource_slice)
        spec = resource_slice.spec
        if spec.uuids and spec.node_name:
            self._slices[resource_slice.metadata.name] = resource_slice
            for device, uuid in spec.uuids.items():
                holders = self._gpus.setdefault((spec.driver, spec.pool.name, device), {})
                holders[resource_slice.metadata.name] = (spec.node_name, uuid)

    def forget_slice(self, resource_slice: ResourceSliceTaints) -> None:
        """Forget the UUIDs of a ResourceSlice."""
        before = self._slices.pop(resource_slice.metadata.name, None)
        if before is not None:
            for device in before.spec.uuids:
                gpu = (before.spec.driver, before.spec.pool.name, device)
                holders = self._gpus[gpu]
                del holders[resource_slice.metadata.name]
                if not holders:
                    del self._gpus[gpu]

    def observe_metric(self, metric: NodeMetric, *, now: Instant) -> None:
        """Record the report of a node."""
        name, usage = metric.metadata.name, reported_usage(metric)
        before = self._reports.get(name)
        if usage is None or not usage.gpus:
            self._reports.pop(name, None)
        elif before is None or before.usage.update_time != usage.update_time:
            self._reports[name] = _Report(usage=usage, seen=now)

    def forget_metric(self, metric: NodeMetric) -> None:
        """Forget the report of a node."""
        self._reports.pop(metric.metadata.name, None)

    def at(self, now: Moment) -> Activity:
        """Return a function that reports whether a device computes at a time."""
        return partial(self.is_active, now=now)

    def is_active(self, result: DeviceRequestAllocationResult, *, now: Moment) -> bool | None:
        """Report whether a device computes; None if that is not known: no GPU, no report, or one that is too old."""
        holders = self._gpus.get((result.driver, result.pool, result.device), {})
        node, uuid = next(reversed(holders.values()), ("", ""))
        report = self._reports.get(node)
        if report is None:
            return None
        age = report_age(report.usage.update_time, wall=now.wall, unchanged=now.instant - report.seen)
        percent = report.usage.gpus.get(uuid)
        return None if percent is None or age > REPORT_VALID else percent > 0
