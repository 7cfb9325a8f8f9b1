"""The age of a report: how long ago it says it was made, or how long ago it was seen to change, if that is longer.

The clock of a node may run ahead. A report from the future would never grow old by what it says; so its second age
always counts, and alone where the report is from more than a minute ahead, which an Event reports. Such a report that a
process finds when it starts may be of any age, and is stale until it changes.
"""

from datetime import datetime
from typing import Final

from dra.engine.instants import WallTime

FUTURE_MAX: Final = 60.0
"""Seconds that the time of a report may be ahead without an Event."""


def report_time(update_time: str) -> WallTime | None:
    """Return the time that a report gives itself; None if it is no time."""
    try:
        parsed = datetime.fromisoformat(update_time[:64])
        return parsed.timestamp() if parsed.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None


def is_from_future(update_time: str, *, wall: WallTime) -> bool:
    """Report whether a report is from more than a minute ahead."""
    made = report_time(update_time)
    return made is not None and made - wall > FUTURE_MAX


def report_age(update_time: str, *, wall: WallTime, unchanged: float) -> float:
    """Return the age of a report in seconds, that has not changed for `unchanged` seconds by this process's clock."""
    made = report_time(update_time)
    if made is None:
        return float("inf")
    return max(wall - made, unchanged)
