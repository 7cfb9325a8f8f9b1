"""Histories of one job, with crashes, lost writes and other actors: a pod is evicted only when its room is held."""

from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from dra.engine.migration import decide as deciding
from dra.engine.migration import evicting
from dra.engine.migration.plan import DeleteReservation, EvictPod
from dra.engine.migration.pod_state import PodState, pod_state
from tests.dra.engine.migration.world import JOB_UID, NEW_NODE, NOON, OLD_NODE, World, job, pod, reservation, timestamp

ENDED = {"Succeeded", "Failed", "Aborted"}


class Migration(RuleBasedStateMachine):
    """One job, one pod and its workload, in a cluster in which anything may happen between two decisions."""

    given_job = staticmethod(job)
    supplied = ()

    def __init__(self):
        super().__init__()
        self.world = World(job=self.given_job(), reservations=[each() for each in self.supplied])
        self.end = ""

    @property
    def held(self):
        return self.world.reservation

    @property
    def original(self):
        found = self.world.pods.get("web-a")
        return found if found and found["metadata"]["uid"] == "uid-web-a" else None

    def check(self, plan):
        assert plan == self.world.plan(), "the same view must give the same plan"
        assert len(plan.actions) <= 1
        for action in plan.actions:
            if isinstance(action, EvictPod):
                self.check_eviction(action)
            if isinstance(action, DeleteReservation):
                assert action.name == JOB_UID, "a supplied Reservation must stay"
                assert not self.held["status"].get("currentOwners"), "a Reservation in use must stay"
                assert self.world.status["phase"] in ENDED

    def check_eviction(self, action):
        assert self.world.condition("Eviction") == ("False", "Evicting"), "the eviction must be announced"
        assert self.held is not None
        status = self.held["status"]
        assert status["phase"] == "Available"
        assert not status.get("currentOwners")
        assert status["nodeName"] != self.original["spec"]["nodeName"]
        assert (action.uid, action.reservation) == ("uid-web-a", self.held["metadata"]["name"])

    def check_outcome(self):
        """Compare what the job has just reported with what is the case."""
        status, found = self.world.status, self.original
        gone = found is None or found["status"]["phase"] == "Failed"
        if (status.get("status"), status.get("reason")) == ("Eviction", "EvictComplete"):
            assert gone
        if status.get("reason") == "MissingPod" and "podRef" not in status and not (self.held or {}).get("status"):
            assert gone

    @initialize(placed=st.booleans(), error=st.booleans())
    def begin(self, placed, error):
        """Begin some histories where the eviction is near, which chance alone would hardly reach."""
        self.world.evict_error = "too many requests" if error else ""
        self.run(times=20)
        if placed:
            self.world.place()
            self.run(times=2)  # the node, and the announcement of the eviction

    @rule(times=st.integers(1, 8))
    def run(self, times):
        for _ in range(times):
            plan = self.world.plan()
            self.check(plan)
            for action in plan.actions:
                self.world.apply(action)
                self.check_outcome()

    @rule()
    def lose_write(self):
        self.check(self.world.plan())

    @rule()
    def crash(self):
        self.check(self.world.plan())
        self.world.restart()

    @rule(seconds=st.sampled_from([1, 3, 15, 70]))
    def wait(self, seconds):
        self.world.now += seconds

    @rule(paused=st.booleans())
    def pause(self, paused):
        self.world.job["spec"]["paused"] = paused

    @rule(text=st.sampled_from(["", "too many requests"]))
    def answer_evictions(self, text):
        self.world.evict_error = text

    @precondition(lambda self: self.held and self.held["status"].get("phase", "Pending") == "Pending")
    @rule(node=st.sampled_from([NEW_NODE, NEW_NODE, OLD_NODE]))
    def place(self, node):
        self.world.place(node)

    @precondition(lambda self: self.held and self.held["status"].get("phase", "Pending") in {"Pending", "Available"})
    @rule(deleted=st.booleans())
    def lose_reservation(self, deleted):
        if deleted:
            del self.world.reservations[self.held["metadata"]["name"]]
        elif self.held["status"].get("phase") == "Available":
            self.world.expire()
        else:
            self.world.reject()

    @precondition(lambda self: self.original)
    @rule()
    def hide_pod(self):
        self.world.hidden.add("web-a")

    @precondition(lambda self: self.original)
    @rule()
    def begin_deletion(self):
        self.original["metadata"]["deletionTimestamp"] = timestamp(self.world.now)

    @precondition(lambda self: self.original and "deletionTimestamp" in self.original["metadata"])
    @rule(again=st.booleans())
    def end_pod(self, again):
        self.world.end()
        if again:
            self.world.add(pod(uid="uid-again", node="", created=self.world.now))

    @precondition(lambda self: self.held and self.held["status"].get("phase") == "Available")
    @rule(name=st.sampled_from(["web-b", "sibling"]), confirmed=st.booleans())
    def bind(self, name, confirmed):
        self.world.bind(name, created=NOON - 60 if name == "sibling" else self.world.now)
        if not confirmed:  # the extender has named the pod, and its binding is under way
            self.held["status"]["phase"] = "Available"

    @precondition(lambda self: "web-b" in self.world.pods)
    @rule()
    def become_ready(self):
        self.world.ready()

    @invariant()
    def an_ended_job_stays_as_it_is(self):
        phase = self.world.status.get("phase", "")
        assert not self.end or phase == self.end
        self.end = phase if phase in ENDED else ""

    def teardown(self):
        """Liveness: an ended job leaves no Reservation that no pod uses, and each job ends by its time to live."""
        self.world.now += 400
        self.world.job["spec"]["paused"] = False
        self.world.settle()
        assert self.world.status["phase"] in ENDED
        if self.world.status["phase"] == "Failed":
            held = self.world.reservations.get(JOB_UID)
            assert held is None or held["status"]["currentOwners"]


