"""The metric of dropped connections, which every process has that listens."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter

from dra.serving.connections import Drop


def observer(registry: CollectorRegistry, *listeners: str) -> Callable[[str, Drop], None]:
    """Register the metric; return what counts a dropped connection of one of the `listeners`."""
    counter = Counter(
        "dra_reserve_connections_dropped",
        "Connections closed because a listener's limit was reached; docs/reference/limits.md has the limits",
        ["listener", "cause"],
        registry=registry,
    )
    for listener in listeners:
        for cause in Drop:
            counter.labels(listener, cause.value)

    def dropped(listener: str, cause: Drop) -> None:
        counter.labels(listener, cause.value).inc()

    return dropped
