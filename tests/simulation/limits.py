"""A short list: what matters about 256 entries is that there can be more pods, and six show it as well."""

from collections.abc import Iterator
from contextlib import contextmanager

from dra.local.kinds import allocations
from tests.dra.engine.simulation import limits as engine

USUAL = engine.USUAL


@contextmanager
def list_size(size: int, headroom: int) -> Iterator[None]:
    """Let ``status.reservedFor`` hold so many entries, of which so many are left to the scheduler."""
    _set(size, headroom)
    try:
        yield
    finally:
        _set(*USUAL)


def _set(size: int, headroom: int) -> None:
    engine.set_list_size(size, headroom)
    allocations.RESERVED_FOR = size
