"""A short list: what matters about 256 entries is that there can be more pods, and six show it as well.

The constants are imported by name all over the engine, so each of them is set where it is used.
"""

from typing import Final

from dra.engine.claims import consumer_entries, decide, desired, scheduling_gates, window, workload_entry
from tests.dra.engine.simulation import validation

DEFAULT_LIST_SIZE: Final = (consumer_entries.RESERVED_FOR_MAX_SIZE, window.SCHEDULER_HEADROOM)


def set_list_size(size: int, headroom: int) -> None:
    """Let ``status.reservedFor`` hold so many entries, of which so many are left to the scheduler."""
    for module in (validation, decide, desired, scheduling_gates, consumer_entries, workload_entry):
        module.RESERVED_FOR_MAX_SIZE = size  # type: ignore[attr-defined]
    window.SCHEDULER_HEADROOM = headroom  # type: ignore[misc]
    decide.CROWDED = size - headroom  # type: ignore[misc]
