"""Prometheus metrics of the kubelet plugin, with labels for drivers, never for claims or pods."""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from dra.telemetry.metrics import dropped_connections_observer, render_metrics

_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0)


class PluginMetrics:
    """The metrics of one plugin, in a registry of their own: tests start several plugins in one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._operations: dict[tuple[str, str], tuple[Histogram, Counter]] = {}
        """Metrics by driver and operation: a search by labels costs more than the observation."""
        self.calls = Histogram(
            "dra_reserve_plugin_call_seconds",
            "Duration of the kubelet's calls",
            ["driver", "operation"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.refused = Counter(
            "dra_reserve_plugin_claims_refused",
            "Claims that failed to be prepared or unprepared; Events of their pods have the reasons",
            ["driver", "operation"],
            registry=self.registry,
        )
        self.registered = Gauge(
            "dra_reserve_plugin_registered",
            "1 if the kubelet has registered the driver; otherwise its pods do not start",
            ["driver"],
            registry=self.registry,
        )
        self.published = Gauge(
            "dra_reserve_plugin_published",
            "1 if the driver's ResourceSlices are up to date",
            ["driver"],
            registry=self.registry,
        )
        self.prepared = Gauge(
            "dra_reserve_plugin_claims_prepared",
            "Prepared claims of the driver on the node",
            ["driver"],
            registry=self.registry,
        )
        self.devices = Gauge(
            "dra_reserve_plugin_devices",
            "Devices that the driver publishes on the node",
            ["driver"],
            registry=self.registry,
        )
        self.held = Gauge(
            "dra_reserve_plugin_devices_held",
            "Devices that prepared claims hold on the node; shares of one device count once",
            ["driver"],
            registry=self.registry,
        )
        self.impaired = Gauge(
            "dra_reserve_plugin_impaired",
            "1 if the driver is impaired for this reason; an Event on the Node has the details",
            ["driver", "reason"],
            registry=self.registry,
        )
        self.dropped = dropped_connections_observer(self.registry, "probes", "metrics")
        self.orphans = Gauge(
            "dra_reserve_plugin_orphans",
            "Prepared claims that were deleted or are no longer allocated",
            ["driver"],
            registry=self.registry,
        )

    def observe(self, driver: str, operation: str, *, seconds: float, refused: int) -> None:
        """Record the duration of a call and its number of refused claims."""
        key = (driver, operation)
        if key not in self._operations:
            self._operations[key] = self.calls.labels(*key), self.refused.labels(*key)
        calls, claims = self._operations[key]
        calls.observe(seconds)
        claims.inc(refused)

    def render(self) -> bytes:
        """Return the metrics in Prometheus' text format."""
        return render_metrics(self.registry)
