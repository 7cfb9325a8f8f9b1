"""The number of reports in a row that have shown a node above its thresholds.

A report counts once: rounds that events start within seconds see the same report again, and prove nothing. The count
ends with the first round that sees the node below its thresholds, or does not know its load. The time between reports
plays no part: upstream forgets what it has counted after some minutes, so that with a longer interval nothing ever
happens (koordinator#1854).
"""

from collections.abc import Mapping, MutableMapping

from dra.model.meta import Struct


class Mark(Struct, frozen=True):
    """The reports that have shown a node, or a pod, above its thresholds."""

    count: int
    """Reports in a row."""
    update_time: str
    """Time of the last report that was counted."""


def mark_reports(marks: MutableMapping[str, Mark], above: Mapping[str, str]) -> None:
    """Count the reports of this round in place: ``above`` has what is above its thresholds → time of its report."""
    for name in marks.keys() - above.keys():
        del marks[name]
    for name, update_time in above.items():
        before = marks.get(name)
        if before is None:
            marks[name] = Mark(count=1, update_time=update_time)
        elif before.update_time != update_time:
            marks[name] = Mark(count=before.count + 1, update_time=update_time)
