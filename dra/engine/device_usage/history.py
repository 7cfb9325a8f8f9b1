"""The history of groups of devices, from the two gauges that a Prometheus has scraped.

Prometheus does the sums, so that an answer has one number for each group however long the history is. All queries ask
for the same groups at the same moment. A gap of scraping of at most `GAP_MAX` does not end an idle period; a longer one
does, since nobody knows what was so meanwhile.

Namespaces in a query are quoted, and rows of other namespaces are dropped from answers all the same: a Prometheus that
answers more than it was asked for shows nobody more than the user may read.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final

from dra.engine.device_usage.groups import UsageGroup
from dra.engine.device_usage.promql import selector
from dra.model.meta import Struct

HELD_METRIC: Final = "dra_reserve_workload_devices_held"
USED_METRIC: Final = "dra_reserve_workload_devices_used"
LABELS: Final = ("claim_namespace", "workload", "device_class")
"""Labels of both metrics, in the order of `UsageGroup`; ``namespace`` is the label of the scraped pod."""

GAP_MAX: Final = 300
"""Seconds without samples within an idle period: what a Prometheus looks back by default."""

SINCE_MIN: Final = 60.0
SINCE_MAX: Final = 90 * 24 * 3600.0
_STEP_MAX: Final = 60
_FINE_STEPS: Final = 1440
_STEPS_MAX: Final = 10_080

_HOUR: Final = 3600

GROUPINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "namespace": ("claim_namespace",),
    "workload": ("claim_namespace", "workload"),
    "class": ("device_class",),
}
"""Name of a grouping → the labels by which devices are grouped."""


class Query(StrEnum):
    """The queries, each of which has one number for each group as its answer."""

    HELD = "held"
    USED = "used"
    HELD_HOURS = "heldHours"
    USED_HOURS = "usedHours"
    FULLY_USED_AT = "fullyUsedAt"
    HELD_SINCE = "heldSince"


class Sample(Struct, frozen=True):
    """``data.result[]`` of an answer: the labels of a series and its value with the time."""

    metric: Mapping[str, str]
    value: tuple[float, str]


class GroupHistory(Struct, frozen=True):
    """The history of one group, or of several together."""

    held: int = 0
    """Devices that are held now."""

    used: int = 0
    held_hours: float = 0.0
    used_hours: float = 0.0
    idle_since: float | None = None
    """Unix time since when some device has been idle; None if that is longer ago than the history, or none is idle."""

    @property
    def idle(self) -> int:
        """The devices that are held and not used now."""
        return max(self.held - self.used, 0)

    @property
    def idle_hours(self) -> float:
        """The device-hours that were held and not used."""
        return max(self.held_hours - self.used_hours, 0.0)


def step_seconds(since: float) -> int:
    """Return the seconds between two points that are summed: at most a minute up to a week."""
    return max(1, min(_STEP_MAX, int(since) // _FINE_STEPS), math.ceil(since / _STEPS_MAX))


def counts_by_group(metric: str, chosen: str) -> str:
    """Return an expression that has one number for each group, from all series that a selector chooses.

    The greatest number counts: replicas have the same, and several jobs may scrape one process.
    """
    return f"max by ({', '.join(LABELS)}) ({metric}{chosen})"


def queries(
    *, since: float, namespaces: Collection[str] | None = None, labels: Mapping[str, str] | None = None
) -> dict[Query, str]:
    """Return the expressions of PromQL that ask for the history of the last ``since`` seconds.

    ``namespaces``: the only ones that are asked for; ``labels``: what tells this cluster's series from those of others.
    Raises MalformedLabelError.
    """
    chosen = selector(labels or {}, any_of={} if namespaces is None else {LABELS[0]: namespaces})
    step = step_seconds(since)
    held, used = counts_by_group(HELD_METRIC, chosen), counts_by_group(USED_METRIC, chosen)
    before = f"max by ({', '.join(LABELS)}) (last_over_time({HELD_METRIC}{chosen}[{GAP_MAX}s] offset {step}s))"
    span = f"[{int(since)}s:{step}s]"
    return {
        Query.HELD: held,
        Query.USED: used,
        Query.HELD_HOURS: f"sum_over_time(({held}){span}) * {step} / {_HOUR}",
        Query.USED_HOURS: f"sum_over_time(({used}){span}) * {step} / {_HOUR}",
        Query.FULLY_USED_AT: f"max_over_time((timestamp(({used}) >= ({held}))){span})",
        Query.HELD_SINCE: f"max_over_time((timestamp(({held}) unless ({before}))){span})",
    }


def read_history(
    answers: Mapping[Query, Iterable[Sample]], *, namespaces: Collection[str] | None = None
) -> dict[UsageGroup, GroupHistory]:
    """Return the history of each group from the answers; of some namespaces alone if they are given."""
    values = {query: _by_group(answers.get(query, ()), namespaces=namespaces) for query in Query}
    groups = {group for by_group in values.values() for group in by_group}
    return {group: _history({query: values[query].get(group) for query in Query}) for group in sorted(groups)}


def group_name(by: str, group: UsageGroup) -> str:
    """Return the name of a group in one of the `GROUPINGS`."""
    return "/".join(group[LABELS.index(label)] for label in GROUPINGS[by])


def rank(by: str, groups: Mapping[UsageGroup, GroupHistory]) -> Iterator[tuple[str, GroupHistory]]:
    """Yield the groups together by their name, those first that held most without using it."""
    parts: dict[str, list[GroupHistory]] = {}
    for group, history in groups.items():
        parts.setdefault(group_name(by, group), []).append(history)
    merged = [(name, merge(histories)) for name, histories in parts.items()]
    yield from sorted(merged, key=lambda pair: (-pair[1].idle_hours, -pair[1].idle, pair[0]))


def merge(parts: Sequence[GroupHistory]) -> GroupHistory:
    """Return several groups as one, which has been idle since the first of its idle groups was."""
    since = [part.idle_since for part in parts if part.idle]
    known = [at for at in since if at is not None]
    return GroupHistory(
        held=sum(part.held for part in parts),
        used=sum(part.used for part in parts),
        held_hours=sum(part.held_hours for part in parts),
        used_hours=sum(part.used_hours for part in parts),
        idle_since=min(known) if known and len(known) == len(since) else None,
    )


def _history(values: Mapping[Query, float | None]) -> GroupHistory:
    held, used = (round(values[query] or 0) for query in (Query.HELD, Query.USED))
    times = [at for query in (Query.FULLY_USED_AT, Query.HELD_SINCE) if (at := values[query]) is not None]
    return GroupHistory(
        held=held,
        used=used,
        held_hours=values[Query.HELD_HOURS] or 0.0,
        used_hours=values[Query.USED_HOURS] or 0.0,
        idle_since=max(times, default=None) if held > used else None,
    )


def _by_group(samples: Iterable[Sample], *, namespaces: Collection[str] | None) -> dict[UsageGroup, float]:
    values = {}
    for sample in samples:
        group = UsageGroup(*(sample.metric.get(name, "") for name in LABELS))
        number = parse_number(sample.value[1])
        if number is not None and (namespaces is None or group.namespace in namespaces):
            values[group] = number
    return values


def parse_number(text: str) -> float | None:
    """Return a number of an answer; None if it is none that devices or times can have."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None
