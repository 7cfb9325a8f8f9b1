"""The Reservation of a job: its creation, the wait for a node, and its deletion after a failure."""

import pytest

from dra.engine.migration.plan import CreateReservation, DeleteReservation
from dra.engine.reservations.lifecycle import AMOUNTS_MISSING_MESSAGE, CLAIMS_UNSUPPORTED_MESSAGE
from tests.dra.engine.migration.stages import (
    EXPIRED,
    FORBIDDEN,
    MISSING,
    TIMEOUT,
    bound,
    evicted,
    held,
    outcome,
    reserved,
    supplied,
)
from tests.dra.engine.migration.world import JOB_UID, NOON, OLD_NODE, World, job, reservation, timestamp

GROUP = "scheduling.koordinator.sh/v1alpha1"
OF_THE_JOB = {"apiVersion": GROUP, "kind": "PodMigrationJob", "name": "migration", "uid": JOB_UID, "controller": True}


class TestCreation:
    def test_that_the_api_server_rejects_fails_the_job(self):
        world = World()
        world.create_error = "admission webhook denied the request"
        assert outcome(world) == ("Failed", "FailedCreateReservation")
        assert world.status["message"] == "admission webhook denied the request"

    def test_that_succeeded_before_a_crash_is_continued(self):
        world = World()
        while not isinstance(world.step(), CreateReservation):
            pass
        world.restart()
        world.settle()
        assert world.condition("ReservationCreated") == ("True", "")
        assert len(world.reservations) == 1


class TestAnotherAuthor:
    """A Reservation by the name of a job's own one: the uid of a waiting job is no secret, and its name is free."""

    @pytest.mark.parametrize(
        "references",
        [
            pytest.param([], id="no-owner"),
            pytest.param([{"kind": "PodMigrationJob", "apiVersion": GROUP, "uid": JOB_UID}], id="not-the-controller"),
            pytest.param([{**OF_THE_JOB, "uid": "0009-job"}], id="another-job"),
            pytest.param([{**OF_THE_JOB, "kind": "Job"}], id="another-kind"),
            pytest.param([{**OF_THE_JOB, "apiVersion": "example.com/v1"}], id="another-group"),
        ],
    )
    @pytest.mark.parametrize("node", ["", "node-2"], ids=["pending", "available"])
    def test_the_job_fails_and_leaves_it_alone(self, references, node):
        other = reservation(JOB_UID, node=node, metadata={"ownerReferences": references})
        world = World(reservations=[other])
        assert outcome(world) == ("Failed", "FailedCreateReservation")
        assert world.status["message"] == (
            f'Reservation "{JOB_UID}" has the name that this job gives, but another author; create another job'
        )
        assert list(world.reservations) == [JOB_UID]
        assert world.evictions == []

    def test_of_a_job_by_hand_that_may_not_be_deleted_the_end_is_left_to_others(self):
        world = reserved(World())
        world.keeps_created = True
        world.reject("none")
        world.now = NOON + 60
        assert outcome(world) == ("Failed", "Unschedulable")
        assert list(world.reservations) == [JOB_UID]
        world.now = NOON + 24 * 3600
        world.settle()
        assert world.job_deleted


