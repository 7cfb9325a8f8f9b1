"""Interfaces that the scheduling cycle calls: an extender of the scheduler, and chance."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from dra.model.scheduling import SchedulerPod


class FilterExtender(Protocol):
    """Filters and prioritizes nodes, considering capacity that is reserved for other pods."""

    def filter(self, pod: SchedulerPod, nodes: Sequence[str], /) -> Mapping[str, str]:
        """Return the nodes on which the pod cannot run, each with the reason."""
        ...

    def prioritize(self, pod: SchedulerPod, nodes: Sequence[str], /) -> Mapping[str, int]:
        """Return the scores of nodes; they outweigh all scores of the scheduler."""
        ...


class Chance(Protocol):
    """Random numbers, drawn by the caller's generator: a seeded `random.Random` makes a cycle repeatable."""

    def random(self) -> float:
        """Return a number from 0 up to 1."""
        ...

    def getrandbits(self, k: int, /) -> int:
        """Return an integer of `k` random bits."""
        ...
