"""Two jobs of one workload whose replacements take each other's Reservation; each rule from both sides."""

import msgspec
import pytest

from dra.api.migration.model import parse_pod_migration_job
from dra.api.reservations.model import parse_reservation
from dra.engine.migration.decide import decide
from dra.engine.migration.plan import DeleteJob, DeleteReservation, EvictPod, PatchJob, PatchJobStatus
from dra.engine.migration.view import Sibling
from tests.dra.engine.migration.stages import evicted, reserved
from tests.dra.engine.migration.world import (
    JOB_UID,
    NOON,
    OLD_NODE,
    World,
    job,
    reservation,
    reservation_of_job,
    timestamp,
)
from tests.violations import for_each_case

OTHER, THIRD = "0001-job", "0002-job"
ELSEWHERE = "node-2"


def sibling_job(*, name="other", uid=OTHER, ref=OTHER, eviction="True"):
    conditions = [{"type": "ReservationScheduled", "status": "True"}]
    conditions += [{"type": "Eviction", "status": eviction}] if eviction else []
    return parse_pod_migration_job(
        job(
            metadata={"name": name, "uid": uid},
            spec={
                "podRef": {"name": "web-b", "uid": "uid-web-b"},
                "reservationOptions": {"reservationRef": {"name": ref}},
            },
            status={"phase": "Running", "conditions": conditions},
        )
    )


def other(*, reservation=None, leaving=True, **given):
    return Sibling(job=sibling_job(**given), reservation=reservation, is_leaving=leaving)


def held(name=OTHER, *, node=ELSEWHERE, owners=(), cpu="1", made=True, **parts):
    found = (reservation_of_job if made else reservation)(name, node=node, owners=owners, cpu=cpu, **parts)
    return parse_reservation(found)


def next_plan(world, *siblings, unclaimed=()):
    view = msgspec.structs.replace(world.view(), siblings=siblings, unclaimed=tuple(unclaimed))
    return decide(view, args=world.args, now=world.now)


def next_action(world, *siblings, unclaimed=()):
    plan = next_plan(world, *siblings, unclaimed=unclaimed)
    return plan.actions[0] if plan.actions else None


def new_reference(world, *siblings, unclaimed=()):
    """Return the name of the Reservation to which the next action lets the job refer; empty for any other action."""
    action = next_action(world, *siblings, unclaimed=unclaimed)
    if not isinstance(action, PatchJob):
        return ""
    return action.body["spec"]["reservationOptions"]["reservationRef"]["name"]


def lost():
    """Return a job whose pod is still there, and whose Reservation another pod of the workload uses."""
    world = reserved(World())
    world.place()
    world.evict_error = "too many requests"
    world.settle()
    world.bind("web-n")
    return world


@for_each_case(
    [
        pytest.param(other(reservation=held()), True, id="free-while-its-pod-leaves"),
        pytest.param(other(reservation=held(), eviction="False"), True, id="free-while-its-pod-is-terminating"),
        pytest.param(other(reservation=held(), leaving=False), False, id="its-pod-is-still-there"),
        pytest.param(other(reservation=held(), eviction=""), False, id="its-pod-left-before-the-eviction"),
        pytest.param(other(reservation=held(owners=["web-m"])), False, id="used"),
        pytest.param(other(reservation=held(phase="Pending", node="")), False, id="not-available"),
        pytest.param(other(reservation=held(node=OLD_NODE)), False, id="on-the-node-of-the-pod"),
        pytest.param(other(reservation=held(cpu="500m")), False, id="too-small"),
        pytest.param(other(reservation=held(made=False)), False, id="supplied-by-a-user"),
        pytest.param(other(), False, id="gone"),
        pytest.param(
            other(reservation=held(metadata={"deletionTimestamp": "2027-01-01T00:00:00Z"})), False, id="being-deleted"
        ),
    ]
)
def test_a_job_takes_over_the_free_reservation_of_a_sibling(sibling, taken_over):
    assert new_reference(lost(), sibling) == (OTHER if taken_over else "")


def test_a_job_takes_over_again_if_a_pod_uses_the_reservation_of_the_sibling_as_well():
    world = lost()
    world.job["spec"]["reservationOptions"]["reservationRef"] = {"name": THIRD}
    world.reservations[THIRD] = reservation_of_job(THIRD, node=ELSEWHERE, owners=["web-n"])
    assert new_reference(world, other(reservation=held())) == OTHER


