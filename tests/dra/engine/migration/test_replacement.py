"""The pod in the Reservation: the replacement of an evicted pod, or a Pending pod itself."""

from dra.engine.migration.plan import ReadPod
from tests.dra.engine.migration.stages import FORBIDDEN, MISSING, bound, evicted, outcome, reserved
from tests.dra.engine.migration.world import JOB_UID, NEW_NODE, NOON, World, pod


class TestReplacement:
    def test_is_recorded_only_once_it_is_bound(self):
        world = evicted(World())
        world.bind()
        world.reservation["status"]["phase"] = "Available"
        world.pods["web-b"]["spec"]["nodeName"] = ""
        world.settle()
        assert "podRef" not in world.status

    def test_a_sibling_that_took_the_reservation_is_recorded_as_it_is(self):
        world = evicted(World())
        world.bind("sibling", created=NOON - 60)
        world.ready("sibling")
        assert outcome(world) == ("Succeeded", "")
        assert world.status["podRef"]["name"] == "sibling"
        text = f'Bind Pod "default/sibling" in Reservation "{JOB_UID}", which was made for the replacement of Pod'
        assert any(message.startswith(text) for _, message in world.events)

    def test_that_has_ended_unseen_fails_the_job(self):
        world = evicted(World())
        world.bind()
        world.reservation["status"]["currentOwners"] = []
        assert outcome(world) == MISSING
        assert "has ended already" in world.status["message"]

    def test_a_pod_that_ends_before_it_is_ready_fails_the_job(self):
        world = bound(World())
        world.end("web-b")
        assert outcome(world) == MISSING
        assert list(world.reservations) == [JOB_UID]

    def test_of_the_same_name_is_awaited_while_the_watch_still_shows_the_evicted_pod(self):
        world = evicted(World())
        new = pod("web-a", uid="uid-next", node="", created=NOON)
        world.add(new)
        world.bind("web-a")
        world.settle()
        world.pods["web-a"] = pod("web-a")
        assert world.status["podRef"]["uid"] == "uid-next"
        assert isinstance(world.step(), ReadPod)
        world.pods["web-a"] = new
        world.ready("web-a")
        assert outcome(world) == ("Succeeded", "")

    def test_a_pod_that_finished_counts_as_ready(self):
        world = bound(World())
        world.pods["web-b"]["status"] = {"phase": "Succeeded"}
        assert outcome(world) == ("Succeeded", "")

    def test_a_reservation_that_is_gone_after_the_pod_was_recorded_does_not_matter(self):
        world = bound(World())
        world.reservations.clear()
        world.ready()
        assert outcome(world) == ("Succeeded", "")

    def test_only_a_live_read_proves_that_the_reservation_is_gone(self):
        world = evicted(World())
        world.reservations.clear()
        assert outcome(world) == ("Failed", "MissingReservation")

    def test_another_reservation_of_the_name_does_not_count(self):
        world = reserved(World())
        world.reservation["metadata"]["uid"] = "uid-other"
        assert outcome(world) == ("Failed", "MissingReservation")


class TestPendingPod:
    def waiting(self):
        world = reserved(World(pods=[pod(node="", cpu="1")]))
        world.place()
        world.settle()
        return world

    def test_gets_a_reservation_of_its_own_and_is_not_evicted(self):
        world = self.waiting()
        owner = {"uid": "uid-web-a", "name": "web-a", "namespace": "default"}
        assert world.reservation["spec"]["owners"] == [{"object": owner}]
        assert "affinity" not in world.reservation["spec"]["template"]["spec"]
        assert world.condition("PodScheduled") == ("False", "Unschedulable")
        world.bind("web-a")
        world.settle()
        assert world.condition("PodScheduled") == ("True", "")
        world.ready("web-a")
        assert outcome(world) == ("Succeeded", "")
        assert world.evictions == []

    def test_may_be_bound_before_the_node_of_its_reservation_is_reported(self):
        world = reserved(World(pods=[pod(node="")]))
        world.place()
        world.bind("web-a")
        world.ready("web-a")
        assert outcome(world) == ("Succeeded", "")

    def test_that_is_deleted_fails_the_job(self):
        world = self.waiting()
        world.end()
        assert outcome(world) == MISSING
        assert world.reservations == {}

    def test_that_runs_outside_of_its_reservation_needs_no_migration(self):
        world = self.waiting()
        world.pods["web-a"]["spec"]["nodeName"] = "node-7"
        assert outcome(world) == FORBIDDEN
        assert (world.reservations, world.evictions) == ({}, [])

    def test_that_was_bound_in_its_reservation_is_awaited(self):
        world = self.waiting()
        world.pods["web-a"]["spec"]["nodeName"] = NEW_NODE
        text = '{"name": "x", "uid": "uid-held"}'
        world.pods["web-a"]["metadata"]["annotations"] = {"scheduling.koordinator.sh/reservation-allocated": text}
        assert world.settle() == []
