import asyncio
import contextlib
import dataclasses
import itertools

import msgspec
import pytest

from controller.claims import RETRY, RETRY_AFTER, RETRY_AFTER_OUTAGE, Claims
from controller.informers import ControllerInformers
from controller.parallel_requests import PartialFailureError
from dra.engine.claims.actions import AddEntries, Deallocate, PatchMetadata, SetReservedFor, Ungate
from dra.engine.claims.codes import Code
from dra.engine.claims.consumers import SCHEDULING_GATE
from dra.engine.claims.policy import REPLACE
from dra.engine.instants import Moment
from dra.kube.errors import Conflict, Forbidden, ServerError, Status, TooManyRequests
from dra.kube.event_handlers import ignore
from dra.kube.store import ServerRestored, ServerRestoredError
from dra.model.taints import DeviceTaintRule
from dra.requests.leadership import Leadership
from dra.telemetry.logs import reconcile_id
from tests.controller.cluster import Cluster
from tests.controller.recorded_reasons import RecordedEvents
from tests.dra.engine.examples import JOB, KEY, NOON, claim, finished, pod, waiting
from tests.dra.kube.scripted import client_of

TAINT = {"key": "sick", "effect": "NoExecute", "timeAdded": "2026-11-20T12:00:00Z"}


class Writes:
    """In the place of the writers and of the live reads: does nothing, and fails as often as it is told to."""

    def __init__(self):
        self.plans = []
        self.failures = []
        """Failures of a plan's first write."""
        self.later_failures = []
        """Failures of a plan's metadata, after its status was written."""
        self.flows = set()

    async def write(self, write, view, before):  # noqa: ARG002 - the writer's signature
        if isinstance(write, PatchMetadata) and self.later_failures:
            raise self.later_failures.pop(0)
        return before

    async def ungate(self, action):
        pass

    resync = ungate

    def request(self, questions, *, claim):
        pass

    @property
    def when(self):
        return [when for when, _ in self.plans]


class Loop(Claims):
    """Notes its plans, and fails as often as it is told to."""

    writes: Writes

    async def carry_out(self, plan, view, *, key):
        if plan.actions:
            self.writes.plans.append((round(self._runtime.instant(), 3), plan))
            self.writes.flows.add(reconcile_id.get())
            if self.writes.failures:
                raise self.writes.failures.pop(0)
        await super().carry_out(plan, view, key=key)


class LateWrites(Leadership):
    """A lease during which writes of the previous leader may arrive until an instant."""

    def __init__(self, until):
        super().__init__()
        self.until = until

    def previous_writes_until(self):
        return self.until


@pytest.fixture
def writes():
    return Writes()


@pytest.fixture
def recorded():
    return RecordedEvents()


@pytest.fixture
def informers(clock):
    found = ControllerInformers(client_of(Cluster()), clock=clock)
    for informer in (found.nodes, found.claims, found.pods):
        informer.subscribe(ignore)
        informer.reflector.synced.set()
    return found


@pytest.fixture
def loop_of(world, writes, informers, recorded, runtime_of):
    def make(leadership=None):
        runtime = dataclasses.replace(runtime_of(Cluster(), leadership), recorder=recorded)
        loop = Loop(runtime, informers, cache=world, lookups=writes, policy=REPLACE)
        loop.writes = loop._writer = loop._pods = writes
        return loop

    return make


@contextlib.asynccontextmanager
async def running(loop, seconds):
    task = asyncio.create_task(loop.run())
    await asyncio.sleep(seconds)
    yield
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


class SomeFailedError(PartialFailureError):
    def __init__(self, *_):
        super().__init__([ValueError("no")], of=2)


def error(kind):
    return kind("claim ml/train", Status(code=409, message="no"))


async def test_what_the_world_has_marked_is_decided_once(world, writes, recorded, loop_of):
    world.observe_claim(claim(workload=JOB), now=0.0)
    for version in range(1, 50):
        world.observe_pod(pod("a", version=version), now=0.0)
    loop = loop_of()
    async with running(loop, 0.06):
        (_, plan) = writes.plans[0]
        assert isinstance(plan.actions[0], SetReservedFor)
    assert not world.dirty
    assert recorded.codes[0] == Code.WORKLOAD_ENTERED


