"""The use of devices over time as a table: one row for each group, those first that held most without using it."""

from collections.abc import Mapping
from itertools import islice
from typing import Final

from dra.engine.device_usage.groups import UsageGroup
from dra.engine.device_usage.history import GroupHistory, group_name, merge, rank
from dra.engine.device_usage.timelines import Span, Timeline
from dra.model.meta import Struct

ROWS_MAX: Final = 40
"""Maximum number of groups with rows and time lines of their own in the view Idle."""


class UseRow(Struct, frozen=True):
    """One group with its history."""

    name: str
    history: GroupHistory
    line: Timeline | None


class UseOverTime(Struct, frozen=True):
    """The groups as of one moment."""

    by: str
    """One of `history.GROUPINGS`."""

    span: Span
    now: float
    """Unix time."""

    rows: tuple[UseRow, ...]
    rest: GroupHistory
    """The groups that have no rows, together."""

    rest_number: int
    known_since: float | None = None
    """Unix time since when this process has seen the use; None: a Prometheus knows all of the time."""


def shown_groups(by: str, groups: Mapping[UsageGroup, GroupHistory]) -> list[UsageGroup]:
    """Return the groups that have rows."""
    names = {name for name, _ in islice(rank(by, groups), ROWS_MAX)}
    return [group for group in groups if group_name(by, group) in names]


def tabulate(
    by: str,
    groups: Mapping[UsageGroup, GroupHistory],
    lines: Mapping[str, Timeline],
    *,
    span: Span,
    now: float,
    known_since: float | None = None,
) -> UseOverTime:
    """Return the rows of the groups with their lines, and the sum of those beyond `ROWS_MAX`."""
    ranked = list(rank(by, groups))
    rest = [history for _, history in ranked[ROWS_MAX:]]
    return UseOverTime(
        by=by,
        span=span,
        now=now,
        rows=tuple(UseRow(name=name, history=history, line=lines.get(name)) for name, history in ranked[:ROWS_MAX]),
        rest=merge(rest),
        rest_number=len(rest),
        known_since=known_since,
    )
