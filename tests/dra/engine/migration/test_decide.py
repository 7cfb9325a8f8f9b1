import pytest

from dra.engine.migration.plan import CreateReservation, EvictPod, PatchJobStatus
from tests.dra.engine.migration.world import JOB_UID, NEW_NODE, NOON, World, job, pod

TRACE = [
    ("Running", "", ""),
    ("Running", "ReservationCreated", ""),
    ("Running", "ReservationScheduled", ""),
    ("Running", "Eviction", "Evicting"),
    ("Running", "Eviction", "EvictComplete"),
    ("Running", "PodBoundReservation", "WaitForPodBindReservation"),
    ("Running", "PodBoundReservation", ""),
    ("Running", "BoundPodReady", "WaitForBoundPodReady"),
    ("Running", "BoundPodReady", ""),
    ("Succeeded", "Complete", ""),
]


def migrate(world: World) -> World:
    for act in (world.place, world.end, world.bind, world.ready):
        world.settle()
        world.now += 1
        act()
    world.settle()
    return world


def test_a_migration_reports_the_steps_of_koordinator():
    world = migrate(World())
    assert world.trace == TRACE
    assert world.events == [
        ("ReservationCreated", f'Successfully create Reservation "{JOB_UID}"'),
        ("ReservationScheduled", f'Assigned Reservation "{JOB_UID}" to node "{NEW_NODE}"'),
        ("Evicting", 'Try to evict Pod "default/web-a"'),
        ("EvictComplete", 'Pod "default/web-a" has been evicted'),
        ("WaitForPodBindReservation", f'Wait for a Pod to bind Reservation "{JOB_UID}"'),
        ("PodBoundReservation", f'Bind Pod "default/web-b" in Reservation "{JOB_UID}"'),
        ("BoundPodReady", 'Pod "default/web-b" is ready'),
        ("Complete", f'Bind Pod "default/web-b" in Reservation "{JOB_UID}"'),
    ]
    assert world.status["nodeName"] == NEW_NODE
    assert world.status["podRef"] == {"namespace": "default", "name": "web-b", "uid": "uid-web-b"}
    assert {each["type"]: each["status"] for each in world.status["conditions"]} == dict.fromkeys(
        (
            "ReservationCreated",
            "ReservationScheduled",
            "Eviction",
            "PodBoundReservation",
            "ReservationBound",
            "BoundPodReady",
        ),
        "True",
    )
    assert len(world.evictions) == 1


def test_the_first_write_pins_what_defaults_and_names_could_change():
    world = World()
    world.settle()
    spec = world.job["spec"]
    assert spec["podRef"] == {"namespace": "default", "name": "web-a", "uid": "uid-web-a"}
    assert (spec["ttl"], spec["mode"]) == ("5m0s", "ReservationFirst")
    assert spec["reservationOptions"]["reservationRef"]["name"] == JOB_UID


def test_a_plan_that_was_applied_is_not_planned_again():
    world = World()
    world.settle()
    assert world.plan().actions == ()
    assert world.plan().wake_at_wall == pytest.approx(NOON + 300)


def test_the_eviction_is_announced_before_it_is_requested():
    world = World()
    world.settle()
    world.place()
    done = world.settle()
    announced = [n for n, each in enumerate(done) if isinstance(each, PatchJobStatus)][-1]
    assert isinstance(done[announced + 1], EvictPod)
    assert done[announced].body["status"]["reason"] == "Evicting"


def test_nothing_is_reserved_before_arbitration_has_passed():
    world = World(job=job(passed=False))
    assert not any(isinstance(each, CreateReservation) for each in world.settle())
    assert world.status == {}


def test_the_next_pod_of_the_name_that_has_no_node_is_not_the_pod_that_waits():
    """A StatefulSet gives its name again within milliseconds of the eviction."""
    world = World()
    world.settle()
    world.place()
    world.settle()
    world.end()
    world.add(pod(uid="uid-of-the-next", node=""))
    world.settle()
    assert world.condition("Eviction")[0] == "True"
