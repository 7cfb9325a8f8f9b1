"""Prometheus metrics that all components share: the text format; requests, Events and dropped connections."""

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from prometheus_client import CollectorRegistry, Counter, disable_created_metrics, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dra.httpserver.connections import DropReason

disable_created_metrics()  # type: ignore[no-untyped-call]
# Otherwise every counter and histogram has a second series, ``…_created``, with its creation time: a third of all
# series, unused by dashboards. The switch applies to the whole process, not to a registry.


def render_metrics(registry: CollectorRegistry) -> bytes:
    """Return all metrics of a registry in the text format."""
    return generate_latest(registry)


def request_observer(registry: CollectorRegistry) -> Callable[[str, str, int, float], None]:
    """Register the metric of requests to the API server; return the observer of a client, which counts them."""
    counter = Counter(
        "dra_reserve_api_requests",
        "Requests to the API server, by method, resource and status",
        ["method", "resource", "code"],
        registry=registry,
    )

    def requested(method: str, resource: str, status: int, seconds: float) -> None:
        del seconds
        counter.labels(method, resource, str(status)).inc()

    return requested


def decision_failures_counter(registry: CollectorRegistry) -> Counter:
    """Register and return the metric of internal errors in decisions."""
    return Counter(
        "dra_reserve_decision_failures",
        "Internal errors while a claim, a Reservation or a migration was decided; each is a bug, and the log has the "
        "traceback",
        registry=registry,
    )


ExpirySource: TypeAlias = Callable[[], Mapping[str, float]]
"""Returns the seconds until each certificate in use expires."""


class _CertificateCollector(Collector):
    def __init__(self, process: str) -> None:
        self._name = f"dra_reserve_{process}_certificate_expiry_seconds"
        self._expiries: ExpirySource = dict

    def observe(self, expiries: ExpirySource) -> None:
        self._expiries = expiries

    def collect(self) -> Iterator[Metric]:
        help_text = "Seconds until a certificate in use expires; negative after that"
        family = GaugeMetricFamily(self._name, help_text, labels=["certificate"])
        for certificate, seconds in self._expiries().items():
            family.add_metric([certificate], seconds)
        yield family


def certificate_observer(registry: CollectorRegistry, process: str) -> Callable[[ExpirySource], None]:
    """Register the metric; return a function that sets where each scrape finds the certificates of the process."""
    collector = _CertificateCollector(process)
    registry.register(collector)
    return collector.observe


def discarded_events_counter(registry: CollectorRegistry) -> Counter:
    """Register and return the metric of Events that were not created."""
    return Counter(
        "dra_reserve_events_discarded",
        "Events not created: too many Events of one namespace were queued, or the API server "
        "rejected or did not answer the request",
        registry=registry,
    )


def dropped_connections_observer(registry: CollectorRegistry, *listeners: str) -> Callable[[str, DropReason], None]:
    """Register the metric; return a function that counts a dropped connection of one of the `listeners`."""
    counter = Counter(
        "dra_reserve_connections_dropped",
        "Connections closed because a listener's limit was reached",
        ["listener", "cause"],
        registry=registry,
    )
    for listener in listeners:
        for cause in DropReason:
            counter.labels(listener, cause.value)

    def dropped(listener: str, cause: DropReason) -> None:
        counter.labels(listener, cause.value).inc()

    return dropped


class _LargeObjectCollector(Collector):
    def __init__(self, kept_bytes: Callable[[], Mapping[str, int]], refused: Callable[[], Mapping[str, int]]) -> None:
        self._kept_bytes = kept_bytes
        self._refused = refused

    def collect(self) -> Iterator[Metric]:
        kept = GaugeMetricFamily(
            "dra_reserve_large_object_bytes",
            "Memory of the large objects that are kept, by resource: at most 8 MiB for a namespace in each informer",
            labels=["resource"],
        )
        refused = GaugeMetricFamily(
            "dra_reserve_objects_too_large",
            "Objects that are not kept because of their size, by resource; the log names them, and Events do",
            labels=["resource"],
        )
        for family, count in ((kept, self._kept_bytes), (refused, self._refused)):
            for resource, number in sorted(count().items()):
                family.add_metric([resource], number)
            yield family


def count_large_objects(
    registry: CollectorRegistry,
    *,
    kept_bytes: Callable[[], Mapping[str, int]],
    refused: Callable[[], Mapping[str, int]],
) -> None:
    """Register the metrics of large objects, from functions that return numbers by resource."""
    registry.register(_LargeObjectCollector(kept_bytes, refused))
