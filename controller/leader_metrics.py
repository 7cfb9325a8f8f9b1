"""The metrics that every process has of which one replica acts."""

from collections.abc import Sequence
from typing import Final

from prometheus_client import CollectorRegistry, Gauge

from dra.kube.large_objects import LargeObjects
from dra.telemetry.metrics import (
    count_large_objects,
    decision_failures_counter,
    discarded_events_counter,
    dropped_connections_observer,
    render_metrics,
    request_observer,
)

LISTENERS: Final = ("probes", "metrics")


class LeaderMetrics:
    """The metrics of a process, in a registry of their own: tests start several processes in one.

    A subclass adds those of its work.
    """

    def __init__(self, *, leading: str, acts: str, listeners: Sequence[str] = LISTENERS) -> None:
        """Register the metrics; ``leading`` is the name of a gauge, ``acts`` says what the leader does."""
        self.registry = CollectorRegistry()
        self.leading = Gauge(
            leading, f"1 if this replica {acts}; the sum over all replicas should be 1", registry=self.registry
        )
        self.failures = decision_failures_counter(self.registry)
        self.request = request_observer(self.registry)
        self.large_objects = LargeObjects()
        count_large_objects(self.registry, kept_bytes=self.large_objects.kept_bytes, refused=self.large_objects.refused)
        self.events_discarded = discarded_events_counter(self.registry)
        self.dropped = dropped_connections_observer(self.registry, *listeners)

    def render(self) -> bytes:
        """Return all metrics in the text format."""
        return render_metrics(self.registry)