@pytest.mark.parametrize(
    ("failures", "when"),
    [
        pytest.param(
            [Conflict] * Claims.settings.conflicts,
            [0.05] * (Claims.settings.conflicts + 1),
            id="conflicts-at-once",
        ),
        pytest.param(
            [Conflict] * (Claims.settings.conflicts + 1),
            [0.05] * (Claims.settings.conflicts + 1) + [0.05 + RETRY_AFTER[Conflict][0]],
            id="conflicts-soon-if-there-are-many",
        ),
        pytest.param(
            [Forbidden] * 3,
            [0.05, 0.05 + RETRY[0], 0.05 + 3 * RETRY[0], 0.05 + 7 * RETRY[0]],
            id="others-later-and-later",
        ),
        pytest.param(
            [SomeFailedError] * 3,
            [0.05, 0.05 + RETRY[0], 0.05 + 2 * RETRY[0], 0.05 + 3 * RETRY[0]],
            id="what-makes-progress-soon",
        ),
    ],
)
async def test_what_failed_is_decided_again(world, writes, recorded, loop_of, failures, when):
    world.observe_claim(claim(workload=JOB), now=0.0)
    world.observe_pod(pod("a"), now=0.0)
    writes.failures = [error(kind) for kind in failures]
    async with running(loop_of(), when[-1] + 0.001):
        assert writes.when[: len(when)] == pytest.approx(when)
    assert recorded.codes[:1] == [Code.WORKLOAD_ENTERED], "what was not done is not told"


async def test_an_effect_is_told_although_a_later_write_of_its_plan_fails(world, writes, recorded, loop_of):
    world.observe_claim(claim(workload=JOB), now=0.0)
    world.observe_pod(pod("a"), now=0.0)
    writes.later_failures = [error(Conflict)]
    async with running(loop_of(), 0.06):
        assert recorded.codes[:1] == [Code.WORKLOAD_ENTERED]


async def test_who_is_overtaken_enters_the_workload_whatever_the_version(world, writes, loop_of):
    world.observe_claim(claim(workload=JOB), now=0.0)
    world.observe_pod(pod("a"), now=0.0)
    writes.failures = [error(Conflict)]
    async with running(loop_of(), 0.06):
        first, second = (plan for _, plan in writes.plans[:2])
    assert isinstance(first.actions[0], SetReservedFor)
    assert second.actions == (AddEntries(claim=KEY, entries=(JOB,)),)


@pytest.mark.parametrize(
    ("failure", "longest"),
    [
        pytest.param(ServerError, RETRY_AFTER_OUTAGE[1], id="server-error"),
        pytest.param(TooManyRequests, RETRY_AFTER_OUTAGE[1], id="too-many-requests"),
        pytest.param(Forbidden, RETRY[1], id="forbidden"),
    ],
)
async def test_after_an_outage_nobody_waits_for_as_long_as_for_a_right(world, writes, loop_of, failure, longest):
    world.observe_claim(claim(workload=JOB), now=0.0)
    world.observe_pod(pod("a"), now=0.0)
    writes.failures = [error(failure) for _ in range(50)]
    async with running(loop_of(), 300.0):
        gaps = [after - before for before, after in itertools.pairwise(writes.when)]
        assert max(gaps) == pytest.approx(longest)


async def test_one_claim_that_fails_does_not_keep_the_others(world, writes, loop_of):
    for name in ("train", "other"):
        world.observe_claim(claim(name, workload=JOB), now=0.0)
        world.observe_pod(pod(f"of-{name}", claims=(name,)), now=0.0)
    writes.failures = [error(ServerError)]
    async with running(loop_of(), 0.06):
        assert {plan.actions[0].claim[1] for _, plan in writes.plans} == {"train", "other"}


async def test_a_claim_is_looked_at_again_when_its_plan_says_so(world, writes, loop_of):
    world.observe_claim(claim(allocation=None), now=0.0)
    world.observe_pod(pod("o", unschedulable="no node"), now=0.0)
    world.observe_pod(pod("a", gates=[SCHEDULING_GATE], created="2026-11-20T12:01:00Z"), now=0.0)
    async with running(loop_of(), 9.0):
        assert not writes.plans
        await asyncio.sleep(1.5)
        assert [type(action) for _, plan in writes.plans for action in plan.actions][:1] == [Ungate]


async def test_pods_whose_claim_is_not_there_are_let_go(world, writes, loop_of):
    world.observe_pod(pod("a", gates=[SCHEDULING_GATE]), now=0.0)
    async with running(loop_of(), 3.0):
        assert [action.pod[1] for _, plan in writes.plans for action in plan.actions][:1] == ["a"]


