"""Generated sets: machines, and the pods that are created on them one after the other, in Koordinator's form."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, TypeAlias

import msgspec

from dra.model.meta import Struct

GPU: Final = "koordinator.sh/gpu"
CORE: Final = "koordinator.sh/gpu-core"
MEMORY: Final = "koordinator.sh/gpu-memory"
RATIO: Final = "koordinator.sh/gpu-memory-ratio"
SHARED: Final = "koordinator.sh/gpu.shared"
VENDOR: Final = "nvidia.com/gpu"

SMALL: Final = 16 * 2**10
LARGE: Final = 81559
CARD_SIZES: Final = (SMALL, LARGE)
"""Cards' memory in MiB; a template with a ratio of several whole cards has alternatives for two sizes."""


class Kind(StrEnum):
    """What a set is about."""

    CPUS = "cpus"
    """Pods with and without bound CPUs on one machine: CPU ids are compared."""
    CARDS = "cards"
    """Shares of cards on one machine, Koordinator scoring cards by MostAllocated: the cards are compared."""
    SPREAD = "spread"
    """The same with Koordinator's default, LeastAllocated: numbers of cards and amounts are compared, not which."""
    BOTH = "both"
    """Pods with bound CPUs and cards on one machine."""
    NODES = "nodes"
    """Equal pods on several machines: the number of pods that fit is compared, not which goes where."""
    WHOLE = "whole"
    """Whole cards beside few shares, on machines with two NUMA nodes: the cards are compared."""


NUMBERS: Final = {Kind.CPUS: 125, Kind.CARDS: 125, Kind.SPREAD: 30, Kind.BOTH: 30, Kind.NODES: 30, Kind.WHOLE: 30}
"""How many sets there are of each kind."""


class Machine(Struct, frozen=True, kw_only=True):
    """A node: its CPUs, numbered core by core, of which core 0 is the system's, and its cards."""

    sockets: int = 1
    numa_nodes: int = 1
    """NUMA nodes of each socket."""
    cores: int = 4
    """Cores of each NUMA node."""
    threads: int = 2
    bind_policy: str = ""
    strategy: str = "MostAllocated"
    """Values of the node's labels; empty: no label."""
    cards: tuple[int, ...] = ()
    """MiB of each card, by minor; two cards have one PCIe root, and half of all cards one NUMA node."""


class Pod(Struct, frozen=True, kw_only=True):
    """A pod, as far as sets differ; one container for each amount of CPUs."""

    qos: str = ""
    priority_class: str = "koord-prod"
    cpus: tuple[str, ...] = ("",)
    words: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Annotation resource-spec."""
    gpus: tuple[Mapping[str, str], ...] = ()
    """Limits of the containers, from the first on."""


Step: TypeAlias = Pod | int
"""A pod that is created, or the step whose pod is deleted."""


class PlacementSet(Struct, frozen=True, kw_only=True):
    """A set: what happens on its machines, in order."""

    number: int
    kind: Kind
    machines: tuple[Machine, ...]
    steps: tuple[Step, ...]

    @property
    def digest(self) -> str:
        """A digest of the set, by which a record says what it is the answer to."""
        return hashlib.sha256(msgspec.json.encode(self)).hexdigest()[:12]

    def is_deleted_at_once(self, step: int) -> bool:
        """Report whether the pod of a step is deleted by the next step."""
        return self.steps[step + 1 : step + 2] == (step,)

    def node(self, machine: int) -> str:
        """Return the name of a machine's node."""
        return f"set-{self.number:03}-{machine}"

    def pod(self, step: int) -> str:
        """Return the name of the pod that a step creates."""
        return f"set-{self.number:03}-pod-{step:02}"


def all_sets() -> list[PlacementSet]:
    """Return all sets."""
    kinds = [kind for kind, many in NUMBERS.items() for _ in range(many)]
    return [_generate(number, kind) for number, kind in enumerate(kinds)]


