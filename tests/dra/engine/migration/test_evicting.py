"""The eviction of the pod, with a Reservation for its replacement or directly."""

import pytest

from dra.api.descheduler.migration_controller_args import MigrationControllerArgs
from dra.api.migration.model import EvictionPolicy
from dra.engine.migration.plan import ReadPod
from tests.dra.engine.migration.stages import FORBIDDEN, MISSING, held, outcome, reserved
from tests.dra.engine.migration.world import JOB_UID, NEW_NODE, NOON, World, job, pod, timestamp


def test_a_pending_replacement_with_the_name_of_the_evicted_pod_completes_the_eviction():
    controller = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "uid-web", "controller": True}
    world = World(pods=[pod(controller=controller)])
    reserved(world).place()
    world.settle()
    assert len(world.evictions) == 1
    world.add(pod(uid="uid-next", node="", controller=controller, created=world.now))
    assert outcome(world) == ("Running", "WaitForPodBindReservation")
    world.bind("web-a")
    world.ready("web-a")
    assert outcome(world) == ("Succeeded", "")


class TestEviction:
    def test_a_pod_deleted_by_its_controller_counts_as_evicted(self):
        world = reserved(World())
        world.place()
        world.end()
        world.add(pod(uid="uid-next", node=NEW_NODE))
        world.settle()
        assert world.condition("Eviction") == ("True", "EvictComplete")
        assert world.evictions == []

    def test_a_failed_pod_counts_as_evicted(self):
        world = held(World())
        world.pods["web-a"]["status"] = {"phase": "Failed"}
        world.settle()
        assert world.condition("Eviction") == ("True", "EvictComplete")

    def test_only_a_live_read_proves_that_a_pod_is_gone(self):
        world = held(World())
        world.end()
        assert isinstance(world.step(), ReadPod)
        world.settle()
        assert world.condition("Eviction") == ("True", "EvictComplete")

    def test_a_pod_that_is_being_deleted_is_awaited(self):
        world = reserved(World())
        world.pods["web-a"]["metadata"]["deletionTimestamp"] = timestamp(NOON)
        world.place()
        world.settle()
        assert world.evictions == []
        world.end()
        world.settle()
        assert world.condition("Eviction") == ("True", "EvictComplete")

    def test_a_pod_that_is_being_deleted_before_the_reservation_has_a_node_is_awaited(self):
        world = reserved(World())
        world.pods["web-a"]["metadata"]["deletionTimestamp"] = timestamp(NOON)
        assert world.settle() == []
        world.end()
        assert outcome(world) == MISSING

    def test_a_live_read_counts_more_than_the_watch(self):
        world = World()
        while not world.job["spec"]["podRef"].get("uid"):
            world.step()
        shown, world.pods["web-a"] = world.pods["web-a"], pod(uid="uid-next")
        world.apply(ReadPod(key=("default", "web-a")))
        world.pods["web-a"] = shown
        assert outcome(world) == MISSING

    def test_a_refused_eviction_is_reported_once_and_tried_again_after_three_seconds(self):
        world = held(World())
        text = 'Failed evict Pod "default/web-a" caused by too many requests'
        assert world.events[-1] == ("Evicting", text)
        assert world.status["message"] == text
        assert (len(world.evictions), world.plan().wake_at_wall) == (1, NOON + 3)
        world.now += 3
        world.settle()
        assert (len(world.evictions), world.events.count(("Evicting", text))) == (2, 1)
        world.evict_error = ""
        world.now += 3
        world.settle()
        world.end()
        world.settle()
        assert (len(world.evictions), world.condition("Eviction")) == (3, ("True", "EvictComplete"))

    def test_no_second_eviction_while_the_watch_does_not_show_the_first(self):
        world = reserved(World())
        world.place()
        world.settle()
        del world.pods["web-a"]["metadata"]["deletionTimestamp"]
        assert world.settle() == []
        world.bind("web-b")
        world.now += 60
        assert world.settle() == []

    def test_a_reservation_that_another_pod_took_forbids_the_eviction(self):
        world = held(World())
        world.bind("sibling", created=NOON - 60)
        assert outcome(world) == FORBIDDEN
        assert "is already bound by another Pod" in world.status["message"]
        assert list(world.reservations) == [JOB_UID]

    def test_a_new_pod_in_the_reservation_may_be_the_replacement_of_a_pod_that_is_gone_already(self):
        world = held(World())
        world.bind("web-b")
        assert world.settle() == []
        assert world.plan().wake_at_wall == NOON + 10
        world.end()
        world.settle()
        assert world.status["podRef"]["name"] == "web-b"

    @pytest.mark.parametrize(
        ("of_job", "of_pod", "default", "wanted"),
        [
            pytest.param("Delete", "SoftEviction", EvictionPolicy.EVICTION, "Delete", id="job-first"),
            pytest.param("", "SoftEviction", EvictionPolicy.EVICTION, "SoftEviction", id="then-the-pod"),
            pytest.param("", "", EvictionPolicy.DELETE, "Delete", id="then-the-configuration"),
        ],
    )
    def test_labels_choose_the_policy(self, of_job, of_pod, default, wanted):
        label = "koordinator.sh/evict-policy"
        world = reserved(
            World(
                job=job(metadata={"labels": {label: of_job} if of_job else {}}),
                pods=[pod(metadata={"labels": {label: of_pod} if of_pod else {}})],
                args=MigrationControllerArgs(eviction_policy=default),
            )
        )
        world.place()
        world.settle()
        assert [each.eviction_policy for each in world.evictions] == [EvictionPolicy(wanted)]

    def test_options_of_the_job_are_kept_except_the_uid(self):
        given = {"gracePeriodSeconds": 5, "preconditions": {"uid": "other", "resourceVersion": "7"}}
        annotations = {"koordinator.sh/evict-reason": "node is hot"}
        world = reserved(World(job=job(spec={"deleteOptions": given}, metadata={"annotations": annotations})))
        world.place()
        world.settle()
        (found,) = world.evictions
        wanted = {"gracePeriodSeconds": 5, "preconditions": {"uid": "uid-web-a", "resourceVersion": "7"}}
        assert (found.delete_options, found.reason) == (wanted, "node is hot")

    def test_a_soft_eviction_is_requested_once_even_after_a_restart(self):
        label = {"koordinator.sh/evict-policy": "SoftEviction"}
        world = reserved(World(job=job(metadata={"labels": label})))
        world.place()
        world.settle()
        world.restart()
        world.settle()
        assert len(world.evictions) == 1


class TestEvictDirectly:
    def test_evicts_and_reserves_nothing(self):
        world = World(job=job(spec={"mode": "EvictDirectly"}), pods=[pod(controller=None)])
        world.settle()
        assert (world.reservations, [each.reservation for each in world.evictions]) == ({}, [""])
        assert world.status["phase"] == "Running"
        world.end()
        assert outcome(world) == ("Succeeded", "")
        assert world.status["status"] == "Complete"
        assert [reason for reason, _ in world.events] == ["Evicting", "EvictComplete"]

    def test_fails_without_a_pod(self):
        world = World(job=job(spec={"mode": "EvictDirectly"}))
        while world.status.get("phase") != "Running":
            world.step()
        world.end()
        assert outcome(world) == MISSING