def test_a_reservation_is_taken_over_by_one_job_alone():
    third = other(name="third", uid=THIRD, ref=OTHER, reservation=held(), leaving=False)
    assert next_action(lost(), other(reservation=held()), third) is None


def test_a_reservation_of_a_user_is_not_given_up():
    world = lost()
    world.reservation["metadata"]["ownerReferences"] = []
    assert next_action(world, other(reservation=held())) is None


def taken_over():
    """Return a job that has taken over the Reservation of a sibling."""
    world = lost()
    world.evict_error = world.known_evict_error = ""
    world.reservations[OTHER] = reservation_of_job(OTHER, node=ELSEWHERE)
    world.apply(next_action(world, other(reservation=held())))
    return world


def test_a_job_evicts_once_the_sibling_refers_to_another_reservation():
    world = taken_over()
    assert next_action(world, other(reservation=held())) is None
    node = next_action(world, other(ref=JOB_UID))
    assert isinstance(node, PatchJobStatus)
    world.apply(node)
    assert world.status["nodeName"] == ELSEWHERE
    assert ("ReservationScheduled", f'Assigned Reservation "{OTHER}" to node "{ELSEWHERE}"') in world.events
    eviction = next_action(world, other(ref=JOB_UID))
    assert isinstance(eviction, EvictPod)
    assert eviction.reservation == OTHER


def successor(*, name="other", uid=OTHER, leaving=False):
    return other(name=name, uid=uid, ref=JOB_UID, eviction="False", leaving=leaving)


UNCLAIMED = [held(OTHER, owners=["web-n"]), held(THIRD, owners=["web-m"])]


def test_a_job_refers_to_an_unclaimed_reservation_once_a_sibling_takes_over_its_own():
    assert new_reference(evicted(World()), successor(), unclaimed=UNCLAIMED) == OTHER


def test_a_job_whose_pod_is_terminating_refers_to_an_unclaimed_reservation_at_once():
    world = reserved(World())
    world.place()
    world.settle()
    assert world.pods["web-a"]["metadata"]["deletionTimestamp"] == timestamp(NOON)
    assert new_reference(world, successor(), unclaimed=UNCLAIMED) == OTHER


@pytest.mark.parametrize(("name", "turn"), [("a-migration", THIRD), ("z-migration", OTHER)])
def test_jobs_that_leave_their_reservations_refer_to_different_ones(name, turn):
    leaving = other(name=name, uid="0003-job", ref="0003-job", reservation=held("0003-job"))
    holder = other(name="holder", uid="0004-job", ref="0003-job", eviction="False", leaving=False)
    assert new_reference(evicted(World()), leaving, holder, successor(), unclaimed=UNCLAIMED) == turn


def test_of_two_jobs_whose_pods_have_left_one_stays():
    world = evicted(World())
    assert new_reference(world, successor(name="z", leaving=True), unclaimed=UNCLAIMED) == OTHER
    assert new_reference(world, successor(name="a", leaving=True), unclaimed=UNCLAIMED) == ""


def test_a_job_takes_the_pod_in_the_reservation_of_a_failed_sibling_after_a_while():
    world = evicted(World())
    plan = next_plan(world, unclaimed=UNCLAIMED)
    assert not plan.actions
    assert plan.wake_at_wall == world.now + 10.0
    world.now += 10.0
    assert new_reference(world, unclaimed=UNCLAIMED) == OTHER
    world.bind("web-b")
    assert new_reference(world, unclaimed=UNCLAIMED) == ""


def test_a_reservation_is_kept_while_another_job_refers_to_it():
    world = evicted(World())
    world.job["status"] |= {"phase": "Failed"}
    assert isinstance(next_action(world), DeleteReservation)
    assert next_action(world, successor()) is None
    world.bind("web-m")
    world.now += 24 * 3600
    assert next_action(world, successor()) is None
    assert isinstance(next_action(world), DeleteJob)


def test_a_job_that_ends_deletes_the_reservation_that_it_created_and_left():
    world = taken_over()
    world.job["status"] |= {"phase": "Failed"}
    view = msgspec.structs.replace(world.view(), created=held(JOB_UID))
    assert decide(view, args=world.args, now=world.now).actions[0].name == JOB_UID
