"""A history before it happens: nodes, workloads, the configuration, and operations that a seed draws."""

from random import Random
from typing import Final, Literal

import msgspec

LONG: Final = 2400.0
"""Second until which operations happen."""

CALM: Final = 3600.0
"""Seconds after the last operation, in which loads are steady."""


class Node(msgspec.Struct, frozen=True):
    """A node."""

    name: str
    cpus: int
    zone: str


class Workload(msgspec.Struct, frozen=True):
    """A workload whose pods request and use milli-CPUs."""

    name: str
    namespace: str
    replicas: int
    requests: int
    use: int
    kind: Literal["ReplicaSet", "DaemonSet"] = "ReplicaSet"
    min_available: int | None = None
    """Of its PodDisruptionBudget; None: no budget."""
    spreads: bool = False
    """Whether its pods spread over zones (DoNotSchedule)."""


class Operation(msgspec.Struct, frozen=True, tag_field="kind"):
    """Something that happens at a second."""

    at: float

    @property
    def kind(self) -> str:
        """The name of the operation."""
        return type(self).__name__


class Spike(Operation, frozen=True):
    """The pods of a workload use more, or less, for a while."""

    workload: str
    percent: int
    seconds: float


class StopAgent(Operation, frozen=True):
    """A node reports nothing for a while."""

    node: str
    seconds: float


class StopNode(Operation, frozen=True):
    """A node is not ready for a while; its pods are not either."""

    node: str
    seconds: float


class FailMigrations(Operation, frozen=True):
    """No Reservation finds a node for a while."""

    seconds: float


class RestartDescheduler(Operation, frozen=True):
    """The descheduler forgets what it remembered."""


class Scale(Operation, frozen=True):
    """A workload wants more or fewer replicas."""

    workload: str
    replicas: int


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """A history before it happens."""

    seed: int
    nodes: tuple[Node, ...]
    workloads: tuple[Workload, ...]
    interval: float
    plugins: tuple[str, ...]
    limits: tuple[int | None, int | None, int | None]
    """Maximum evictions by node, by namespace, and in all."""
    abnormalities: int
    lifetime: int
    """Seconds that pods of namespace churn live; 0: they are left alone."""
    operations: tuple[Operation, ...]
    until: float

    def only(self, numbers: tuple[int, ...]) -> "Scenario":
        """Return the history with some of its operations."""
        return msgspec.structs.replace(self, operations=tuple(self.operations[number] for number in numbers))

    def __str__(self) -> str:
        given = (*self.nodes, *self.workloads, *sorted(self.operations, key=lambda done: done.at))
        return "\n".join((f"{self.plugins} {self.limits} every {self.interval} s", *map(str, given)))


def draw_scenario(seed: int) -> Scenario:
    """Return the history of a seed."""
    random = Random(seed)
    nodes = tuple(
        Node(f"n{index}", random.choice((4, 8, 8)), f"z{index % 2}") for index in range(random.choice((3, 4, 6)))
    )
    workloads = tuple(_workload(random, index) for index in range(random.choice((3, 5, 8))))
    return Scenario(
        seed=seed,
        nodes=nodes,
        workloads=workloads,
        interval=random.choice((30.0, 60.0, 120.0)),
        plugins=random.choice(
            (
                ("LowNodeLoad",),
                ("LowNodeLoad",),
                ("RemoveDuplicates",),
                ("RemovePodsViolatingTopologySpreadConstraint",),
                ("LowNodeLoad", "RemoveDuplicates"),
            )
        ),
        limits=(random.choice((None, None, 1, 2)), random.choice((None, None, 2)), random.choice((None, 1, 2, 5))),
        abnormalities=random.choice((1, 2, 3)),
        lifetime=random.choice((0, 0, 100)),
        operations=tuple(sorted(_operations(random, nodes, workloads), key=lambda done: done.at)),
        until=LONG,
    )


def _workload(random: Random, index: int) -> Workload:
    replicas = random.choice((1, 2, 3, 4, 6))
    requests = random.choice((100, 200, 400, 1500))
    return Workload(
        name=f"w{index}",
        namespace=random.choice(("a", "b", "churn")),
        replicas=replicas,
        requests=requests,
        use=random.randrange(50, min(1600, requests * 4)),
        kind="DaemonSet" if random.random() < 0.1 else "ReplicaSet",
        min_available=max(0, replicas - random.choice((0, 1, 1, 2))) if random.random() < 0.5 else None,
        spreads=random.random() < 0.4,
    )


def _operations(random: Random, nodes: tuple[Node, ...], workloads: tuple[Workload, ...]) -> list[Operation]:
    drawn: list[Operation] = []
    for _ in range(random.randrange(9)):
        at, seconds = round(random.uniform(60.0, LONG), 1), round(random.uniform(30.0, 600.0), 1)
        node, workload = random.choice(nodes).name, random.choice(workloads).name
        drawn.append(
            random.choice(
                (
                    Spike(at, workload, random.choice((10, 300, 500)), seconds),
                    Spike(at, workload, random.choice((10, 300, 500)), seconds),
                    StopAgent(at, node, seconds),
                    StopNode(at, node, seconds),
                    FailMigrations(at, seconds),
                    RestartDescheduler(at),
                    Scale(at, workload, random.choice((1, 2, 5))),
                )
            )
        )
    return drawn
