"""The table of use over time: the order of its rows, and what is beyond it."""

from __future__ import annotations

from dra.engine.device_usage.groups import UsageGroup
from dra.engine.device_usage.history import GroupHistory
from dra.engine.device_usage.over_time import ROWS_MAX, shown_groups, tabulate
from dra.engine.device_usage.timelines import SPANS, Timeline

DAY = SPANS["24h"]
LINE = Timeline(held=(1.0,), used=(0.0,))


def test_those_that_held_most_without_using_it_come_first():
    groups = {
        UsageGroup("busy", "a", "gpus"): GroupHistory(held=8, used=8, held_hours=100.0, used_hours=100.0),
        UsageGroup("idle", "a", "gpus"): GroupHistory(held=1, held_hours=10.0),
        UsageGroup("idle", "b", "gpus"): GroupHistory(held=1, held_hours=20.0),
    }
    use = tabulate("namespace", groups, {"idle": LINE}, span=DAY, now=0.0)
    assert [(row.name, row.history.idle_hours, row.line) for row in use.rows] == [
        ("idle", 30.0, LINE),
        ("busy", 0.0, None),
    ]
    assert use.rest_number == 0


def test_groups_beyond_the_rows_are_one_sum():
    groups = {
        UsageGroup("ml", f"jobs.batch/{number}", "gpus"): GroupHistory(held=1, held_hours=float(number))
        for number in range(ROWS_MAX + 3)
    }
    use = tabulate("workload", groups, {}, span=DAY, now=0.0)
    assert (len(use.rows), use.rest_number, use.rest.held, use.rest.held_hours) == (ROWS_MAX, 3, 3, 3.0)
    assert len(shown_groups("workload", groups)) == ROWS_MAX
    assert len(shown_groups("class", groups)) == len(groups), "all are of the one class that is shown"
