"""The text format of Prometheus, as all processes of ours expose it."""

from prometheus_client import CollectorRegistry, disable_created_metrics, generate_latest

disable_created_metrics()  # type: ignore[no-untyped-call]
# Else every counter and histogram has a second series, ``…_created``, with the time of its birth: a third of all, which
# no dashboard asks for. It is a switch of the whole process, not of a registry.


def render_metrics(registry: CollectorRegistry) -> bytes:
    """Return all metrics of a registry."""
    return generate_latest(registry)
