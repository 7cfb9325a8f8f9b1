"""How moves are chosen: at random, but each history with preferences of its own.

A history in which everything may happen gets nowhere: what one move builds up, the next tears down. So each history
leaves out some kinds of moves and prefers others (swarm testing, Groce et al. 2012), and what is rare in one history is
common in another: how often each kind comes, which features the cluster has, and how likely each property of a pod is,
all of that is drawn for the history.
"""

from collections.abc import Callable, Mapping
from random import Random
from types import MappingProxyType
from typing import Final

import msgspec

from dra.engine.claims.policy import ALONGSIDE, REPLACE
from dra.model.meta import Struct
from tests.dra.engine.simulation import list_limits
from tests.dra.engine.simulation.cluster import SECOND_SCHEDULER, SchedulerPace
from tests.dra.engine.simulation.moves import (
    POD_GROUP,
    WATCHES,
    Backup,
    ChangeClaim,
    ChangeJob,
    ChangeNode,
    ChangePod,
    ChangePodGroup,
    ChangePods,
    ChangeReservation,
    ChangeSandbox,
    CollectClaims,
    CollectPods,
    ControllerWorks,
    CreateClaim,
    CreatePods,
    DecideClaim,
    DeliverEvents,
    DeliverLateRequest,
    EverybodyWorks,
    FinishCycle,
    KubeletsWork,
    Move,
    PermitPod,
    ReportDevice,
    Restart,
    RetryCycle,
    ScaleDown,
    Schedule,
    SchedulerWorks,
    SetWatchLag,
    StepCycle,
    StepSync,
    StockControllerWorks,
    TimePasses,
    WaitForDeadline,
)
from tests.dra.engine.simulation.objects import ONE_DEVICE, TWO_DEVICES, Device, PodShape
from tests.dra.engine.simulation.requests import RequestOutcome
from tests.dra.engine.simulation.setting import PERMIT_TIMEOUT, TERMINATION_GRACE_PERIOD, Setting

WAITS: Final = (0.3, 1.0, 2.5, 10.0, 11.0, 31.0, 60.0, 120.0, 1300.0)

LAGS: Final = (0.0, 0.1, 3.0, 20.0, 80.0)
"""Seconds by which a watch may be behind; one that shows nothing for longer is noticed, and listed anew."""

SLOW_BINDING_SECONDS: Final = 150.0
"""Seconds that a binding cycle may take where the client of its scheduler is slow, once somebody can know that."""

SLOW_BINDING_MOVES: Final[tuple[Move, ...]] = (
    CreatePods(shape=PodShape(claims=("a",))),
    EverybodyWorks(),
) + 2 * (
    CreatePods(shape=PodShape(claims=("a",), opted_in=True)),
    ControllerWorks(seconds=1.0),
    Schedule(which=11),
    WaitForDeadline(),
    FinishCycle(),
    ControllerWorks(),
)
"""Bindings that show that a client is slow, the second slower than the first."""

RESERVATION_MOVES: Final[tuple[Move, ...]] = (
    ChangeReservation(how="created"),
    EverybodyWorks(),
    ChangeReservation(how="placed"),
    EverybodyWorks(),
    ChangeReservation(how="placed"),
    CollectClaims(),
)
"""A Reservation gets its place, and what it holds is there for the pods that follow."""

FEATURES: Final[Mapping[str, float]] = MappingProxyType(
    {
        "lagging watches": 0.5,
        "lost nodes": 0.6,
        "silent nodes": 0.3,
        "grace periods": 0.4,
        "removed nodes": 0.3,
        "autoscaler": 0.3,
        "labels": 0.25,
        "shares": 0.25,
        "partitions": 0.25,
        "conditions": 0.25,
        "dead drivers": 0.15,
        "node selectors": 0.3,
        "second scheduler": 0.25,
        "pods never judged": 0.2,
        "nominations": 0.2,
        "permits": 0.25,
        "slow clients": 0.2,
        "no nominations": 0.2,
        "stock controller": 0.2,
        "pod groups": 0.25,
        "templates": 0.25,
        "reservations": 0.25,
        "backups": 0.15,
        "force": 0.5,
        "suspension": 0.25,
    }
)
"""What a cluster may have, and in how many histories it has."""