def _generate(number: int, kind: Kind) -> PlacementSet:
    chance = random.Random(f"{kind} {number}")  # noqa: S311 - sets that can be made again
    makers = {Kind.CPUS: _cpu_set, Kind.BOTH: _joint_set, Kind.NODES: _nodes_set, Kind.WHOLE: _whole_set}
    machines, steps = makers.get(kind, _card_set)(chance)
    return PlacementSet(number=number, kind=kind, machines=machines, steps=steps)


_Made: TypeAlias = tuple[tuple[Machine, ...], tuple[Step, ...]]

_SHAPES: Final = ((1, 1, 4, 2), (2, 1, 4, 2), (1, 2, 4, 2), (2, 2, 2, 2), (2, 1, 8, 2), (2, 2, 4, 2), (2, 1, 8, 1))


def _machine(chance: random.Random, **more: Any) -> Machine:
    sockets, numa_nodes, cores, threads = chance.choice(_SHAPES)
    return Machine(sockets=sockets, numa_nodes=numa_nodes, cores=cores, threads=threads, **more)


def _cpu_set(chance: random.Random) -> _Made:
    policy = chance.choice(("", "", "", "FullPCPUsOnly", "SpreadByPCPUs"))
    strategy = chance.choice(("MostAllocated", "MostAllocated", "LeastAllocated", "LeastAllocated", ""))
    machine = _machine(chance, bind_policy=policy, strategy=strategy)
    first = _odd_cpu_pod(chance) if chance.random() < 0.3 else None
    return (machine,), _with_deletions(chance, [_cpu_pod(chance) for _ in range(chance.randint(5, 9))], first=first)


def _odd_cpu_pod(chance: random.Random) -> Pod:
    """Return a pod that one scheduler may refuse; it has the machine for itself."""
    return chance.choice(
        (
            Pod(qos="LSR", cpus=("1500m",)),
            Pod(qos="LSR", cpus=("1",), priority_class="koord-batch"),
            Pod(qos="LSE", cpus=("1",), priority_class="koord-mid"),
            Pod(qos="LSR", cpus=("500m", "500m")),
            Pod(qos="LSR", cpus=("",)),
        )
    )


def _cpu_pod(chance: random.Random) -> Pod:
    if chance.random() < 0.12:
        return Pod(qos="LS", cpus=(chance.choice(("1", "2", "500m", "1500m")),))
    words: dict[str, str] = {}
    bind = chance.random()
    if bind < 0.2:
        words["requiredCPUBindPolicy"] = chance.choice(("FullPCPUs", "SpreadByPCPUs"))
    elif bind < 0.65:
        policies = ("FullPCPUs", "SpreadByPCPUs", "SpreadByPCPUs", "Default")
        words["preferredCPUBindPolicy"] = chance.choice(policies)
    elif bind < 0.67:
        words["preferredCPUBindPolicy"] = "ConstrainedBurst"
    if chance.random() < 0.3:
        words["preferredCPUExclusivePolicy"] = chance.choice(("PCPULevel", "PCPULevel", "NUMANodeLevel"))
    cpus: tuple[str, ...] = (str(chance.choice((1, 2, 2, 3, 4, 4, 6, 8))),)
    if chance.random() < 0.1:
        cpus = ("1", "2")
    return Pod(qos=chance.choice(("LSR", "LSR", "LSE")), cpus=cpus, words=words)


def _card_set(chance: random.Random) -> _Made:
    size = chance.choice(CARD_SIZES)
    machine = Machine(cards=(size,) * chance.choice((1, 2, 2, 4, 4)))
    first = _odd_card_pod(chance, size) if chance.random() < 0.4 else None
    pods = [_card_pod(chance, size) for _ in range(chance.randint(5, 9))]
    return (machine,), _with_deletions(chance, pods, first=first)


