"""Random cases of preemption: nodes, what is held there, pods of lower priority, budgets, and a pod that fits nowhere.

Each case is written twice. For kube-scheduler alone, a pod of the highest priority holds what is reserved; for the one
that asks our extender, a Reservation does, perhaps with a pod inside. Start times are all different, so that no choice
is left to chance.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import TYPE_CHECKING, Any, Final

from tests.scenarios.objects import IMAGE

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]

COUNT: Final = 400
PRIORITIES: Final = {"low": 10, "middle": 100, "high": 500, "urgent": 1000, "top": 1_000_000}
APPS: Final = ("x", "y", "z")
INSIDE: Final = "inside"
CASE: Final = "scenario.dra/case"
ALLOCATED: Final = "scheduling.koordinator.sh/reservation-allocated"
MEMORY: Final = 32


class Side(StrEnum):
    """Who decides; also the namespace."""

    STOCK = "stock"
    OURS = "ours"


@dataclass(frozen=True, kw_only=True)
class Occupant:
    """A pod on a node."""

    name: str
    cpu: int
    memory: int
    priority: str
    app: str
    started: int
    """Seconds after the beginning."""


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A node, the CPUs that are held there, and its pods; the one inside comes last."""

    cpu: int
    held: int
    occupants: tuple[Occupant, ...]

    @property
    def free(self) -> int:
        """What kube-scheduler believes to be free beside a Reservation."""
        return self.cpu - sum(each.cpu for each in self.occupants)


@dataclass(frozen=True, kw_only=True)
class VictimCase:
    """One case."""

    number: int
    machines: tuple[Machine, ...]
    budgets: dict[str, int]
    """App → how many of its pods may be evicted."""
    cpu: int
    memory: int

    @property
    def has_reservations(self) -> bool:
        """Whether anything is held."""
        return any(each.held for each in self.machines)

    def node(self, side: Side, index: int) -> str:
        """Return the name of a node."""
        return f"{side}-{self.number}-{index}"

    @property
    def preemptor(self) -> str:
        """The name of the pod that fits nowhere."""
        return f"case-{self.number}-urgent"

    def objects(self, side: Side) -> Iterator[Json]:
        """Yield the objects, except pods."""
        for index, machine in enumerate(self.machines):
            yield self._node(side, index, machine)
            if side is Side.OURS and machine.held:
                yield self._reservation(index, machine)
        for app, allowed in self.budgets.items():
            yield {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": f"case-{self.number}-{app}", "namespace": side.value},
                "spec": {"selector": {"matchLabels": {"app": self._app(app)}}, "minAvailable": 1},
                "status": {"disruptionsAllowed": allowed},
            }

    def pods(self, side: Side) -> Iterator[Json]:
        """Yield the pods on nodes, with their status."""
        for index, machine in enumerate(self.machines):
            node = self.node(side, index)
            if side is Side.STOCK and machine.held:
                holder = Occupant(
                    name=f"hold-{index}", cpu=machine.held, memory=0, priority="top", app="hold", started=0
                )
                yield self._pod(side, holder, node)
            for each in machine.occupants:
                if each.app != INSIDE:
                    yield self._pod(side, each, node)
                elif side is Side.OURS:
                    yield self._pod(side, each, node, inside=f"case-{self.number}-{index}")

    def urgent(self, side: Side) -> Json:
        """Return the pod that fits nowhere."""
        asked = Occupant(name="urgent", cpu=self.cpu, memory=self.memory, priority="urgent", app="urgent", started=0)
        pod = self._pod(side, asked, "")
        pod["spec"] |= {"nodeSelector": {CASE: f"{side}-{self.number}"}, "schedulerName": side.value}
        del pod["status"]
        return pod

    def _app(self, app: str) -> str:
        return f"case-{self.number}-{app}"

    def _pod(self, side: Side, occupant: Occupant, node: str, *, inside: str = "") -> Json:
        requests = {"cpu": str(occupant.cpu), "memory": f"{occupant.memory}Gi"}
        name = f"case-{self.number}-{occupant.name}"
        metadata: Json = {
            "name": name,
            "namespace": side.value,
            "uid": f"{side}-{name}",
            "labels": {"app": self._app(occupant.app), CASE: f"{side}-{self.number}"},
        }
        if inside:
            metadata["annotations"] = {ALLOCATED: f'{{"name":"{inside}","uid":"{inside}"}}'}
        spec: Json = {
            "containers": [{"name": "c", "image": IMAGE, "resources": {"requests": requests}}],
            "priorityClassName": occupant.priority,
            "tolerations": [{"operator": "Exists"}],
        }
        minutes, seconds = divmod(occupant.started, 60)
        status = {"phase": "Running", "startTime": f"2026-11-20T10:{minutes:02d}:{seconds:02d}Z"}
        named = {"nodeName": node} if node else {}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec | named, "status": status}

    def _node(self, side: Side, index: int, machine: Machine) -> Json:
        name = self.node(side, index)
        labels = {"kubernetes.io/hostname": name, CASE: f"{side}-{self.number}"}
        amounts = {"cpu": str(machine.cpu), "memory": f"{MEMORY}Gi", "pods": "110"}
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "status": {"allocatable": amounts, "capacity": amounts},
        }

    def _reservation(self, index: int, machine: Machine) -> Json:
        requests = {"cpu": str(machine.held)}
        template = {"containers": [{"name": "c", "image": IMAGE, "resources": {"requests": requests}}]}
        return {
            "apiVersion": "scheduling.koordinator.sh/v1alpha1",
            "kind": "Reservation",
            "metadata": {"name": f"case-{self.number}-{index}"},
            "spec": {
                "template": {"metadata": {"namespace": Side.OURS.value}, "spec": template},
                "owners": [{"labelSelector": {"matchLabels": {"app": self._app(INSIDE)}}}],
                "allocateOnce": False,
                "ttl": "0s",
            },
            "status": {
                "phase": "Available",
                "nodeName": self.node(Side.OURS, index),
                "allocatable": requests,
            },
        }