async def test_a_new_leader_takes_nothing_back_while_writes_of_the_old_one_may_arrive(world, writes, recorded, loop_of):
    world.observe_claim(claim(list=[finished("a")]), now=0.0)
    world.observe_pod(pod("a", node="n1", phase="Succeeded"), now=0.0)
    async with running(loop_of(LateWrites(20.0)), 19.9):
        assert not writes.plans
        assert recorded.codes == [Code.LEADER_CHANGED]
        await asyncio.sleep(0.2)
        assert isinstance(writes.plans[0][1].actions[0], Deallocate)
        assert recorded.codes[:2] == [Code.LEADER_CHANGED, Code.DEALLOCATED]


async def test_but_it_lists_at_once(world, writes, loop_of):
    world.observe_claim(claim(workload=JOB, list=[waiting("a")]), now=0.0)
    world.observe_pod(pod("a"), now=0.0)
    async with running(loop_of(LateWrites(NOON)), 0.06):
        assert isinstance(writes.plans[0][1].actions[0], SetReservedFor)


async def test_every_decision_has_a_flow_of_its_own_in_the_log(world, writes, loop_of):
    for name in ("train", "other"):
        world.observe_claim(claim(name, workload=JOB), now=0.0)
        world.observe_pod(pod(f"of-{name}", claims=(name,)), now=0.0)
    async with running(loop_of(), 0.06):
        pass
    assert {each.partition("#")[0] for each in writes.flows} == {"ml/train", "ml/other"}
    assert KEY[1] == "train"
    assert len({each.partition("#")[2] for each in writes.flows}) == len(writes.flows)


async def test_a_pod_behind_our_gate_that_uses_no_claim_is_let_go(world, writes, loop_of):
    world.observe_pod(pod("a", claims=(), gates=[SCHEDULING_GATE]), now=0.0)
    async with running(loop_of(), 5.0):
        assert [action.pod[1] for _, plan in writes.plans for action in plan.actions][:1] == ["a"]


async def test_a_claim_that_cannot_be_decided_does_not_stop_the_others(world, writes, loop_of):
    world.observe_claim(claim(workload=JOB), now=0.0)
    world.observe_pod(pod("a"), now=0.0)
    writes.failures = [ValueError("out of the blue")]
    async with running(loop_of(), 1.0):
        assert len(writes.plans) > 1


@pytest.mark.parametrize(
    ("tainted", "failures"),
    [
        pytest.param(True, [], id="written"),
        pytest.param(True, [ServerError], id="not-written"),
        pytest.param(False, [], id="no-device-is-tainted"),
    ],
)
async def test_evictions_are_decided_about_after_the_claim_was_reconciled(
    world, writes, informers, loop_of, tainted, failures
):
    world.observe_claim(claim(workload=JOB), now=0.0)
    world.observe_pod(pod("a"), now=0.0)
    if tainted:
        rule = {"metadata": {"name": "r"}, "spec": {"deviceSelector": {}, "taint": TAINT}}
        world.taints.observe_rule(msgspec.convert(rule, DeviceTaintRule))
        world.taints.slices_known()
    writes.failures = [error(kind) for kind in failures]
    marked = []
    informers.on_batch_end(lambda: marked.append((bool(writes.plans), *world.evictions.dirty)))
    async with running(loop_of(), 0.06):
        assert marked[:1] == ([(True, KEY)] if tainted else [])


async def test_a_past_that_never_was_ends_all_decisions(world, writes, loop_of):
    world.observe_claim(claim(workload=JOB), now=0.0)
    world.observe_pod(pod("a"), now=0.0)
    writes.failures = [ServerRestoredError(ServerRestored("pods", "5", "11"))]
    with pytest.raises(ExceptionGroup) as caught:
        await loop_of().run()
    assert caught.group_contains(ServerRestoredError)


class Ticking:
    """A clock that is a quarter of a second later at each look."""

    def __init__(self, now):
        self._now = now

    def now(self):
        self._now += 0.25
        return self._now


async def test_a_claim_is_decided_the_less_often_the_dearer_its_decisions_are(loop_of, monkeypatch):
    loop, costs = loop_of(), {}
    loop._runtime = dataclasses.replace(loop._runtime, clock=Ticking(1000.0))
    monkeypatch.setattr(loop._queue, "set_cost", costs.__setitem__)
    await loop.reconcile(("ml", "nobody"), Moment(1000.0, 0.0))
    assert costs == {("ml", "nobody"): 0.25}
