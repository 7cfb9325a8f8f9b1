"""Backoff per item: the delay before each of many items is retried."""

from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class ItemBackoff(Generic[K]):
    """A count of failures in a row by key; only keys that have failed are stored."""

    def __init__(self) -> None:
        self._failures: dict[K, int] = {}

    def failed(self, key: K, pause: tuple[float, float]) -> float:
        """Count a failure and return the delay in seconds: doubled from the first of ``pause`` up to the second."""
        first, longest = pause
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        return min(first * 2.0 ** min(failures - 1, 16), longest)

    def succeeded(self, key: K) -> None:
        """Reset the delay of a key after a success."""
        self._failures.pop(key, None)
