"""A history before it happens: an initial state, and operations that a seed draws.

Each seed has preferences of its own (swarm testing, Groce et al. 2012): a history in which everything fails gets
nowhere.
"""

from random import Random
from typing import Any, Final

import msgspec

from localplane.fault_injection import Fault, FaultRule
from tests.simulation.colocation.agents import Way
from tests.simulation.colocation.initial_state import InitialState, SimulatedNode
from tests.simulation.colocation.operations import (
    ChangeLoad,
    Configure,
    CreatePod,
    DeleteNodeMetric,
    DeletePod,
    InjectFaults,
    KillProcess,
    LoseSamples,
    Operation,
    Report,
    ResetQuota,
    RestartKubelet,
    RunOlderBuild,
    RunTwoControllers,
)

LONG: Final = 420.0
"""Second until which operations happen."""

GIBI: Final = 2**30


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """A history before it happens."""

    seed: int
    initial_state: InitialState
    operations: tuple[Operation, ...]
    until: float

    def only(self, numbers: tuple[int, ...]) -> "Scenario":
        """Return the history with some of its operations."""
        return msgspec.structs.replace(self, operations=tuple(self.operations[number] for number in numbers))

    def __str__(self) -> str:
        return "\n".join((str(self.initial_state), *map(str, sorted(self.operations, key=lambda d: d.at))))


def draw_scenario(seed: int) -> Scenario:
    """Return the history of a seed."""
    return _ScenarioDraft(Random(seed)).scenario(seed)


