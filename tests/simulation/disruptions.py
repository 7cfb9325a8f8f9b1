"""What makes a cluster other than its controllers have seen it: nodes that go, backups, late watches, preemption.

Drawn from a random generator of its own, so that what else a seed stands for stays as it was. Each seed has some of
these features and not the others.
"""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from types import MappingProxyType
from typing import Any, Final

from tests.simulation.operations import Backup, DelayWatch, DisturbNode, EndPod, Operation, Preempt

LONG: Final = 120.0
"""Seconds within which all of it happens."""

FEATURES: Final[Mapping[str, float]] = MappingProxyType(
    {
        "grace periods": 0.4,
        "lagging watches": 0.5,
        "labels": 0.2,
        "removed nodes": 0.25,
        "preemption": 0.3,
        "second scheduler": 0.2,
        "backups": 0.15,
    }
)
"""What may happen, and in how many seeds it does."""

WATCHES: Final = ("nodes", "pods", "resourceclaims.resource.k8s.io", "jobs.batch")
LAGS: Final = (0.1, 1.0, 3.0, 20.0)
GRACES: Final = (1, 5, 30, 90)

OTHER_SCHEDULER: Final = "volcano"
"""Named by pods, and does not run: nobody ever judges them."""


class Disruptions:
    """The draws of one seed."""

    def __init__(self, seed: int) -> None:
        self._random = Random(f"{seed}, upheavals")
        self._features = {name for name, often in FEATURES.items() if self._random.random() < often}

    @property
    def by_label(self) -> bool:
        """Whether nodes reach devices by labels."""
        return "labels" in self._features

    def pod_fields(self) -> dict[str, Any]:
        """Draw what else is to be said of some pods, as fields of `CreatePods`."""
        fields: dict[str, Any] = {}
        if "grace periods" in self._features:
            grace = self._random.choice(GRACES)
            fields |= {"grace": grace, "stop": self._random.choice((0.0, grace / 2, 2.0 * grace))}
        if "second scheduler" in self._features and self._random.random() < 0.3:
            fields["scheduler"] = OTHER_SCHEDULER
        return fields

    def operations(self, nodes: Sequence[str], pods: Sequence[tuple[str, str]]) -> list[Operation]:
        """Draw what happens, to these nodes and pods."""
        drawn: list[Operation] = []
        for feature, draw in self._draws(nodes, pods).items():
            if feature in self._features:
                drawn += draw()
        return drawn

    def _draws(
        self, nodes: Sequence[str], pods: Sequence[tuple[str, str]]
    ) -> dict[str, Callable[[], Sequence[Operation]]]:
        return {
            "grace periods": lambda: self._removals(pods),
            "lagging watches": self._lags,
            "labels": lambda: self._nodes(nodes, "relabelled"),
            "removed nodes": lambda: self._nodes(nodes, "removed"),
            "preemption": lambda: self._preemptions(pods),
            "backups": self._backups,
        }

    def _when(self, since: float = 1.0, until: float = LONG) -> float:
        return round(self._random.uniform(since, until), 2)

    def _times(self, most: int) -> range:
        return range(self._random.randint(1, most))

    def _removals(self, pods: Sequence[tuple[str, str]]) -> list[Operation]:
        chosen = [self._random.choice(pods) for _ in self._times(3)]
        return [EndPod(at=self._when(), namespace=space, name=name, how="forced") for space, name in chosen]

    def _lags(self) -> list[Operation]:
        return [
            DelayWatch(
                at=self._when(),
                what=self._random.choice(WATCHES),
                seconds=self._random.choice(LAGS),
                lasting=self._random.choice((10.0, 60.0)),
            )
            for _ in self._times(3)
        ]

    def _nodes(self, nodes: Sequence[str], how: str) -> list[Operation]:
        seconds = (5.0, 30.0, 90.0)
        return [
            DisturbNode(at=self._when(), name=self._random.choice(nodes), how=how, seconds=self._random.choice(seconds))
            for _ in self._times(2)
        ]

    def _preemptions(self, pods: Sequence[tuple[str, str]]) -> list[Operation]:
        drawn: list[Operation] = []
        for _ in range(6):
            (namespace, name), (other, victim) = self._random.choice(pods), self._random.choice(pods)
            if namespace == other and name != victim:
                drawn.append(Preempt(at=self._when(until=60.0), namespace=namespace, name=name, victim=victim))
        return drawn

    def _backups(self) -> list[Operation]:
        taken = self._when(until=60.0)
        return [Backup(at=taken, how="taken"), Backup(at=self._when(taken), how="restored")]
