"""The time to live of a job, its pauses, and its deletion; jobs that cannot be read."""

import pytest

from dra.api.descheduler.migration_controller_args import MigrationControllerArgs
from dra.engine.migration.decide import decide
from dra.engine.migration.plan import CreateReservation, DeleteJob, EvictPod
from dra.engine.migration.view import JobView, unreadable_job
from tests.dra.engine.migration.stages import bound, evicted, held, outcome, reserved
from tests.dra.engine.migration.world import NOON, World, job


class TestTimeToLive:
    def test_counts_while_the_job_is_paused(self):
        world = World(job=job(passed=False, spec={"paused": True, "ttl": "1m"}))
        world.settle()
        assert world.plan().wake_at_wall == NOON + 60
        assert world.condition("PassedArbitration") == ("False", "Paused")
        world.now = NOON + 60
        assert outcome(world) == ("Failed", "Timeout")
        assert "PassedArbitration is False: spec.paused is true" in world.status["message"]

    def test_counts_while_the_job_waits_for_arbitration(self):
        world = World(job=job(passed=False))
        world.now = NOON + 300
        assert outcome(world) == ("Failed", "Timeout")
        assert world.status["message"].endswith("within its ttl of 5m0s; it waited for arbitration")

    def test_over_after_the_eviction_says_where_to_look_for_the_replacement(self):
        world = evicted(World())
        world.now = NOON + 300
        assert outcome(world) == ("Failed", "Timeout")
        assert "its replacement waits for a node or runs outside of the Reservation" in world.status["message"]

    @pytest.mark.parametrize(
        ("given", "default"),
        [pytest.param({"ttl": "0s"}, "5m", id="of-the-job"), pytest.param({}, "0s", id="by-default")],
    )
    def test_zero_is_unlimited(self, given, default):
        args = MigrationControllerArgs.model_validate({"defaultJobTTL": default})
        world = reserved(World(job=job(spec=given), args=args))
        world.now = NOON + 1e7
        assert world.settle() == []
        assert world.reservation["spec"]["ttl"] == "0s"


class TestPaused:
    @pytest.mark.parametrize(
        "reach", [pytest.param(lambda w: w, id="before-it-begins"), pytest.param(reserved, id="reserved")]
    )
    def test_begins_nothing(self, reach):
        world = reach(World())
        world.job["spec"]["paused"] = True
        if world.reservation:
            world.place()
        assert not any(isinstance(each, CreateReservation | EvictPod) for each in world.settle())
        assert world.status.get("phase", "") == ("Running" if world.reservation else "")

    def test_reports_what_happens_to_a_migration_that_has_evicted(self):
        world = evicted(World())
        world.job["spec"]["paused"] = True
        world.bind()
        world.ready()
        assert outcome(world) == ("Succeeded", "")

    def test_retries_no_eviction(self):
        world = held(World())
        world.job["spec"]["paused"] = True
        world.now += 10
        assert world.settle() == []


class TestEndedJobs:
    @pytest.mark.parametrize(
        ("ttl", "due"),
        [pytest.param("5m", 600, id="ttl-and-five-minutes"), pytest.param("0s", 1800, id="half-an-hour-without-ttl")],
    )
    def test_are_deleted_when_they_are_old(self, ttl, due):
        world = World(job=job(spec={"ttl": ttl}), pods=[])
        world.settle()
        assert world.status["phase"] == "Failed"
        assert world.plan().wake_at_wall == NOON + due
        world.now = NOON + due
        assert isinstance(world.step(), DeleteJob)

    def test_stay_five_minutes_if_they_took_long(self):
        world = bound(World(job=job(spec={"ttl": "0s"})))
        world.now = NOON + 7200
        world.ready()
        world.settle()
        assert not world.job_deleted
        world.now += 300
        world.settle()
        assert world.job_deleted

    def test_unfinished_jobs_are_not_deleted(self):
        world = reserved(World(job=job(spec={"ttl": "0s"})))
        world.now = NOON + 1e6
        assert world.settle() == []

    @pytest.mark.parametrize("phase", ["Failed", "Aborted"])
    def test_a_person_may_end_a_job(self, phase):
        world = reserved(World())
        world.job["status"]["phase"] = phase
        world.settle()
        assert (world.reservations, world.evictions) == ({}, [])


def test_a_job_that_cannot_be_read_fails_and_says_why():
    content = job(spec={"unknown": 1}, status={"phase": "Running"})
    view = JobView(job=unreadable_job(content), parse_error="podmigrationjob migration: spec.unknown: unknown field")
    (action,) = decide(view, args=MigrationControllerArgs(), now=NOON).actions
    assert (action.body["status"]["phase"], action.body["status"]["reason"]) == ("Failed", "Invalid")


def test_a_job_that_is_too_large_is_left_alone():
    content = job(status={"phase": "Running"})
    view = JobView(job=unreadable_job(content), parse_error="too large", is_too_large=True)
    assert decide(view, args=MigrationControllerArgs(), now=NOON).actions == ()
