"""A short list: what matters about 256 entries is that there can be more pods, and six show it as well.

The constants are imported by name all over the engine, so each of them is set where it is used.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from dra.engine.claims import consumer_entries, decide, desired, scheduling_gates, window, workload_entry
from localplane.kinds import claim_status
from tests.dra.engine.simulation import server

DEFAULT_LIST_SIZE: Final = (consumer_entries.RESERVED_FOR_MAX_SIZE, window.SCHEDULER_HEADROOM)


@contextmanager
def limited_list_size(size: int, headroom: int) -> Iterator[None]:
    """Let ``status.reservedFor`` hold so many entries, of which so many are left to the scheduler."""
    _set_list_size(size, headroom)
    try:
        yield
    finally:
        _set_list_size(*DEFAULT_LIST_SIZE)


def _set_list_size(size: int, headroom: int) -> None:
    for module in (server, decide, desired, scheduling_gates, consumer_entries, workload_entry):
        module.RESERVED_FOR_MAX_SIZE = size  # type: ignore[attr-defined]
    claim_status.RESERVED_FOR_MAX_SIZE = size
    window.SCHEDULER_HEADROOM = headroom  # type: ignore[misc]
    decide.CROWDED = size - headroom  # type: ignore[misc]
