"""The text format of Prometheus, as exposed by all components."""

from prometheus_client import CollectorRegistry, disable_created_metrics, generate_latest

disable_created_metrics()  # type: ignore[no-untyped-call]
# Otherwise every counter and histogram has a second series, ``…_created``, with its creation time: a third of all
# series, unused by dashboards. The switch applies to the whole process, not to a registry.


def render_metrics(registry: CollectorRegistry) -> bytes:
    """Return all metrics of a registry in the text format."""
    return generate_latest(registry)