class _ScenarioDraft:
    def __init__(self, random: Random) -> None:
        self._random = random
        self._operations: list[Operation] = []
        self._nodes = tuple(self._node(number) for number in range(1, random.choice((2, 3, 4))))
        self._strategy = self._draw_strategy()

    def scenario(self, seed: int) -> Scenario:
        state = InitialState(
            nodes=self._nodes,
            strategy=self._strategy,
            threshold=self._threshold(),
        )
        self._pods()
        self._reports()
        self._kubelets()
        self._loads()
        if self._maybe(0.6):
            self._configurations()
        if self._maybe(0.6):
            self._controllers()
        if self._maybe(0.5):
            self._faults()
        ordered = tuple(sorted(self._operations, key=lambda d: d.at))
        return Scenario(seed=seed, initial_state=state, operations=ordered, until=max(d.at for d in ordered))

    def _maybe(self, probability: float) -> bool:
        return self._random.random() < probability

    def _when(self, since: float, until: float) -> float:
        return round(self._random.uniform(since, until), 2)

    def _add(self, *operations: Operation) -> None:
        self._operations.extend(operations)

    def _node(self, number: int) -> SimulatedNode:
        random = self._random
        cpus = random.choice((2, 4, 8, 32))
        gibibytes = cpus * random.choice((2, 4))
        system = random.randrange(50, cpus * 150)
        return SimulatedNode(f"n{number}", cpus, gibibytes, system, random.randrange(gibibytes * GIBI // 8))

    def _draw_strategy(self) -> dict[str, Any]:
        random = self._random
        return {
            "enable": True,
            "cpuReclaimThresholdPercent": random.choice((40, 60, 65, 80, 100)),
            "memoryReclaimThresholdPercent": random.choice((50, 65, 90)),
            "degradeTimeMinutes": random.choice((1, 2, 3)),
            "metricReportIntervalSeconds": 20,
            "updateTimeThresholdSeconds": random.choice((60, 300)),
            "resourceDiffThreshold": random.choice((0.05, 0.1, 0.3)),
        }

    def _threshold(self) -> dict[str, Any]:
        random = self._random
        threshold: dict[str, Any] = {
            "enable": self._maybe(0.8),
            "cpuSuppressThresholdPercent": random.choice((30, 65, 80, 100)),
            "cpuSuppressPolicy": random.choice(("cpuset", "cfsQuota", "cfsQuota")),
        }
        if self._maybe(0.4):
            threshold["cpuSuppressMinPercent"] = random.choice((0, 5, 20))
        return threshold

    def _name_of_node(self) -> str:
        return self._random.choice(self._nodes).name

    def _pods(self) -> None:
        random = self._random
        smallest = min(self._nodes, key=lambda node: node.cpus)
        for number in range(random.choice((2, 5, 9, 14))):
            qos = random.choice(("BE", "BE", "BE", "LS", "LS", "LSE", ""))
            cpu = random.randrange(50, smallest.cpus * random.choice((150, 300, 500)))
            memory = random.randrange(2**20, smallest.gibibytes * GIBI // random.choice((4, 6, 10)))
            used = (random.randrange(cpu * 2), random.randrange(memory * 2))
            at = self._when(5.0, 60.0) if self._maybe(0.5) else self._when(5.0, LONG)
            node = self._name_of_node() if self._maybe(0.12) else ""
            if node and qos == "BE" and self._maybe(0.5):
                cpu, memory = cpu * 1000, memory * 1000
            self._add(
                CreatePod(
                    at=at,
                    name=f"p{number}",
                    qos=qos,  # type: ignore[arg-type]
                    cpu=cpu,
                    memory=memory,
                    used=used,
                    node=node,
                    grace=random.choice((0, 5, 30)),
                )
            )
            if self._maybe(0.4):
                how = random.choice(("deleted", "deleted", "forced"))
                self._add(DeletePod(at=self._when(at + 1, LONG + 30), name=f"p{number}", how=how))  # type: ignore[arg-type]

    def _reports(self) -> None:
        random = self._random
        ways = [way for way in Way if way is not Way.TRUTH]
        for _ in range(random.choice((0, 1, 2, 4))):
            self._add(
                Report(
                    at=self._when(10.0, LONG),
                    node=self._name_of_node(),
                    how=random.choice(ways),
                    seconds=self._when(20.0, 300.0),
                )
            )
        if self._maybe(0.15):
            self._add(DeleteNodeMetric(at=self._when(10.0, LONG), node=self._name_of_node()))

    def _kubelets(self) -> None:
        for _ in range(self._random.choice((0, 1, 3, 5))):
            how = self._random.choice(("keeping", "keeping", "keeping", "zeroing", "dropping", "anew"))
            node = self._name_of_node()
            self._add(RestartKubelet(at=self._when(20.0, LONG + 60), node=node, how=how))  # type: ignore[arg-type]

    def _loads(self) -> None:
        random = self._random
        for _ in range(random.choice((0, 1, 3, 6))):
            factor = random.choice((0.0, 0.3, 1.5, 3.0, 10.0))
            at, seconds = self._when(10.0, LONG), self._when(2.0, 100.0)
            self._add(ChangeLoad(at=at, node=self._name_of_node(), factor=factor, seconds=seconds))
        for _ in range(random.choice((0, 0, 1, 2))):
            self._add(LoseSamples(at=self._when(10.0, LONG), node=self._name_of_node(), seconds=self._when(2.0, 150.0)))
        for _ in range(random.choice((0, 0, 1, 3))):
            how = random.choice(("unlimited", "halved", "least"))
            self._add(ResetQuota(at=self._when(10.0, LONG), node=self._name_of_node(), how=how))  # type: ignore[arg-type]

    def _configurations(self) -> None:
        random = self._random
        for _ in range(random.choice((1, 1, 2, 4))):
            how = random.choice(("changed", "changed", "off", "malformed", "invalid", "unknown", "deleted"))
            self._add(
                Configure(
                    at=self._when(10.0, LONG),
                    how=how,  # type: ignore[arg-type]
                    strategy=self._draw_strategy(),
                    threshold=self._threshold(),
                    repaired_after=self._when(5.0, 120.0),
                )
            )

    def _controllers(self) -> None:
        random = self._random
        for _ in range(random.choice((0, 1, 2, 4))):
            component = random.choice(("controller", "controller", "agents", "scheduler", "nodes", "suppressors"))
            self._add(KillProcess(at=self._when(5.0, LONG), component=component, down=self._when(0.1, 40.0)))
        if self._maybe(0.25):
            self._add(RunOlderBuild(at=self._when(5.0, LONG), seconds=self._when(10.0, 150.0)))
        if self._maybe(0.25):
            self._add(RunTwoControllers(at=self._when(5.0, LONG), seconds=self._when(5.0, 150.0)))

    def _faults(self) -> None:
        random = self._random
        rules = []
        for component in ("controller", "agents", "scheduler", "nodes"):
            share = 1.0 if component == "controller" else 0.4
            for fault, probability in (
                (Fault.CONFLICT, 0.1),
                (Fault.ERROR, 0.06),
                (Fault.LOST, 0.06),
                (Fault.DELAY, 0.1),
                (Fault.BUSY, 0.04),
                (Fault.REFUSED, 0.04),
            ):
                if self._maybe(0.4 * share):
                    after = fault in {Fault.ERROR, Fault.LOST, Fault.DELAY} and self._maybe(0.6)
                    rules.append(
                        FaultRule(
                            fault=fault,
                            component=component,
                            verb=random.choice(("*", "patch", "create", "get")),
                            probability=probability * random.choice((0.5, 1.0, 2.0)),
                            seconds=random.choice((0.2, 1.0, 3.0)),
                            after=after,
                        )
                    )
            for fault, probability in (
                (Fault.DELAY, 0.2),
                (Fault.BREAK, 0.02),
                (Fault.SILENCE, 0.01),
                (Fault.EXPIRED, 0.01),
            ):
                if self._maybe(0.3 * share):
                    rules.append(
                        FaultRule(
                            fault=fault,
                            component=component,
                            verb="watch",
                            probability=probability,
                            seconds=random.choice((0.5, 2.0, 10.0)),
                            closed_after=45.0 if fault is Fault.SILENCE else None,
                        )
                    )
        since = self._when(0.0, 60.0)
        self._add(InjectFaults(at=since, rules=tuple(rules)))
        if self._maybe(0.6):
            self._add(InjectFaults(at=self._when(since + 20, LONG)))
