"""How moves are chosen.

Hypothesis leaves out some of the machine's rules in each run (swarm testing), so the moves come in a few groups, each
with enough of everybody's work in it to get somewhere alone.
"""

from typing import Final

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.dra.engine.simulation.cluster import Pace
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
from tests.dra.engine.simulation.objects import PodShape
from tests.dra.engine.simulation.requests import Fate

JOBS: Final = ("train", "eval")
WAITS: Final = (0.3, 1.0, 1.0, 2.5, 2.5, 10.0, 11.0, 31.0, 60.0, 120.0, 1300.0)
"""Around the engine's own times."""

_which = st.integers(0, 11)
_pick = st.integers(0, 2)
_lag = st.sampled_from((0, 0, 1, 2, 3))
_seconds = st.sampled_from((1.0, 0.0))
_paces = st.builds(
    Pace,
    lag=_lag,
    pick=_pick,
    requests=st.sampled_from((99, 99, 99, 1, 2)),
    fails=st.sampled_from((False, False, True)),
)
_jobs = st.sampled_from(JOBS)
_claims = st.sampled_from(("a", "a", "b"))
_fates = st.sampled_from((Fate.DONE, Fate.DONE, Fate.DONE, Fate.REFUSED, Fate.LOST))

shapes: Final[SearchStrategy[PodShape]] = st.builds(
    PodShape,
    claims=st.sampled_from((("a",), ("a",), ("a",), ("a",), ("a",), ("b",), ("a", "b"))),
    gated=st.booleans(),
    gated_by_another=st.sampled_from((False, False, False, False, False, True)),
    opted_in=st.booleans(),
    has_volumes=st.sampled_from((False, False, False, True)),
    tracked=st.booleans(),
    priority=st.integers(0, 1),
)

everybody: Final[SearchStrategy[Move]] = st.one_of(
    st.builds(AllWork, pace=_paces, seconds=_seconds),
    st.builds(ControllerWorks, fate=_fates, seconds=_seconds),
    st.builds(SchedulerWorks, pace=_paces),
    st.builds(KubeletsWork),
    st.builds(TimePasses, seconds=st.sampled_from(WAITS)),
)

users: Final[SearchStrategy[Move]] = st.one_of(
    st.builds(AllWork, pace=_paces, seconds=_seconds),
    st.builds(CreatePods, shape=shapes, count=st.integers(1, 4)),
    st.builds(PodIs, how=st.sampled_from(("ended", "ended", "deleted", "killed", "let go")), which=_which),
    st.builds(PodsAre, how=st.sampled_from(("ended", "deleted", "killed", "let go")), but=_which),
    st.builds(CreateClaim, name=_claims, reserved_for=st.sampled_from(("", *JOBS)), known=st.booleans()),
    st.builds(ClaimIs, name=_claims, how=st.sampled_from(("deleted", "released", "released", "shared"))),
    st.builds(JobIs, name=_jobs, how=st.sampled_from(("created", "finished", "deleted", "replaced"))),
)

nodes: Final[SearchStrategy[Move]] = st.one_of(
    st.builds(AllWork, pace=_paces, seconds=_seconds),
    st.builds(KubeletsWork),
    st.builds(NodeIs, how=st.sampled_from(("cordoned", "uncordoned", "lost", "back", "booted")), which=_which),
    st.builds(SandboxIs, how=st.sampled_from(("synced", "ended", "lost")), which=_which),
)

scheduler: Final[SearchStrategy[Move]] = st.one_of(
    st.builds(ControllerWorks, seconds=_seconds),
    st.builds(SchedulerWorks, pace=_paces),
    st.builds(Schedule, which=_which, lag=_lag, pick=_pick),
    st.builds(StepCycle, which=_which, fate=_fates),
    st.builds(FinishCycle, which=_which),
    st.builds(RetryCycle, which=_which, lag=_lag),
    st.builds(WaitToTheBrink),
)

controller: Final[SearchStrategy[Move]] = st.one_of(
    st.builds(SchedulerWorks, pace=_paces),
    st.builds(Deliver, which=st.integers(0, 3), count=st.integers(1, 3)),
    st.builds(Decide, name=_claims),
    st.builds(StepTurn, which=_which, fate=_fates),
    st.builds(Restart, what=st.sampled_from(("controller", "scheduler", "watch")), which=st.integers(0, 3)),
    st.builds(LateRequestArrives, which=_which),
)

races: Final[SearchStrategy[Move]] = st.one_of(
    st.builds(ControllerWorks, seconds=_seconds),
    st.builds(PodsAre, how=st.sampled_from(("ended", "ended", "deleted", "killed")), but=_which),
    st.builds(ClaimIs, name=_claims, how=st.sampled_from(("deleted", "released"))),
    st.builds(JobIs, name=_jobs, how=st.sampled_from(("finished", "deleted"))),
    st.builds(Restart, what=st.just("controller")),
    st.builds(RetryCycle, which=_which, lag=_lag),
    st.builds(FinishCycle, which=_which),
    st.builds(WaitToTheBrink),
)
"""What may happen while a pod is on its way to a node."""