class SuppliedMigration(Migration):
    """The same with a Reservation that the user supplies."""

    given_job = staticmethod(lambda: job(spec={"reservationOptions": {"reservationRef": {"name": "kept"}}}))
    supplied = (reservation,)


TestMigration = Migration.TestCase
TestSuppliedMigration = SuppliedMigration.TestCase
_HISTORIES = settings(max_examples=2 * settings.default.max_examples, stateful_step_count=30, deadline=None)
TestMigration.settings = TestSuppliedMigration.settings = _HISTORIES

BROKEN = {
    "any-reservation-suits": lambda: patch.object(evicting, "unsuitable", lambda *_: ""),
    "reservations-in-use-are-deleted": lambda: patch.object(deciding, "is_used", lambda _: False),
    "a-pod-that-the-watch-does-not-show-is-gone": lambda: patch.object(evicting, "pod_state", _unseen_is_gone),
}


def _unseen_is_gone(view):
    found = pod_state(view)
    return PodState.GONE if found is PodState.UNSEEN else found


@pytest.mark.parametrize("rule_broken", BROKEN)
def test_the_harness_notices_a_broken_rule(rule_broken):
    quick = settings(
        max_examples=2000,
        stateful_step_count=30,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate,),  # shrinking takes long, and nobody reads the result
    )
    with BROKEN[rule_broken](), pytest.raises(AssertionError):
        run_state_machine_as_test(Migration, settings=quick)


def succeed(world, settle):
    settle(world)
    world.place()
    settle(world)
    world.end()
    settle(world)
    world.bind()
    settle(world)
    world.ready()
    settle(world)


def expire(world, settle):
    settle(world)
    world.place()
    settle(world)
    world.end()
    settle(world)
    world.expire()
    settle(world)


def lose_the_pod(world, settle):
    settle(world)
    world.end()
    settle(world)


STORIES = {each.__name__: each for each in (succeed, expire, lose_the_pod)}


@pytest.mark.parametrize("story", STORIES)
@given(interrupted=st.sets(st.integers(0, 30)), answered=st.sets(st.integers(0, 30)))
def test_a_crash_between_any_two_writes_changes_no_outcome(story, interrupted, answered):
    """Kill the process before the actions in `interrupted`, and after those in `answered`."""
    undisturbed, disturbed, count = World(), World(), 0

    def settle(world):
        nonlocal count
        while True:
            count += 1
            action = world.step(do=count not in interrupted)
            if count in interrupted | answered:
                world.restart()
            elif action is None:
                return

    STORIES[story](undisturbed, World.settle)
    STORIES[story](disturbed, settle)
    assert disturbed.trace == undisturbed.trace
    assert disturbed.events == undisturbed.events
    assert list(disturbed.reservations) == list(undisturbed.reservations)
    assert len(disturbed.evictions) == len(undisturbed.evictions)
