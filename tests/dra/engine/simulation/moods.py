"""How moves are chosen: at random, but each run in a mood of its own.

A run in which everything may happen gets nowhere: what one move builds up, the next tears down. So each run leaves out
some kinds of moves and prefers others (swarm testing, Groce et al. 2012), and what is rare in one run is common in
another.
"""

from collections.abc import Callable
from random import Random
from typing import Final

from dra.engine.claims.policy import ALONGSIDE, REPLACE, Policy
from dra.model.meta import Struct
from tests.dra.engine.simulation import limits
from tests.dra.engine.simulation.cluster import ONE_DEVICE, TWO_DEVICES, Pace
from tests.dra.engine.simulation.moves import (
    AllWork,
    ClaimIs,
    ControllerWorks,
    CreateClaim,
    CreatePods,
    Decide,
    Deliver,
    FinishCycle,
    JobIs,
    KubeletsWork,
    LateRequestArrives,
    Move,
    NodeIs,
    PodIs,
    PodsAre,
    Restart,
    RetryCycle,
    SandboxIs,
    Schedule,
    SchedulerWorks,
    StepCycle,
    StepTurn,
    TimePasses,
    WaitToTheBrink,
)
from tests.dra.engine.simulation.objects import Device, PodShape
from tests.dra.engine.simulation.requests import Fate

Choice = Callable[[Random], Move]

WAITS: Final = (0.3, 1.0, 2.5, 10.0, 11.0, 31.0, 60.0, 120.0, 1300.0)
"""Around the engine's own times."""


def _which(chance: Random) -> int:
    return chance.randrange(12)


def _name(chance: Random) -> str:
    return chance.choice("aab")


def _job(chance: Random) -> str:
    return chance.choice(("train", "train", "eval"))


def _lag(chance: Random) -> int:
    return chance.choice((0, 0, 1, 2, 3))


def _seconds(chance: Random) -> float:
    return chance.choice((0.0, 1.0))


def _fate(chance: Random) -> Fate:
    return chance.choice((Fate.DONE, Fate.DONE, Fate.DONE, Fate.REFUSED, Fate.LOST))


def _pace(chance: Random) -> Pace:
    return Pace(
        lag=_lag(chance),
        pick=chance.randrange(3),
        requests=chance.choice((99, 99, 99, 1, 2)),
        fails=chance.random() < 1 / 3,
    )


def _shape(chance: Random) -> PodShape:
    return PodShape(
        claims=chance.choice((("a",), ("a",), ("a",), ("a",), ("a",), ("b",), ("a", "b"))),
        gated=chance.random() < 1 / 2,
        gated_by_another=chance.random() < 1 / 6,
        opted_in=chance.random() < 1 / 2,
        has_volumes=chance.random() < 1 / 5,
        tracked=chance.random() < 1 / 2,
        priority=chance.randrange(2),
    )


CHOICES: Final[tuple[tuple[int, Choice], ...]] = (
    (14, lambda c: AllWork(pace=_pace(c), seconds=_seconds(c))),
    (10, lambda c: ControllerWorks(fate=_fate(c), seconds=_seconds(c))),
    (8, lambda c: SchedulerWorks(pace=_pace(c))),
    (5, lambda _: KubeletsWork()),
    (4, lambda c: TimePasses(seconds=c.choice(WAITS))),
    # Users, and owners of workloads:
    (7, lambda c: CreatePods(shape=_shape(c), count=c.randint(1, 4))),
    (4, lambda c: PodIs(how=c.choice(("ended", "deleted", "killed", "let go")), which=_which(c))),
    (5, lambda c: PodsAre(how=c.choice(("ended", "ended", "deleted", "killed", "let go")), but=_which(c))),
    (2, lambda c: CreateClaim(name=_name(c), reserved_for=c.choice(("", "train", "eval")), known=c.random() < 1 / 2)),
    (4, lambda c: ClaimIs(name=_name(c), how=c.choice(("deleted", "released", "released", "shared", "forced")))),
    (4, lambda c: JobIs(name=_job(c), how=c.choice(("created", "finished", "deleted", "replaced")))),
    # Nodes and kubelets:
    (4, lambda c: NodeIs(how=c.choice(("cordoned", "uncordoned", "lost", "back", "booted")), which=_which(c))),
    (3, lambda c: SandboxIs(how=c.choice(("synced", "ended", "lost")), which=_which(c))),
    # The scheduler, request by request:
    (4, lambda c: Schedule(which=_which(c), lag=_lag(c), pick=c.randrange(3))),
    (6, lambda c: StepCycle(which=_which(c), fate=_fate(c))),
    (4, lambda c: FinishCycle(which=_which(c))),
    (4, lambda c: RetryCycle(which=_which(c), lag=_lag(c))),
    (2, lambda _: WaitToTheBrink()),
    # Our controller, event by event and request by request:
    (5, lambda c: Deliver(which=c.randrange(4), count=c.randint(1, 3))),
    (4, lambda c: Decide(name=_name(c))),
    (6, lambda c: StepTurn(which=_which(c), fate=_fate(c))),
    (2, lambda c: Restart(what=c.choice(("controller", "scheduler", "watch")), which=c.randrange(4))),
    (1, lambda c: LateRequestArrives(which=_which(c))),
)
"""All moves, with how often they come in a mood without preferences."""


def kinds() -> tuple[str, ...]:
    """Return the kinds of moves that a mood may make, as campaigns count them."""
    chance = Random(0)
    return tuple(sorted({choice(chance).kind for _, choice in CHOICES for _ in range(_DRAWS)}))


_DRAWS: Final = 200
"""Moves that are drawn of each choice to know all its variants."""

_LEFT_OUT: Final = 1 / 4
"""How many kinds of moves a mood does without."""

_PREFERENCES: Final = (1 / 3, 1.0, 1.0, 3.0)


class Beginning(Struct, frozen=True):
    """What a run begins with."""

    devices: tuple[Device, ...]
    lists: tuple[int, int]
    moves: tuple[Move, ...]
    policy: Policy


class Mood:
    """The preferences of one run."""

    def __init__(self, chance: Random) -> None:
        everybody_works, *others = CHOICES
        kept = [everybody_works, *(choice for choice in others if chance.random() >= _LEFT_OUT)]
        self._choices = [choice for _, choice in kept]
        self._weights = [weight * chance.choice(_PREFERENCES) for weight, _ in kept]

    def moves(self, chance: Random, count: int) -> list[Move]:
        """Return so many moves."""
        return [choice(chance) for choice in chance.choices(self._choices, self._weights, k=count)]


def beginning(chance: Random) -> Beginning:
    """Begin in the middle of a life: with pods that are at work already, and perhaps with a short list."""
    claim = CreateClaim(
        name="a",
        reserved_for=chance.choice(("", "train", "train")),
        known=chance.random() < 1 / 2,
        pre_list=chance.random() < 1 / 2,
    )
    pods = [CreatePods(shape=_shape(chance)) for _ in range(chance.randint(1, 6))]
    return Beginning(
        devices=chance.choice((ONE_DEVICE, TWO_DEVICES)),
        lists=chance.choice((limits.USUAL, (7, 2), (6, 2), (5, 1))),
        moves=(JobIs(name="train", how="created"), claim, *pods, *[AllWork()] * chance.randrange(4)),
        policy=ALONGSIDE if chance.random() < 1 / 4 else REPLACE,
    )