class SwarmFeatures:
    """The properties of one history's cluster and pods."""

    def __init__(self, random: Random) -> None:
        self.features = {name for name in FEATURES if random.random() < FEATURES[name]}
        self.likelihoods = {name: most * random.choice(_LIKELIHOODS) for name, most in _PROPERTIES.items()}

    def has(self, feature: str) -> bool:
        """Whether the cluster has a feature."""
        return feature in self.features

    def draw(self, random: Random, name: str) -> bool:
        """Draw a property of a pod."""
        return random.random() < self.likelihoods[name]


_PROPERTIES: Final[Mapping[str, float]] = MappingProxyType(
    {
        "gated": 1.0,
        "foreign": 0.5,
        "opted in": 1.0,
        "volumes": 0.7,
        "tracked": 1.0,
        "second": 0.7,
        "selector": 0.7,
        "gang": 0.9,
        "two claims": 0.3,
        "template": 0.7,
    }
)
"""How likely each property of a pod is in a history in which it is common."""

_LIKELIHOODS: Final = (0.0, 0.2, 0.5, 0.9)

Choice = Callable[[Random, SwarmFeatures], Move]


def _which(random: Random) -> int:
    return random.randrange(12)


def _name(random: Random) -> str:
    return random.choice("aab")


def _job(random: Random) -> str:
    return random.choice(("train", "train", "eval"))


def _lag(random: Random) -> int:
    return random.choice((0, 0, 1, 2, 3))


def _seconds(random: Random) -> float:
    return random.choice((0.0, 1.0))


def _outcome(random: Random) -> RequestOutcome:
    return random.choice(
        (RequestOutcome.DONE, RequestOutcome.DONE, RequestOutcome.DONE, RequestOutcome.REFUSED, RequestOutcome.LOST)
    )


def _permit(random: Random, features: SwarmFeatures) -> float:
    return random.choice((0.0, 5.0, 90.0, PERMIT_TIMEOUT)) if features.has("permits") else 0.0


def _pace(random: Random, features: SwarmFeatures) -> SchedulerPace:
    return SchedulerPace(
        lag=_lag(random),
        pick=random.randrange(3),
        requests=random.choice((99, 99, 99, 1, 2)),
        fails=random.random() < 1 / 3,
        permit=_permit(random, features),
    )


def _shape(random: Random, features: SwarmFeatures) -> PodShape:
    second = features.has("second scheduler") or features.has("pods never judged")
    shape = PodShape(
        claims=("a", "b") if features.draw(random, "two claims") else (_name(random),),
        gated=features.draw(random, "gated"),
        gated_by_another=features.draw(random, "foreign"),
        opted_in=features.draw(random, "opted in"),
        has_volumes=features.draw(random, "volumes"),
        tracked=features.draw(random, "tracked"),
        priority=random.randrange(2),
        scheduler=SECOND_SCHEDULER if second and features.draw(random, "second") else "",
        node=random.choice(("n1", "n2", "n3", "n9"))
        if features.has("node selectors") and features.draw(random, "selector")
        else "",
        gang=POD_GROUP if features.has("pod groups") and features.draw(random, "gang") else "",
        grace=random.choice((TERMINATION_GRACE_PERIOD, TERMINATION_GRACE_PERIOD, 1, 300))
        if features.has("grace periods")
        else 0,
        template=(features.has("templates") or features.has("reservations")) and features.draw(random, "template"),
    )
    if not shape.template:
        return shape
    return msgspec.structs.replace(shape, template_for=random.choice(("", "train", "eval")))


