"""The Prometheus metrics of the page: responses, streams, sets of rights, requests to the API server."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge

from dra.kube.large_objects import LargeObjects
from dra.telemetry.metrics import (
    certificate_observer,
    count_large_objects,
    dropped_connections_observer,
    render_metrics,
    request_observer,
)


class PageMetrics:
    """All metrics of one page, in a registry of their own."""

    def __init__(self, count_scopes: Callable[[], int]) -> None:
        self.registry = CollectorRegistry()
        self.responses = Counter(
            "dra_reserve_page_responses",
            "Responses to browsers, by status; 401: no valid token, 403: no permission, 503: a review failed, "
            "or a limit was reached",
            ["code"],
            registry=self.registry,
        )
        self.streams = Gauge("dra_reserve_page_streams", "Open streams of changes, one a tab", registry=self.registry)
        scopes = Gauge(
            "dra_reserve_page_scopes",
            "Different sets of rights whose rows are in memory, see maxScopes",
            registry=self.registry,
        )
        scopes.set_function(count_scopes)
        self.observe_certificates = certificate_observer(self.registry, "page")

        self.request = request_observer(self.registry)
        self.large_objects = LargeObjects()
        count_large_objects(self.registry, kept_bytes=self.large_objects.kept_bytes, refused=self.large_objects.refused)
        self.dropped = dropped_connections_observer(self.registry, "page", "probes", "metrics")

    def render(self) -> bytes:
        """Return all metrics in the text format."""
        return render_metrics(self.registry)
