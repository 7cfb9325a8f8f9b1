"""What a seed stands for: an initial state, and operations.

Each seed has preferences of its own (swarm testing, Groce et al. 2012): it leaves out some kinds of bad luck and
prefers others. A run in which everything goes wrong gets nowhere, and what is rare in one run is common in another.
"""

from random import Random
from typing import Final

import msgspec

from localplane.fault_injection import Fault, FaultRule
from tests.dra.engine.simulation.list_limits import DEFAULT_LIST_SIZE
from tests.simulation.beside import Beside
from tests.simulation.disruptions import Disruptions
from tests.simulation.initial_state import InitialState
from tests.simulation.operations import (
    CrashSandbox,
    CreateClaim,
    CreateJob,
    CreatePods,
    DisturbNode,
    EndClaim,
    EndJob,
    EndPod,
    EndPodOfJob,
    InjectFault,
    KillProcess,
    Operation,
)

ARRIVALS: Final = 40.0
"""Seconds within which claims, Jobs and pods come."""

LONG: Final = 120.0
"""Seconds within which everything else happens."""

KUBELET_WATCH_OUTAGE: Final = 45.0
"""Seconds after which a kubelet closes a dead connection: client-go pings after 30 s, and waits for 15 s. The engine
counts on it (`dra.engine.claims.view.NODE_MONITOR_GRACE`)."""

_DEVICES: Final = (
    (("gpu-0", ("n1", "n2", "n3")),),
    (("gpu-0", ("n1", "n2")),),
    (("gpu-0", ("n1", "n2")), ("gpu-1", ("n3",))),
    (("gpu-0", ("n1",)), ("gpu-1", ("n2",))),
)

_CLAIM: Final = "resourceclaims.resource.k8s.io"


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """A history before it happens."""

    seed: int
    initial_state: InitialState
    operations: tuple[Operation, ...]
    until: float
    """When the last operation has had its effect."""

    def only(self, numbers: tuple[int, ...]) -> "Scenario":
        """Return the same with some of the operations."""
        return msgspec.structs.replace(self, operations=tuple(self.operations[number] for number in numbers))

    def __str__(self) -> str:
        return "\n".join((str(self.initial_state), *map(str, sorted(self.operations, key=lambda d: d.at))))


def draw_scenario(seed: int) -> Scenario:
    """Return what the seed stands for."""
    return _ScenarioDraft(Random(seed), Disruptions(seed), Beside(seed)).scenario(seed)


