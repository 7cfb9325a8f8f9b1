"""The Prometheus metrics of ``dra-reserve colocation-profiles``."""

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


class ProfilesMetrics:
    """All metrics of one process, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.leading = Gauge(
            "dra_reserve_profiles_leading",
            "1 if this replica writes the parameters of the admission policy; the sum over all replicas should be 1",
            registry=self.registry,
        )
        self.failures = decision_failures_counter(self.registry)
        self.request = request_observer(self.registry)
        self.large_objects = LargeObjects()
        count_large_objects(self.registry, kept_bytes=self.large_objects.kept_bytes, refused=self.large_objects.refused)
        self.events_discarded = discarded_events_counter(self.registry)
        self.dropped = dropped_connections_observer(self.registry, "probes", "metrics")

    def render(self) -> bytes:
        """Return all metrics in the text format."""
        return render_metrics(self.registry)