class TestUnschedulable:
    def test_the_schedulers_words_are_reported_once(self):
        world = reserved(World())
        for _ in range(2):
            world.reject("0/2 nodes are available: 2 Insufficient cpu.")
            world.settle()
        assert world.condition("ReservationScheduled") == ("False", "Unschedulable")
        assert world.events[1:] == [("Unschedulable", "0/2 nodes are available: 2 Insufficient cpu.")]
        assert world.plan().wake_at_wall == NOON + 60

    def test_the_job_fails_after_a_minute_and_leaves_nothing(self):
        world = reserved(World())
        world.reject("0/2 nodes are available: 2 Insufficient cpu.")
        world.settle()
        world.now = NOON + 60
        assert outcome(world) == ("Failed", "Unschedulable")
        assert "2 Insufficient cpu" in world.status["message"]
        assert (world.reservations, world.evictions) == ({}, [])
        assert world.condition("ReservationScheduled") == ("False", "Unschedulable")

    def test_a_node_in_time_saves_the_job(self):
        world = reserved(World())
        world.reject()
        world.settle()
        world.place()
        world.settle()
        assert world.condition("ReservationScheduled") == ("True", "")

    def test_the_time_of_an_old_supplied_reservation_counts_from_its_use(self):
        kept = reservation(created=NOON - 3600)
        world = reserved(World(job=job(**supplied()), reservations=[kept]))
        world.reject()
        world.settle()
        assert world.status["phase"] == "Running"


class TestFailureDeletesTheReservation:
    """Each failure deletes the Reservation that the job created, unless a pod uses it."""

    @pytest.mark.parametrize(
        ("reach", "act", "wanted"),
        [
            pytest.param(reserved, lambda w: w.end(), MISSING, id="pod-deleted-before-the-reservation-has-a-node"),
            pytest.param(reserved, lambda w: w.place(OLD_NODE), FORBIDDEN, id="reservation-on-the-pods-node"),
            pytest.param(reserved, lambda w: w.expire(), EXPIRED, id="expired"),
            pytest.param(held, lambda w: w.expire(), EXPIRED, id="expired-before-the-eviction"),
            pytest.param(evicted, lambda w: w.expire(), EXPIRED, id="expired-after-the-eviction"),
            pytest.param(
                reserved,
                lambda w: w.reject(CLAIMS_UNSUPPORTED_MESSAGE),
                ("Failed", "Unschedulable"),
                id="alongside",
            ),
            pytest.param(
                reserved,
                lambda w: w.reject(AMOUNTS_MISSING_MESSAGE),
                ("Failed", "Unschedulable"),
                id="devices-alone-in-mode-yielding",
            ),
            pytest.param(
                held, lambda w: w.pods["web-a"]["status"].update(phase="Succeeded"), FORBIDDEN, id="pod-finished"
            ),
            pytest.param(reserved, lambda w: setattr(w, "now", NOON + 300), TIMEOUT, id="timeout"),
            pytest.param(held, lambda w: setattr(w, "now", NOON + 300), TIMEOUT, id="timeout-of-eviction"),
            pytest.param(evicted, lambda w: setattr(w, "now", NOON + 300), TIMEOUT, id="timeout-after-eviction"),
        ],
    )
    def test_unused(self, reach, act, wanted):
        world = reach(World())
        act(world)
        assert outcome(world) == wanted
        assert world.reservations == {}
        assert len(world.evictions) <= 1

    def test_a_reservation_in_use_stays(self):
        world = bound(World())
        world.now = NOON + 300
        assert outcome(world) == ("Failed", "Timeout")
        assert list(world.reservations) == [JOB_UID]

    def test_the_failure_is_written_before_the_deletion(self):
        world = reserved(World())
        world.end()
        (*_, failed, deleted) = world.settle()
        assert failed.body["status"]["phase"] == "Failed"
        assert isinstance(deleted, DeleteReservation)

    def test_a_restart_between_the_two_writes_loses_nothing(self):
        world = reserved(World())
        world.end()
        while world.status["phase"] != "Failed":
            world.step()
        world.restart()
        world.settle()
        assert world.reservations == {}

    def test_a_job_that_is_deleted_takes_its_reservation_along(self):
        world = reserved(World())
        world.job["metadata"]["deletionTimestamp"] = timestamp(NOON)
        assert isinstance(world.settle()[0], DeleteReservation)

    def test_a_job_that_is_deleted_leaves_a_reservation_in_use(self):
        world = bound(World())
        world.job["metadata"]["deletionTimestamp"] = timestamp(NOON)
        assert world.settle() == []