MOVE_CHOICES: Final[tuple[tuple[int, str, Choice], ...]] = (
    (14, "", lambda c, t: EverybodyWorks(pace=_pace(c, t), seconds=_seconds(c))),
    (10, "", lambda c, _: ControllerWorks(outcome=_outcome(c), seconds=_seconds(c))),
    (8, "", lambda c, t: SchedulerWorks(pace=_pace(c, t))),
    (5, "", lambda _, __: KubeletsWork()),
    (4, "", lambda c, _: TimePasses(seconds=c.choice(WAITS))),
    # Users, and owners of workloads:
    (14, "", lambda c, t: CreatePods(shape=_shape(c, t), count=c.randint(1, 4))),
    (3, "", lambda c, _: ChangePod(how=c.choice(("ended", "deleted", "killed", "ungated")), which=_which(c))),
    (3, "", lambda c, _: ChangePods(how=c.choice(("ended", "ended", "deleted", "killed", "ungated")), but=_which(c))),
    (1, "nominations", lambda c, _: ChangePod(how="nominated", which=_which(c))),
    (
        4,
        "",
        lambda c, _: CreateClaim(name=_name(c), reserved_for=c.choice(("", "train", "eval")), known=c.random() < 1 / 2),
    ),
    (
        4,
        "",
        lambda c, _: ChangeClaim(
            name=_name(c), how=c.choice(("deleted", "released", "released", "released", "shared"))
        ),
    ),
    (2, "force", lambda c, _: ChangeClaim(name=_name(c), how="forced")),
    (5, "", lambda c, _: ChangeJob(name=_job(c), how=c.choice(("created", "finished", "deleted", "replaced")))),
    (6, "suspension", lambda c, _: ChangeJob(name=_job(c), how=c.choice(("suspended", "resumed")))),
    (2, "pod groups", lambda c, _: ChangePodGroup(how=c.choice(("created", "created", "deleted")), claim=_name(c))),
    (2, "backups", lambda c, _: Backup(how=c.choice(("taken", "taken", "restored")))),
    # Nodes and kubelets:
    (2, "", lambda c, _: ChangeNode(how=c.choice(("cordoned", "uncordoned", "booted")), which=_which(c))),
    (3, "lost nodes", lambda c, _: ChangeNode(how=c.choice(("lost", "back")), which=_which(c))),
    (2, "silent nodes", lambda c, _: ChangeNode(how=c.choice(("silent", "back")), which=_which(c))),
    (2, "labels", lambda c, _: ChangeNode(how="relabelled", which=_which(c))),
    (6, "removed nodes", lambda c, _: ChangeNode(how=c.choice(("removed", "added", "added")), which=_which(c))),
    (4, "autoscaler", lambda c, _: ScaleDown(how=c.choice(("condemned", "condemned", "spared")), which=_which(c))),
    (60, "removed nodes", lambda _, __: CollectPods()),
    (5, "templates", lambda _, __: CollectClaims()),
    (5, "reservations", lambda _, __: CollectClaims()),
    (
        3,
        "reservations",
        lambda c, _: ChangeReservation(how=c.choice(("created", "created", "placed", "placed", "ended", "deleted"))),
    ),
    (3, "", lambda c, _: ChangeSandbox(how=c.choice(("synced", "ended", "lost")), which=_which(c))),
    (10, "conditions", lambda c, _: ReportDevice(how=c.choice(("attached", "broken")), which=_which(c))),
    # Schedulers, request by request:
    (4, "", lambda c, t: Schedule(which=_which(c), lag=_lag(c), pick=c.randrange(3), permit=_permit(c, t))),
    (6, "", lambda c, _: StepCycle(which=_which(c), outcome=_outcome(c))),
    (4, "", lambda c, _: FinishCycle(which=_which(c))),
    (4, "", lambda c, _: RetryCycle(which=_which(c), lag=_lag(c))),
    (3, "permits", lambda c, _: PermitPod(which=_which(c))),
    (4, "", lambda _, __: WaitForDeadline()),
    # Claim controllers, event by event and request by request:
    (14, "stock controller", lambda c, _: StockControllerWorks(lag=_lag(c))),
    (5, "", lambda c, _: DeliverEvents(which=c.randrange(len(WATCHES)), count=c.randint(1, 3))),
    (4, "lagging watches", lambda c, _: SetWatchLag(what=c.choice(WATCHES), seconds=c.choice(LAGS))),
    (4, "", lambda c, _: DecideClaim(name=_name(c))),
    (6, "", lambda c, _: StepSync(which=_which(c), outcome=_outcome(c))),
    (2, "", lambda c, _: Restart(what=c.choice(("controller", "scheduler", "watch")), which=c.randrange(6))),
    (8, "", lambda _, __: Restart(what="writer")),
    (24, "", lambda c, _: DeliverLateRequest(which=_which(c))),
)
"""All moves: how often they come in a history without preferences, the feature that they need, and how one is made."""

_LEFT_OUT: Final = 1 / 4
"""The share of the kinds of moves that a history does without."""

