"""A short list: what matters about 256 entries is that there can be more pods, and six show it as well."""

from collections.abc import Iterator
from contextlib import contextmanager

from localplane.kinds import claim_status
from tests.dra.engine.simulation import list_limits as engine

DEFAULT_LIST_SIZE = engine.DEFAULT_LIST_SIZE


@contextmanager
def limited_list_size(size: int, headroom: int) -> Iterator[None]:
    """Let ``status.reservedFor`` hold so many entries, of which so many are left to the scheduler."""
    _set_list_size(size, headroom)
    try:
        yield
    finally:
        _set_list_size(*DEFAULT_LIST_SIZE)


def _set_list_size(size: int, headroom: int) -> None:
    engine.set_list_size(size, headroom)
    claim_status.RESERVED_FOR_MAX_SIZE = size
