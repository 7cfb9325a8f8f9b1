"""The policy by which a node reports: ``spec.metricCollectPolicy`` of its NodeMetric.

The controller writes it from the ConfigMap slo-controller-config. A value that cannot be used is replaced with
Koordinator's default, and logged, since the alternative is no report at all.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from dra.api.durations import SECOND, MalformedDurationError, parse_duration
from dra.engine.usage.report import CollectPolicy

SECONDS_MAX: Final = 3600.0
"""Longest window and longest interval: samples of more than an hour are not kept."""

WINDOWS_MAX: Final = 8
"""Windows of percentiles at most."""

_DEFAULTS: Final = CollectPolicy()


def collect_policy(given: Mapping[str, Any] | None) -> tuple[CollectPolicy, tuple[str, ...]]:
    """Return the policy that a NodeMetric's spec asks for, and what of it cannot be used."""
    given = given or {}
    problems: list[str] = []
    windows = given.get("nodeAggregatePolicy")
    policy = CollectPolicy(
        aggregate_seconds=_seconds(given, "aggregateDurationSeconds", _DEFAULTS.aggregate_seconds, problems),
        report_seconds=_seconds(given, "reportIntervalSeconds", _DEFAULTS.report_seconds, problems),
        percentile_seconds=_windows(windows.get("durations") if isinstance(windows, Mapping) else None, problems),
    )
    return policy, tuple(problems)


def _seconds(given: Mapping[str, Any], name: str, default: float, problems: list[str]) -> float:
    value = given.get(name, default)
    if isinstance(value, int | float) and not isinstance(value, bool) and 1 <= value <= SECONDS_MAX:
        return float(value)
    problems.append(f"spec.metricCollectPolicy.{name}: {value!r} is not from 1 to {SECONDS_MAX:g}; {default:g} is used")
    return default


def _windows(given: object, problems: list[str]) -> tuple[float, ...]:
    if given is None:
        return _DEFAULTS.percentile_seconds
    windows = []
    for text in list(given)[:WINDOWS_MAX] if isinstance(given, Sequence) and not isinstance(given, str) else [given]:
        try:
            seconds = parse_duration(text) / SECOND if isinstance(text, str) else 0.0
        except MalformedDurationError:
            seconds = 0.0
        if 1 <= seconds <= SECONDS_MAX:
            windows.append(seconds)
        else:
            problems.append(
                f"spec.metricCollectPolicy.nodeAggregatePolicy.durations: {str(text)[:64]!r} is not from 1s to 1h, "
                "and is left out"
            )
    return tuple(dict.fromkeys(windows))
