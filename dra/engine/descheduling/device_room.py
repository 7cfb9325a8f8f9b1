"""The pods to move so that a waiting pod gets the devices which it needs on one node: the cheapest choices first.

Only pods count whose claims were made for them, and become free with them. Of each node those are tried in the order of
their cost: the sum of eviction costs, then the highest priority among the pods, then their number. The first choice
with which the waiting pod would fit is the cheapest of the node. A node whose pods are too many for that gets one
choice: the most expensive pods stay, one after the other, as long as the rest suffices.
"""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import Final, NamedTuple

from dra.engine.descheduling.pods import DeschedulingPod
from dra.engine.descheduling.snapshot import Snapshot
from dra.engine.migration.order import eviction_cost

NODES_MAX: Final = 64
"""Maximum nodes that are searched for one pod: those that lack the fewest devices."""

TRIALS_MAX: Final = 1_000
"""Maximum number of times that devices are searched for one pod, of less than a millisecond each."""

_EXACT_MAX: Final = 8
"""Maximum pods with devices on a node of which all combinations are compared."""


class MoveCost(NamedTuple):
    """The cost of moving some pods; compared from left to right."""

    eviction_cost: int
    """Sum of the pods' eviction costs."""
    priority: int
    """The highest priority of the pods."""
    pods: int
    """The number of pods."""


class DeviceRoom(NamedTuple):
    """Room for a waiting pod: a node, and the pods that have to move."""

    cost: MoveCost
    node: str
    pods: tuple[DeschedulingPod, ...]
    """The pods, those with the most devices first, whose places are the hardest to find."""


def move_cost(pods: Iterable[DeschedulingPod]) -> MoveCost:
    """Return the cost of moving pods, at least one."""
    given = list(pods)
    return MoveCost(sum(map(eviction_cost, given)), max(pod.spec.priority for pod in given), len(given))


class DeviceRoomSearch:
    """The search for one waiting pod that fits nowhere."""

    def __init__(self, snapshot: Snapshot, waiting: DeschedulingPod, *, pods_max: int, only_below: int | None) -> None:
        """Create the search; ``only_below``: the only pods that may move have a lower priority; None: any may."""
        self._snapshot = snapshot
        self._waiting = waiting
        self._pods_max = pods_max
        self._only_below = only_below
        self._wanted = snapshot.requested_devices(waiting)
        self._trials = 0
        self.refused: set[str] = set()
        """Uids of pods that are known to stay; the caller adds to it while it goes through the choices."""

    @property
    def gave_up(self) -> bool:
        """Whether the search ended before all choices were tried."""
        return self._trials >= TRIALS_MAX

    def choices(self) -> Iterator[DeviceRoom]:
        """Yield the room that can be made, the cheapest first."""
        lacking = ((self._lacking(name), name) for name in self._snapshot.nodes)
        nodes = heapq.nsmallest(NODES_MAX, ((devices, name) for devices, name in lacking if devices is not None))
        return heapq.merge(*(self._choices_of(name, devices) for devices, name in nodes), key=lambda room: room[:2])

    def _movable(self, node: str) -> list[DeschedulingPod]:
        """Return the pods of a node that hold devices and may move."""
        return [
            pod
            for pod in self._snapshot.nodes[node].pods.values()
            if not pod.terminal
            and not pod.metadata.deleting
            and pod.metadata.uid not in self.refused
            and (self._only_below is None or pod.spec.priority < self._only_below)
            and self._snapshot.held_devices(pod)
        ]

    def _lacking(self, node: str) -> int | None:
        """Return how many devices must become free on a node at least; None if no pods there can make room."""
        if not (pods := self._movable(node)):
            return None
        movable = sum(map(self._snapshot.held_devices, pods))
        if self._wanted is None:
            return movable
        lacking = max(1, self._wanted - self._snapshot.free_devices(node))
        return lacking if lacking <= movable else None

    def _choices_of(self, node: str, lacking: int) -> Iterator[DeviceRoom]:
        """Yield the choices of a node, the cheapest first."""
        pods = self._movable(node)
        if not self._fits(node, pods):
            return
        if len(pods) > _EXACT_MAX or self._wanted is None:
            kept = self._reduced(node, pods)
            if len(kept) <= self._pods_max:
                yield self._room(node, kept)
            return
        held = {pod.metadata.uid: self._snapshot.held_devices(pod) for pod in pods}
        subsets = (
            subset
            for size in range(1, min(len(pods), self._pods_max) + 1)
            for subset in combinations(pods, size)
            if sum(held[pod.metadata.uid] for pod in subset) >= lacking
        )
        for room in sorted((self._room(node, subset) for subset in subsets), key=_order):
            if self.refused.isdisjoint(pod.metadata.uid for pod in room.pods) and self._fits(node, room.pods):
                yield room

    def _reduced(self, node: str, pods: Sequence[DeschedulingPod]) -> list[DeschedulingPod]:
        """Return pods of which none can stay; the most expensive stay first, of equals those with few devices."""
        kept = sorted(
            pods,
            key=lambda pod: (
                -eviction_cost(pod),
                -pod.spec.priority,
                self._snapshot.held_devices(pod),
                pod.metadata.key,
            ),
        )
        for pod in tuple(kept):
            rest = [other for other in kept if other is not pod]
            if rest and self._fits(node, rest):
                kept = rest
        return kept

    def _fits(self, node: str, gone: Iterable[DeschedulingPod]) -> bool:
        """Return whether the waiting pod would fit on a node once some pods have gone."""
        self._trials += 1
        uids = [pod.metadata.uid for pod in gone]
        return self._trials < TRIALS_MAX and not self._snapshot.unfit_reason(self._waiting, node, gone=uids)

    def _room(self, node: str, pods: Sequence[DeschedulingPod]) -> DeviceRoom:
        ordered = sorted(pods, key=lambda pod: (-self._snapshot.held_devices(pod), pod.metadata.key))
        return DeviceRoom(move_cost(pods), node, tuple(ordered))


def _order(room: DeviceRoom) -> tuple[MoveCost, list[tuple[str, str]]]:
    return room.cost, [pod.metadata.key for pod in room.pods]
