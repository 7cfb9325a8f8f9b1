"""Common times for periodic checks: an idle process wakes once for all checks that are due, not once for each.

Waking costs more than most checks. So a loop that looks at something every N seconds looks at the multiples of N on the
clock of the event loop, where other loops look, too.
"""

import asyncio


def until_tick(interval: float) -> float:
    """Return the seconds until the next multiple of an interval on the clock of the running event loop."""
    return interval - asyncio.get_running_loop().time() % interval
