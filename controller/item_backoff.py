"""How long each of many things waits before it is tried again."""

from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class ItemBackoff(Generic[K]):
    """Counts failures in a row by key; no key is remembered that has not failed."""

    def __init__(self) -> None:
        self._failures: dict[K, int] = {}

    def failed(self, key: K, pause: tuple[float, float]) -> float:
        """Return the seconds after one more failure: from the first of ``pause`` they double up to the longest."""
        first, longest = pause
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        return min(first * 2.0 ** min(failures - 1, 16), longest)

    def succeeded(self, key: K) -> None:
        """Begin anew with the next failure."""
        self._failures.pop(key, None)
