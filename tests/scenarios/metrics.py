"""Reading /metrics: the text format of Prometheus, as far as scenarios need it."""

from __future__ import annotations

Metrics = dict[str, float]
"""Sample by name and labels exactly as printed, e.g. ``claims_total{mode="replace"}``."""


def parse(text: str) -> Metrics:
    """Return all samples of one scrape."""
    samples: Metrics = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            series, _, value = line.rpartition(" ")
            samples[series] = float(value)
    return samples


def total(metrics: Metrics, name: str) -> float:
    """Return the sum of a metric over all its labels."""
    return sum(value for series, value in metrics.items() if series.partition("{")[0] == name)
