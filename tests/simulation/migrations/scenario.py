"""A history before it happens: an initial state, and operations that a seed draws.

Each seed has preferences of its own (swarm testing, Groce et al. 2012): a history in which everything fails gets
nowhere.
"""

from random import Random
from typing import Any, Final

import msgspec

from localplane.fault_injection import Fault, FaultRule
from tests.simulation.migrations.initial_state import InitialState
from tests.simulation.migrations.operations import (
    ChangeJob,
    CordonNode,
    CreateBudget,
    CreateReplicaSet,
    CreateStranger,
    DeleteReservation,
    EndPod,
    InjectFaults,
    KillProcess,
    Migrate,
    Operation,
    ScaleReplicaSet,
)

READY_AT: Final = 25.0
"""Second by which the first pods run."""

LONG: Final = 240.0
"""Second until which operations happen."""

_COMPONENTS: Final = ("descheduler", "descheduler", "controller", "extender", "scheduler", "workloads")


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
        self._apps: list[tuple[str, str]] = []
        self._jobs: list[str] = []
        self._namespaces = ("ml", "web") if self._maybe(0.2) else ("ml",)

    def scenario(self, seed: int) -> Scenario:
        random = self._random
        state = InitialState(
            nodes=tuple((f"n{n}", random.choice((4, 6, 8))) for n in range(1, random.choice((3, 3, 4, 5)))),
            devices=random.choice((1, 2, 3)),
            start_seconds=random.choice((0.0, 1.0, 4.0)),
            namespaces=self._namespaces,
            limits=self._limits(),
        )
        self._workloads()
        self._migrations()
        self._disturbances(state)
        if self._maybe(0.7):
            self._faults()
        if self._maybe(0.6):
            for _ in range(random.choice((1, 1, 2, 4))):
                self._add(
                    KillProcess(
                        at=self._when(5.0, LONG), component=random.choice(_COMPONENTS), down=self._when(0.1, 20.0)
                    )
                )
        if self._maybe(0.3):
            self._hold_back()
        ordered = tuple(sorted(self._operations, key=lambda d: d.at))
        return Scenario(seed=seed, initial_state=state, operations=ordered, until=max(d.at for d in ordered))

    def _maybe(self, probability: float) -> bool:
        return self._random.random() < probability

    def _when(self, since: float, until: float) -> float:
        return round(self._random.uniform(since, until), 2)

    def _add(self, *operations: Operation) -> None:
        self._operations.extend(operations)

    def _limits(self) -> dict[str, Any]:
        random = self._random
        limits: dict[str, Any] = {
            "maxMigratingPerNode": random.choice((None, 1, 2, 2)),
            "maxMigratingPerNamespace": random.choice((None, None, 2, 3)),
            "maxMigratingGlobally": random.choice((None, None, 2, 4)),
            "evictQPS": 1000.0,
            "evictBurst": 100,
            "objectLimiters": {"workload": {"duration": random.choice(("0s", "0s", "60s"))}},
            "unschedulableSeconds": random.choice((30, 60)),
        }
        if self._maybe(0.5):
            limits |= {"maxMigratingPerWorkload": "100%", "maxUnavailablePerWorkload": "100%"}
            limits |= {"skipCheckExpectedReplicas": True}
        if self._maybe(0.1):
            limits |= {"defaultJobMode": "EvictDirectly"}
        return limits

    def _workloads(self) -> None:
        random = self._random
        for number in range(random.choice((1, 1, 2, 3))):
            namespace, name = random.choice(self._namespaces), f"w{number}"
            replicas = random.choice((1, 2, 3, 4))
            self._apps.append((namespace, name))
            self._add(
                CreateReplicaSet(
                    at=self._when(3.0, 8.0),
                    namespace=namespace,
                    name=name,
                    replicas=replicas,
                    cpu=random.choice((1, 1, 2, 3)),
                    device=self._maybe(0.4),
                    grace=random.choice((0, 5, 30)),
                    stop=random.choice((0.0, 2.0, 20.0)),
                )
            )
            if self._maybe(0.3):
                self._add(
                    CreateBudget(
                        at=self._when(3.0, 60.0),
                        namespace=namespace,
                        name=f"b{number}",
                        app=name,
                        max_unavailable=random.choice((0, 1, 1, 2)),
                    )
                )
            if self._maybe(0.3):
                self._add(
                    ScaleReplicaSet(
                        at=self._when(READY_AT, LONG), namespace=namespace, name=name, replicas=random.choice((0, 1, 5))
                    )
                )

    def _migrations(self) -> None:
        random = self._random
        for number in range(random.choice((1, 2, 3, 5, 8))):
            namespace, app = random.choice(self._apps)
            name = f"j{number}"
            at = self._when(READY_AT, READY_AT + 10) if self._maybe(0.5) else self._when(8.0, LONG - 60)
            self._jobs.append(name)
            self._add(
                Migrate(
                    at=at,
                    namespace=namespace,
                    name=name,
                    app=app,
                    nth=random.randrange(4),
                    mode=random.choice(("", "", "", "ReservationFirst", "EvictDirectly")),
                    ttl=random.choice(("", "", "", "30s", "2m")),
                    policy=random.choice(("", "", "", "Delete", "Eviction")),
                    paused=self._maybe(0.08),
                    grace=random.choice((None, None, 0, 10)),
                )
            )
            for how, probability in (("paused", 0.1), ("resumed", 0.2), ("deleted", 0.12)):
                if self._maybe(probability):
                    self._add(ChangeJob(at=self._when(at, at + 40), name=name, how=how))  # type: ignore[arg-type]
            if self._maybe(0.2):  # a sibling may take the Reservation before the eviction
                self._add(
                    ScaleReplicaSet(
                        at=self._when(at, at + 1.5), namespace=namespace, name=app, replicas=random.choice((5, 6))
                    )
                )
            if self._maybe(0.06):
                self._add(DeleteReservation(at=self._when(at, at + 20), job=name))
            if self._maybe(0.12):
                self._add(
                    EndPod(
                        at=self._when(at, at + 15),
                        namespace=namespace,
                        app=app,
                        nth=random.randrange(4),
                        how=random.choice(("deleted", "forced")),
                    )
                )

    def _hold_back(self) -> None:
        """Pause a job that has its Reservation: the replacement of a sibling may be placed there."""
        random = self._random
        namespace, app = random.choice(self._apps)
        at = self._when(READY_AT, LONG - 80)
        for number in range(random.choice((2, 3))):
            self._add(
                Migrate(at=at + 2 * number, namespace=namespace, name=f"h{number}", app=app, nth=number, ttl="4m")
            )
        self._add(ChangeJob(at=self._when(at + 0.05, at + 0.4), name="h0", how="paused"))
        self._add(ChangeJob(at=self._when(at + 20, at + 60), name="h0", how="resumed"))

    def _disturbances(self, state: InitialState) -> None:
        random = self._random
        for number in range(random.choice((0, 1, 3, 6))):
            self._add(
                CreateStranger(
                    at=self._when(3.0, LONG),
                    namespace=random.choice(self._namespaces),
                    name=f"s{number}",
                    cpu=random.choice((1, 2, 4)),
                )
            )
        for name, _ in state.nodes:
            if self._maybe(0.15):
                self._add(CordonNode(at=self._when(5.0, LONG), name=name, seconds=self._when(5.0, 90.0)))

    def _faults(self) -> None:
        random = self._random
        rules = []
        for component in ("descheduler", "controller", "extender", "scheduler", "workloads"):
            share = 1.0 if component == "descheduler" else 0.5
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
                            verb=random.choice(("*", "patch", "create", "delete", "get")),
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
        since = self._when(0.0, 40.0)
        self._add(InjectFaults(at=since, rules=tuple(rules)))
        if self._maybe(0.5):
            self._add(InjectFaults(at=self._when(since + 10, LONG)))