def _odd_card_pod(chance: random.Random, size: int) -> Pod:
    """Return a pod that one scheduler may refuse or read differently; it has the machine for itself."""
    return chance.choice(
        (
            Pod(gpus=({GPU: "150"},)),
            Pod(gpus=({CORE: "50"},)),
            Pod(gpus=({RATIO: "101", SHARED: "2"},)),
            Pod(gpus=({GPU: "50", RATIO: "50"},)),
            Pod(gpus=({CORE: "200", MEMORY: f"{size}Mi"},)),
            Pod(gpus=({"kubernetes.io/gpu": "50"},)),
            Pod(gpus=({"kubernetes.io/gpu-core": "50", "kubernetes.io/gpu-memory-ratio": "25"},)),
            Pod(cpus=("", ""), gpus=({GPU: "25"}, {GPU: "25"})),
            Pod(cpus=("", ""), gpus=({GPU: "50"}, {GPU: "100"})),
        )
    )


def _card_pod(chance: random.Random, size: int) -> Pod:
    if chance.random() < 0.05:
        return Pod(gpus=({VENDOR: str(chance.choice((1, 1, 2)))},))
    return Pod(gpus=(_share(chance, size),))


_PERCENTS: Final = (10, 20, 25, 30, 33, 50, 50, 60, 75, 100)


def _share(chance: random.Random, size: int) -> dict[str, str]:
    percent, other = chance.choice(_PERCENTS), chance.choice(_PERCENTS)
    amount = f"{max(1, size * other // 100)}Mi" if chance.random() < 0.7 else str(size * 2**20 * other // 100 + 1)
    cards = chance.choice((1, 2, 2, 3))
    sharing = {SHARED: str(cards)}
    memory = f"{max(1, size * other // 100) * cards}Mi"
    return chance.choice(
        (
            {GPU: str(percent)},
            {GPU: str(percent)},
            {GPU: str(chance.choice((100, 200, 300)))},
            {CORE: str(percent), RATIO: str(other)},
            {CORE: str(percent), MEMORY: amount},
            {MEMORY: amount},
            {RATIO: str(percent)},
            {RATIO: str(percent * cards)} | sharing,
            {MEMORY: memory} | sharing,
            {CORE: str(percent * cards), MEMORY: memory} | sharing,
            {CORE: str(percent * cards), RATIO: str(other * cards)} | sharing,
        )
    )


def _joint_set(chance: random.Random) -> _Made:
    size = chance.choice(CARD_SIZES)
    machine = _machine(chance, cards=(size,) * chance.choice((2, 4)))
    pods = []
    for _ in range(chance.randint(5, 8)):
        cpus = _cpu_pod(chance)
        pods.append(Pod(qos=cpus.qos, cpus=cpus.cpus, words=cpus.words, gpus=(_share(chance, size),)))
    return (machine,), _with_deletions(chance, pods)


def _whole_set(chance: random.Random) -> _Made:
    size = chance.choice(CARD_SIZES)
    machine = Machine(sockets=2, cards=(size,) * chance.choice((4, 8)))
    wishes = ({GPU: "100"}, {GPU: "200"}, {GPU: "200"}, {GPU: "300"}, {GPU: "400"}, {RATIO: "200"}, {GPU: "50"})
    return (machine,), _with_deletions(chance, [Pod(gpus=(chance.choice(wishes),)) for _ in range(6)])


def _nodes_set(chance: random.Random) -> _Made:
    size = chance.choice(CARD_SIZES)
    if chance.random() < 0.5:
        pod = Pod(gpus=(chance.choice(({GPU: "50"}, {GPU: "100"}, {GPU: "25"}, {MEMORY: f"{size // 2}Mi"})),))
        machines = tuple(Machine(cards=(size,) * chance.choice((1, 2))) for _ in range(3))
    else:
        pod = Pod(qos="LSR", cpus=(chance.choice(("2", "3", "4")),))
        machines = tuple(_machine(chance) for _ in range(2))
    return machines, (pod,) * 14


def _with_deletions(chance: random.Random, pods: list[Pod], *, first: Pod | None = None) -> tuple[Step, ...]:
    """Return steps in which some pods are deleted before later pods are created; `first` at once."""
    steps: list[Step] = [] if first is None else [first, 0]
    alive: list[int] = []
    for pod in pods:
        if len(alive) > 2 and chance.random() < 0.3:
            steps.append(alive.pop(chance.randrange(len(alive))))
        alive.append(len(steps))
        steps.append(pod)
    return tuple(steps)