class _ScenarioDraft:
    def __init__(self, random: Random, disruptions: Disruptions, beside: Beside) -> None:
        self._random = random
        self._disruptions = disruptions
        self._beside = beside
        self._operations: list[Operation] = []
        replicas = 2 if self._maybe(0.15) else 1
        self._initial_state = InitialState(
            kep=self._maybe(0.4),
            devices=beside.devices(random.choice(_DEVICES)),
            namespaces=("ml", "web") if self._maybe(0.2) else ("ml",),
            replicas=replicas,
            release_finished=self._maybe(0.9),
            list_size=random.choice((DEFAULT_LIST_SIZE, (7, 2), (6, 2), (5, 1))),
            by_label=disruptions.by_label,
            **beside.initial_fields(),
        )
        self._controllers = "controller*"
        self._components = (self._controllers, self._controllers, "scheduler", "nodes", "workloads")
        self._pods: list[tuple[str, str]] = []

    def scenario(self, seed: int) -> Scenario:
        claims = self._claims()
        self._workloads(claims)
        self._draw_deletions(claims)
        if self._maybe(0.85):
            self._draw_faults()
        if self._maybe(0.5):
            self._draw_kills()
        if self._maybe(0.5):
            self._nodes()
        self._add(*self._disruptions.operations(self._initial_state.nodes, self._pods))
        self._add(*self._beside.operations(claims))
        ordered = tuple(sorted(self._operations, key=lambda d: d.at))
        until = max((d.at for d in ordered), default=0.0)
        return Scenario(seed=seed, initial_state=self._initial_state, operations=ordered, until=until)

    def _maybe(self, probability: float) -> bool:
        return self._random.random() < probability

    def _when(self, since: float, until: float) -> float:
        return round(self._random.uniform(since, until), 2)

    def _add(self, *operations: Operation) -> None:
        self._operations.extend(operations)

    def _claims(self) -> list[tuple[str, str, str]]:
        """Draw claims; return (namespace, name, job)."""
        claims = []
        for number in range(self._random.choice((1, 1, 1, 2, 2, 3, 4))):
            namespace = self._random.choice(self._initial_state.namespaces)
            name, job = f"c{number}", self._random.choice(("", "train", "train", "train", "eval"))
            at = self._when(0.0, 2.0) if self._maybe(0.7) else self._when(0.0, ARRIVALS)
            self._add(
                CreateClaim(
                    at=at, namespace=namespace, name=name, job=job, known=self._maybe(0.5), pre_list=self._maybe(0.4)
                )
            )
            if self._maybe(0.15):  # a second one of the name, after the first has gone
                deleted_at = self._when(at, LONG)
                self._add(
                    EndClaim(at=deleted_at, namespace=namespace, name=name, how="deleted"),
                    CreateClaim(at=self._when(deleted_at, LONG), namespace=namespace, name=name, job=job),
                )
            claims.append((namespace, name, job))
        return claims

    def _workloads(self, claims: list[tuple[str, str, str]]) -> None:
        for namespace, job in sorted({(namespace, job) for namespace, _, job in claims if job}):
            if self._maybe(0.95):
                at = 0.0 if self._maybe(0.6) else self._when(0.0, ARRIVALS)
                self._add(self._job(at, namespace, job, claims))
        left = self._random.randint(3, 12)
        while left > 0:
            count = min(left, self._random.randint(1, 4))
            left -= count
            namespace, claim, _ = self._random.choice(claims)
            wanted = [claim]
            others = [name for space, name, _ in claims if space == namespace and name != claim]
            if others and self._maybe(0.15):
                wanted.append(self._random.choice(others))
            names = tuple(f"p{len(self._pods) + number}" for number in range(count))
            self._pods += [(namespace, name) for name in names]
            self._add(
                CreatePods(
                    at=self._when(0.0, 5.0) if self._maybe(0.5) else self._when(0.0, ARRIVALS),
                    namespace=namespace,
                    names=names,
                    claims=tuple(wanted),
                    gated=self._maybe(0.5),
                    foreign_gate=self._maybe(0.1),
                    opted_in=self._maybe(0.4),
                    priority=self._random.randrange(2),
                    template=self._maybe(0.1),
                    seconds=self._when(0.5, 60.0) if self._maybe(0.5) else None,
                    **self._disruptions.pod_fields(),
                    **self._beside.pod_fields(namespace, names, tuple(wanted)),
                )
            )

    def _job(self, at: float, namespace: str, name: str, claims: list[tuple[str, str, str]]) -> CreateJob:
        """Draw a Job; every other one makes its pods itself."""
        if self._maybe(0.5):
            return CreateJob(at=at, namespace=namespace, name=name)
        wanted = tuple(claim for space, claim, job in claims if (space, job) == (namespace, name))[:1]
        pods = self._random.randint(1, 5)
        for _ in range(2):
            if self._maybe(0.3):
                self._add(
                    EndPodOfJob(
                        at=self._when(at, LONG),
                        namespace=namespace,
                        job=name,
                        number=self._random.randrange(5),
                        forced=self._maybe(0.3),
                    )
                )
        seconds = self._when(0.5, 60.0) if self._maybe(0.7) else None
        return CreateJob(
            at=at,
            namespace=namespace,
            name=name,
            pods=pods,
            claims=wanted,
            gated=self._maybe(0.5),
            seconds=seconds,
            **self._beside.job_fields(at, namespace, name),
        )

    def _draw_deletions(self, claims: list[tuple[str, str, str]]) -> None:
        for namespace, name in self._pods:
            if self._maybe(0.3):
                how = self._random.choice(("deleted", "deleted", "forced", "ungated"))
                at = self._when(0.0, LONG)
                self._add(EndPod(at=at, namespace=namespace, name=name, how=how))
                if how != "ungated" and self._maybe(0.3):  # another one of the name
                    claim = next(c for s, c, _ in claims if s == namespace)
                    later = self._when(at, LONG)
                    self._add(
                        CreatePods(
                            at=later, namespace=namespace, names=(name,), claims=(claim,), gated=self._maybe(0.5)
                        )
                    )
        for namespace, job in sorted({(namespace, job) for namespace, _, job in claims if job}):
            if self._maybe(0.6):
                how = self._random.choice(("finished", "finished", "deleted", "replaced"))
                self._add(EndJob(at=self._when(10.0, LONG), namespace=namespace, name=job, how=how))
        for namespace, name, job in claims:
            if self._maybe(0.15):
                self._add(EndClaim(at=self._when(5.0, LONG), namespace=namespace, name=name, how="deleted"))
            if job and self._maybe(0.3):
                self._add(EndClaim(at=self._when(5.0, LONG), namespace=namespace, name=name, how="released"))
            if self._maybe(0.08):
                how = self._random.choice(("forced", "shared"))
                self._add(EndClaim(at=self._when(5.0, LONG), namespace=namespace, name=name, how=how))

    def _draw_faults(self) -> None:
        kinds = [kind for kind in _FAULT_RULES if self._maybe(0.6)] or [_FAULT_RULES[0]]
        slow = 0.0
        for _ in range(self._random.randint(1, 10)):
            kind = self._random.choice(kinds)
            component = self._random.choice(self._components)
            rule = msgspec.structs.replace(kind, component=component, nth=self._random.choice((1, 1, 1, 2, 3, 5)))
            if rule.fault is Fault.DELAY:
                seconds = self._random.choice((0.3, 2.0, 8.0, 25.0))
                if component == "scheduler":  # what the engine assumes of it: whatever it began is over after a minute
                    seconds = min(seconds, max(20.0 - slow, 0.1))
                    slow += seconds * (rule.times or 1)
                rule = msgspec.structs.replace(rule, seconds=seconds)
            elif rule.fault in {Fault.ERROR, Fault.LOST, Fault.CRASH}:
                rule = msgspec.structs.replace(rule, after=self._maybe(0.5))
            elif rule.fault is Fault.SILENCE and component == "nodes":
                rule = msgspec.structs.replace(rule, closed_after=KUBELET_WATCH_OUTAGE)
            self._add(InjectFault(at=self._when(0.0, LONG), rule=rule))

    def _draw_kills(self) -> None:
        for _ in range(self._random.randint(1, 3)):
            component = self._random.choice(("controller", "controller", "scheduler", "nodes", "workloads"))
            seconds = self._when(0.5, 20.0)
            self._add(KillProcess(at=self._when(0.0, LONG), component=component, seconds=seconds))

    def _nodes(self) -> None:
        for _ in range(self._random.randint(1, 4)):
            if self._pods and self._maybe(0.3):
                namespace, name = self._random.choice(self._pods)
                self._add(CrashSandbox(at=self._when(1.0, LONG), namespace=namespace, name=name))
                continue
            how = self._random.choice(("silent", "rebooted", "cordoned"))
            seconds = 0.0 if how == "rebooted" else self._random.choice((5.0, 50.0, 90.0))
            name = self._random.choice(self._initial_state.nodes)
            self._add(DisturbNode(at=self._when(1.0, LONG), name=name, how=how, seconds=seconds))