def all_cases(count: int = COUNT) -> list[VictimCase]:
    """Return the cases, each from its number as the seed."""
    return [_drawn(number) for number in range(count)]


def _drawn(number: int) -> VictimCase:
    chance = Random(number)  # noqa: S311 - chance that repeats itself
    while True:
        starts = chance.sample(range(3600), 60)
        machines = tuple(_machine(chance, index, starts) for index in range(chance.randint(1, 3)))
        budgets = {app: chance.choice((0, 0, 1, 2)) for app in APPS if chance.random() < 0.6}
        least = max(each.free for each in machines) + 1  # kube-scheduler alone sees no room for it
        case = VictimCase(
            number=number,
            machines=machines,
            budgets=budgets,
            cpu=chance.randint(least, least + 5),
            memory=chance.randint(1, 12),
        )
        if budgets and least >= 1:
            return case


def _machine(chance: Random, index: int, starts: list[int]) -> Machine:
    cpu = chance.randint(6, 16)
    held = chance.randint(1, cpu // 2) if chance.random() < 0.4 else 0
    left, memory, occupants = cpu - held, MEMORY, []
    while left > 0 and memory > 0 and len(occupants) < 7:
        occupant = Occupant(
            name=f"{index}-{len(occupants)}",
            cpu=min(left, chance.randint(1, 4)),
            memory=min(memory, chance.randint(1, 8)),
            priority=chance.choice(("low", "low", "middle", "middle", "high", "top")),
            app=chance.choice(APPS),
            started=starts.pop(),
        )
        occupants.append(occupant)
        left, memory = left - occupant.cpu, memory - occupant.memory
        if chance.random() < 0.05:
            break
    if held and chance.random() < 0.6:
        inside = Occupant(
            name=f"{index}-inside",
            cpu=chance.randint(1, held),
            memory=0,
            priority="low",
            app=INSIDE,
            started=starts.pop(),
        )
        occupants.append(inside)
    return Machine(cpu=cpu, held=held, occupants=tuple(occupants))