_PREFERENCES: Final = (1 / 3, 1.0, 1.0, 3.0)

_FAVOURITE: Final = 8.0
"""How much more often the favourite kind of a history comes."""

_DRAWS: Final = 200
"""Moves that are drawn of each choice to know all its variants."""


def move_kinds() -> tuple[str, ...]:
    """Return the kinds of moves that some history makes, as campaigns count them."""
    random = Random(0)
    features = SwarmFeatures(random)
    return tuple(sorted({choice(random, features).kind for _, _, choice in MOVE_CHOICES for _ in range(_DRAWS)}))


class HistoryStart(Struct, frozen=True):
    """What a history begins with."""

    setting: Setting
    moves: tuple[Move, ...]


class Swarm:
    """The preferences of one history."""

    def __init__(self, random: Random) -> None:
        self._features = features = SwarmFeatures(random)
        everybody_works, *others = [each for each in MOVE_CHOICES if not each[1] or features.has(each[1])]
        kept = [everybody_works, *(each for each in others if random.random() >= _LEFT_OUT)]
        self._choices = [choice for _, _, choice in kept]
        self._weights = [weight * random.choice(_PREFERENCES) for weight, _, _ in kept]
        self._weights[random.randrange(len(kept))] *= _FAVOURITE

    def moves(self, random: Random, count: int) -> list[Move]:
        """Return so many moves."""
        return [choice(random, self._features) for choice in random.choices(self._choices, self._weights, k=count)]

    def start(self, random: Random) -> HistoryStart:
        """Begin in the middle of a life: with pods that are at work already, and perhaps with a short list."""
        features = self._features
        claim = CreateClaim(
            name="a",
            reserved_for=random.choice(("", "train", "train")),
            known=random.random() < 1 / 2,
            pre_list=random.random() < 1 / 2,
        )
        second = [CreateClaim(name="b", reserved_for=random.choice(("", "train", "eval")))] * (random.random() < 1 / 2)
        pods = [CreatePods(shape=_shape(random, features)) for _ in range(random.randint(1, 6))]
        group = [ChangePodGroup(how="created", claim="a")] * features.has("pod groups")
        stock = features.has("stock controller")
        slow = SLOW_BINDING_MOVES if features.has("slow clients") else ()
        lags = features.has("lagging watches") and not slow
        setting = Setting(
            devices=_devices(random, features),
            list_size=random.choice((list_limits.DEFAULT_LIST_SIZE, (7, 2), (6, 2), (5, 1))),
            policy=msgspec.structs.replace(
                ALONGSIDE if stock or random.random() < 1 / 5 else REPLACE,
                release_suspended=features.has("suspension"),
            ),
            binding_seconds=SLOW_BINDING_SECONDS if slow else random.choice((10.0, 30.0, 50.0)),
            nominates=not features.has("no nominations"),
            stock=stock,
            second_scheduler=features.has("second scheduler"),
            drivers=not features.has("dead drivers"),
            lags=tuple(random.choice(LAGS) if lags else 0.0 for _ in WATCHES),
        )
        works = [EverybodyWorks()] * random.randrange(4)
        held = RESERVATION_MOVES[: random.choice((1, len(RESERVATION_MOVES)))] if features.has("reservations") else ()
        moves = (ChangeJob(name="train", how="created"), *held, *group, claim, *slow, *second, *pods, *works)
        return HistoryStart(setting=setting, moves=moves)


def _devices(random: Random, features: SwarmFeatures) -> tuple[Device, ...]:
    """Draw the devices: plain ones, shares and partitions, conditional ones, some reached by labels."""
    devices = random.choice((ONE_DEVICE, TWO_DEVICES))
    if features.has("partitions"):
        halves = [Device(name=f"half-{n}", nodes=("n1", "n2"), units=(f"unit-{n}",)) for n in range(2)]
        devices = (Device(name="gpu-0", nodes=("n1", "n2"), units=("unit-0", "unit-1")), *halves, *devices[1:])
    first, *others = devices
    shared = Device(
        name=first.name,
        nodes=first.nodes,
        units=first.units,
        shares=2 if features.has("shares") else 1,
        conditional=features.has("conditions") or features.has("dead drivers"),
        by_label=features.has("labels"),
    )
    return (shared, *others)
