"""What runs beside dra-reserve and knows nothing of it: an autoscaler, a queue, Volcano's gate.

Drawn from a random generator of its own, so that what else a seed stands for stays as it was. Each seed has some of
these features and not the others, most have none.
"""

from collections.abc import Mapping, Sequence
from random import Random
from types import MappingProxyType
from typing import Any, Final

from tests.simulation.autoscaler import NodeGroup
from tests.simulation.operations import CreatePods, DisturbNode, Evict, Operation

FEATURES: Final[Mapping[str, float]] = MappingProxyType({"autoscaler": 0.2, "queue": 0.2, "Volcano's gate": 0.06})
"""What there may be, and in how many seeds it is."""

SINCE: Final = 30.0
"""Seconds until pods have run, and nodes may be empty."""

LONG: Final = 150.0
"""Seconds within which all of it happens."""

SPARE_NAMES: Final = 8
"""Names of nodes beyond those that are there at a time: a provider gives each machine a new one, as a rule."""

Devices = tuple[tuple[str, tuple[str, ...]], ...]


class Beside:
    """The draws of one seed."""

    def __init__(self, seed: int) -> None:
        self._random = Random(f"{seed}, beside")
        self._features = {name for name, often in FEATURES.items() if self._random.random() < often}
        self._workloads: list[tuple[str, tuple[str, ...], tuple[str, ...], str]] = []
        """Namespace, pods, claims and group of pods in the queue."""
        self._jobs: list[tuple[float, str, str]] = []
        self._group = self._node_group() if "autoscaler" in self._features else None

    def devices(self, drawn: Devices) -> Devices:
        """Return the devices in a network: mostly none where nodes of an autoscaler have devices."""
        return () if self._group is not None and self._random.random() < 0.7 else drawn

    def initial_fields(self) -> dict[str, Any]:
        """Return what there is besides when a run begins, as fields of `InitialState`."""
        fields: dict[str, Any] = {}
        if self._group is not None:
            fields["node_group"] = self._group
        if {"queue", "Volcano's gate"} & self._features:
            backoff = self._random.choice((2.0, 15.0, 40.0))
            fields |= {"quota": self._random.choice((2, 3, 5, 8)), "requeue_seconds": backoff}
            fields["release_suspended"] = self._random.random() < 0.5
        return fields

    def pod_fields(self, namespace: str, names: tuple[str, ...], claims: tuple[str, ...]) -> dict[str, Any]:
        """Draw what else is to be said of some pods, as fields of `CreatePods`."""
        fields: dict[str, Any] = {}
        if "queue" in self._features and self._random.random() < 0.6:
            group = f"g-{names[0]}" if self._random.random() < 0.5 else ""
            self._workloads.append((namespace, names, claims, group))
            fields |= {"queued": True, "group": group, "topology": self._random.random() < 0.5}
        elif "Volcano's gate" in self._features and self._random.random() < 0.5:
            fields["volcano"] = True
        return fields

    def job_fields(self, at: float, namespace: str, name: str) -> dict[str, Any]:
        """Draw what else is to be said of a Job that makes pods, as fields of `CreateJob`."""
        if "queue" not in self._features or self._random.random() < 0.2:
            return {}
        self._jobs.append((at, namespace, name))
        return {"queued": True, "topology": self._random.random() < 0.5}

    def operations(self, claims: Sequence[tuple[str, str, str]]) -> list[Operation]:
        """Draw what happens; ``claims`` are namespaces, names and Jobs."""
        drawn: list[Operation] = []
        if self._group is not None:
            drawn += self._later_pods(claims)
            drawn += self._disturbed_nodes(self._group)
        for workload in self._workloads:
            drawn += self._eviction_of_pods(*workload)
        for created, namespace, name in self._jobs:
            moments = [self._when(created + 2.0, created + 60.0) for _ in self._times(3)]
            drawn += [Evict(at=moment, namespace=namespace, name=name, how="job") for moment in moments]
        return drawn

    def _when(self, since: float = 1.0, until: float = LONG) -> float:
        return round(self._random.uniform(since, until), 2)

    def _times(self, most: int) -> range:
        return range(self._random.randint(1, most))

    def _node_group(self) -> NodeGroup:
        maximum = self._random.choice((1, 1, 2, 3))
        return NodeGroup(
            names=tuple(f"a{number}" for number in range(maximum + SPARE_NAMES)),
            initial=self._random.randint(0, maximum),
            maximum=maximum,
            devices=self._random.choice((1, 1, 2)),
            unneeded=self._random.choice((1.0, 10.0, 30.0)),
            provisioning=self._random.choice((20.0, 30.0, 60.0)),
            taints=self._random.random() < 0.5,
        )

    def _later_pods(self, claims: Sequence[tuple[str, str, str]]) -> list[Operation]:
        """Draw pods that come when nodes may be gone that nobody but a claim needed."""
        drawn: list[Operation] = []
        for number in self._times(4):
            namespace, claim, _ = self._random.choice(claims)
            drawn.append(
                CreatePods(
                    at=self._when(SINCE),
                    namespace=namespace,
                    names=(f"later-{number}",),
                    claims=(claim,),
                    gated=self._random.random() < 0.4,
                    opted_in=self._random.random() < 0.3,
                    seconds=self._when(0.5, 30.0) if self._random.random() < 0.7 else None,
                )
            )
        return drawn

    def _disturbed_nodes(self, group: NodeGroup) -> list[Operation]:
        if self._random.random() < 0.6:
            return []
        return [
            DisturbNode(
                at=self._when(),
                name=self._random.choice(group.names[: group.maximum]),
                how=self._random.choice(("silent", "rebooted", "cordoned", "removed")),
                seconds=self._random.choice((5.0, 30.0, 90.0)),
            )
            for _ in self._times(2)
        ]

    def _eviction_of_pods(
        self, namespace: str, names: tuple[str, ...], claims: tuple[str, ...], group: str
    ) -> list[Operation]:
        """Draw the eviction of a workload, and pods that replace those of a group."""
        if self._random.random() < 0.5:
            return []
        at = self._when(5.0, 100.0)
        drawn: list[Operation] = [Evict(at=at, namespace=namespace, name=names[0], how="pods")]
        if group and self._random.random() < 0.7:
            others = tuple(f"{name}-2" for name in names)
            later = self._when(at)
            drawn.append(
                CreatePods(at=later, namespace=namespace, names=others, claims=claims, queued=True, group=group)
            )
        return drawn
