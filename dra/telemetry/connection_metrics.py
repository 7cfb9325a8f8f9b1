"""The metric of dropped connections, for every process that listens."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter

from dra.httpserver.connections import DropReason


def dropped_connections_observer(registry: CollectorRegistry, *listeners: str) -> Callable[[str, DropReason], None]:
    """Register the metric; return a function that counts a dropped connection of one of the `listeners`."""
    counter = Counter(
        "dra_reserve_connections_dropped",
        "Connections closed because a listener's limit was reached; docs/reference/limits.md has the limits",
        ["listener", "cause"],
        registry=registry,
    )
    for listener in listeners:
        for cause in DropReason:
            counter.labels(listener, cause.value)

    def dropped(listener: str, cause: DropReason) -> None:
        counter.labels(listener, cause.value).inc()

    return dropped