_FAULT_RULES: Final = (
    FaultRule(fault=Fault.DELAY, verb="patch", resource=f"{_CLAIM}*", times=2),
    FaultRule(fault=Fault.DELAY, verb="create", resource="pods/binding", times=1),
    FaultRule(fault=Fault.DELAY, verb="watch", resource="pods", times=2),
    FaultRule(fault=Fault.DELAY, verb="watch", resource=_CLAIM, times=2),
    FaultRule(fault=Fault.CONFLICT, verb="patch", resource=f"{_CLAIM}*", times=2),
    FaultRule(fault=Fault.BUSY, verb="patch", times=3),
    FaultRule(fault=Fault.ERROR, verb="patch", times=2),
    FaultRule(fault=Fault.LOST, verb="patch", times=2),
    FaultRule(fault=Fault.REFUSED, times=5),
    FaultRule(fault=Fault.CRASH, verb="patch", times=1),
    FaultRule(fault=Fault.CRASH, verb="create", times=1),
    FaultRule(fault=Fault.EXPIRED, verb="watch", times=1),
    FaultRule(fault=Fault.END, verb="watch", times=1),
    FaultRule(fault=Fault.BREAK, verb="watch", times=1),
    FaultRule(fault=Fault.SILENCE, verb="watch", times=1),
)
