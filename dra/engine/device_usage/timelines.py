"""Time lines of groups of devices: how many were held and used, as means of periods of equal length.

A mean of a period counts what was held for a part of it as that part, so the periods of a line add up to the
device-hours of the same time.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from operator import add
from typing import Final

from msgspec.structs import replace

from dra.engine.device_usage.groups import UsageGroup
from dra.engine.device_usage.history import (
    GROUPINGS,
    HELD_METRIC,
    LABELS,
    USED_METRIC,
    counts_by_group,
    group_name,
    parse_number,
    step_seconds,
)
from dra.engine.device_usage.promql import selector, split_names
from dra.model.meta import Struct


class Span(Struct, frozen=True):
    """A time until now, in periods of equal length."""

    seconds: int
    period: int
    """Seconds of one period."""

    @property
    def periods(self) -> int:
        """The number of periods."""
        return self.seconds // self.period


SPANS: Final[Mapping[str, Span]] = {
    "24h": Span(seconds=24 * 3600, period=900),
    "7d": Span(seconds=7 * 24 * 3600, period=2 * 3600),
}
"""Name → the time that a user can choose."""


class Timeline(Struct, frozen=True):
    """The devices of one group in each period, the oldest first."""

    held: tuple[float, ...]
    used: tuple[float, ...]


class Series(Struct, frozen=True):
    """``data.result[]`` of an answer about a range: the labels of a series, and its values with their times."""

    metric: Mapping[str, str]
    values: list[tuple[float, str]]


class TimelineQuery(Struct, frozen=True):
    """Two expressions that have the periods of some groups as a range."""

    names: frozenset[str]
    """The groups that are asked for; an answer may have others, which another query asks for."""

    held: str
    used: str


def timeline_queries(
    by: str,
    groups: Iterable[UsageGroup],
    *,
    span: Span,
    namespaces: Collection[str] | None,
    labels: Mapping[str, str],
) -> Iterator[TimelineQuery]:
    """Yield the queries for the lines of some groups, which are named as ``by`` names them.

    ``namespaces`` and ``labels``: as for `history.queries`. Raises MalformedLabelError.
    """
    positions = [LABELS.index(label) for label in GROUPINGS[by]]
    names = {group_name(by, group): [group[position] for position in positions] for group in groups}
    step = step_seconds(span.seconds)
    periods = f"[{span.period}s:{step}s]"
    for spaces in (None,) if namespaces is None else split_names(sorted(namespaces)):
        for part in split_names(sorted(names)):
            values = zip(*(names[name] for name in part), strict=True)
            any_of = {} if spaces is None else {LABELS[0]: frozenset(spaces)}
            any_of |= {label: frozenset(chosen) for label, chosen in zip(GROUPINGS[by], values, strict=True)}
            series = selector(labels, any_of=any_of)
            held, used = (
                f"sum by ({', '.join(GROUPINGS[by])}) (sum_over_time(({counts_by_group(metric, series)}){periods}))"
                f" * {step} / {span.period}"
                for metric in (HELD_METRIC, USED_METRIC)
            )
            yield TimelineQuery(names=frozenset(part), held=held, used=used)
        if LABELS[0] in GROUPINGS[by]:
            return  # the names have the namespaces


def read_timelines(
    by: str, answers: Iterable[tuple[TimelineQuery, Iterable[Series], Iterable[Series]]], *, span: Span, end: float
) -> dict[str, Timeline]:
    """Return the lines of groups from the answers about held and used devices until ``end``, Unix time."""
    lines: dict[str, Timeline] = {}
    for query, held, used in answers:
        for series in held:
            if (name := _name(by, series)) in query.names:
                before = lines.get(name, _nothing(span))
                lines[name] = replace(before, held=_sum(before.held, _line(series, span, end)))
        for series in used:
            if (name := _name(by, series)) in query.names:
                before = lines.get(name, _nothing(span))
                lines[name] = replace(before, used=_sum(before.used, _line(series, span, end)))
    return lines


def _nothing(span: Span) -> Timeline:
    return Timeline(held=(0.0,) * span.periods, used=(0.0,) * span.periods)


def _sum(one: tuple[float, ...], other: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(map(add, one, other))


def _name(by: str, series: Series) -> str:
    return "/".join(series.metric.get(label, "") for label in GROUPINGS[by])


def _line(series: Series, span: Span, end: float) -> tuple[float, ...]:
    """Return one number for each period; a period without a value had nothing."""
    line = [0.0] * span.periods
    for at, text in series.values:
        index = span.periods - 1 - round((end - at) / span.period)
        number = parse_number(text)
        if number is not None and 0 <= index < span.periods:
            line[index] = number
    return tuple(line)
