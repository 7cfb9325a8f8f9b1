"""Two jobs of one workload whose replacements take each other's Reservation; each rule from both sides."""

import msgspec
import pytest

from dra.api.migration.model import parse_pod_migration_job
from dra.api.reservations.model import parse_reservation
from dra.engine.migration.decide import decide
from dra.engine.migration.plan import DeleteJob, DeleteReservation, PatchJob
from dra.engine.migration.view import MigrationPod, Sibling
from tests.dra.engine.migration.stages import evicted, reserved
from tests.dra.engine.migration.world import JOB_UID, NOON, OLD_NODE, World, job, pod, reservation

OTHER = "0001-job"
ELSEWHERE = "node-2"


def sibling_job(*, ref=OTHER, eviction="True", phase="Running", recorded=""):
    conditions = [{"type": "ReservationScheduled", "status": "True"}]
    conditions += [{"type": "Eviction", "status": eviction}] if eviction else []
    return parse_pod_migration_job(
        job(
            metadata={"name": "other", "uid": OTHER},
            spec={
                "podRef": {"name": "web-b", "uid": "uid-web-b"},
                "reservationOptions": {"reservationRef": {"name": ref}},
            },
            status={"phase": phase, "conditions": conditions} | ({"podRef": {"name": recorded}} if recorded else {}),
        )
    )


def held(name=OTHER, *, node=ELSEWHERE, owners=(), cpu="1", **parts):
    return parse_reservation(reservation(name, node=node, owners=owners, cpu=cpu, **parts))


def user(name="web-n", *, created=NOON + 60):
    return msgspec.convert(pod(name, node=ELSEWHERE, created=created), MigrationPod, strict=False)


def other(*, reservation=None, leaving=True, **fields):
    given = {each: fields.pop(each) for each in ("ref", "eviction", "phase", "recorded") if each in fields}
    return Sibling(job=sibling_job(**given), reservation=reservation, is_leaving=leaving, **fields)


def next_action(world, *siblings):
    view = msgspec.structs.replace(world.view(), siblings=siblings)
    plan = decide(view, args=world.args, now=world.now)
    return plan.actions[0] if plan.actions else None


def lost():
    """Return a job whose pod is still there, and whose Reservation another pod of the workload uses."""
    world = reserved(World())
    world.place()
    world.evict_error = "too many requests"
    world.settle()
    world.bind("web-n")
    return world


@pytest.mark.parametrize(
    ("sibling", "taken_over"),
    [
        pytest.param(other(reservation=held()), True, id="free-while-its-pod-leaves"),
        pytest.param(other(reservation=held(), eviction="False"), True, id="free-while-its-pod-is-terminating"),
        pytest.param(other(reservation=held(), leaving=False), False, id="its-pod-is-still-there"),
        pytest.param(other(reservation=held(), eviction=""), False, id="its-pod-left-before-the-eviction"),
        pytest.param(other(reservation=held(owners=["web-m"])), False, id="used"),
        pytest.param(other(reservation=held(phase="Pending", node="")), False, id="not-available"),
        pytest.param(other(reservation=held(node=OLD_NODE)), False, id="on-the-node-of-the-pod"),
        pytest.param(other(reservation=held(cpu="500m")), False, id="too-small"),
        pytest.param(other(reservation=held(), phase="Failed"), False, id="its-job-has-failed"),
        pytest.param(other(reservation=held(), recorded="web-m"), False, id="its-job-has-a-pod"),
        pytest.param(other(reservation=held("kept"), ref="kept"), False, id="supplied-by-a-user"),
        pytest.param(
            other(reservation=held(metadata={"deletionTimestamp": "2027-01-01T00:00:00Z"})), False, id="being-deleted"
        ),
    ],
)
def test_a_job_takes_over_the_free_reservation_of_a_sibling(sibling, taken_over):
    action = next_action(lost(), sibling)
    assert (isinstance(action, PatchJob) and action.body["spec"]["reservationOptions"]["reservationRef"]["name"]) == (
        OTHER if taken_over else False
    )


def test_a_reservation_is_taken_over_by_one_job_alone():
    third = other(reservation=held(owners=["web-m"]))
    third = msgspec.structs.replace(
        third, job=third.job.model_copy(update={"metadata": third.job.metadata.model_copy(update={"uid": "0002-job"})})
    )
    assert next_action(lost(), other(reservation=held()), third) is None


def test_a_job_takes_over_once():
    world = lost()
    world.job["spec"]["reservationOptions"]["reservationRef"] = {"name": OTHER}
    world.reservations[OTHER] = reservation(OTHER, node=ELSEWHERE, owners=["web-n"])
    assert next_action(world, other(reservation=held("0002-job"), ref="0002-job")) is None


def test_the_node_of_the_new_reservation_is_reported_before_the_eviction():
    world = lost()
    world.evict_error = world.known_evict_error = ""
    world.reservations[OTHER] = reservation(OTHER, node=ELSEWHERE)
    world.apply(next_action(world, other(reservation=held())))
    world.settle()
    assert world.status["nodeName"] == ELSEWHERE
    assert ("ReservationScheduled", f'Assigned Reservation "{OTHER}" to node "{ELSEWHERE}"') in world.events
    assert [each.reservation for each in world.evictions[1:]] == [OTHER]


def recorded(world, *siblings):
    """Return the name of the pod that the next action records as the replacement."""
    action = next_action(world, *siblings)
    return getattr(action, "body", {}).get("status", {}).get("podRef", {}).get("name", "")


def test_a_job_takes_the_pod_in_the_reservation_of_its_successor():
    successor = other(ref=JOB_UID, created=held(owners=["web-n"]), created_user=user())
    assert recorded(evicted(World()), successor) == "web-n"
    world = evicted(World())
    world.bind("web-m")  # the replacement of the successor's pod is there already
    assert recorded(world, successor) == "web-n"


def test_a_pod_in_the_reservation_of_a_successor_is_recorded_once_bound():
    pending = msgspec.convert(pod("web-n", node=""), MigrationPod, strict=False)
    successor = other(ref=JOB_UID, created=held(owners=["web-n"]), created_user=pending)
    assert next_action(evicted(World()), successor) is None


FAILED = {"phase": "Failed", "eviction": "False"}


@pytest.mark.parametrize(
    ("sibling", "name"),
    [
        pytest.param(
            other(reservation=held(owners=["web-n"]), user=user(), **FAILED), "web-n", id="since-the-eviction"
        ),
        pytest.param(
            other(reservation=held(owners=["web-n"]), user=user(created=NOON - 60), **FAILED), "", id="an-older-pod"
        ),
        pytest.param(
            other(reservation=held(owners=["web-n"]), user=user(), is_user_recorded=True, **FAILED),
            "",
            id="the-replacement-of-another-pod",
        ),
        pytest.param(
            other(reservation=held(owners=["web-n"]), user=user(), phase="Failed"), "", id="a-job-that-evicted-its-pod"
        ),
        pytest.param(
            other(reservation=held(owners=["web-n"]), user=user(), eviction="False"), "", id="a-job-that-goes-on"
        ),
        pytest.param(other(reservation=held(), **FAILED), "", id="a-free-reservation"),
    ],
)
def test_a_job_takes_the_pod_in_the_reservation_of_a_failed_sibling(sibling, name):
    assert recorded(evicted(World()), sibling) == name


@pytest.mark.parametrize(("phase", "kept"), [("Running", True), ("Succeeded", False), ("Failed", False)])
def test_a_reservation_is_kept_while_the_job_that_took_it_over_goes_on(phase, kept):
    world = evicted(World())
    world.job["status"] |= {"phase": "Failed"}
    successor = other(ref=JOB_UID, phase=phase)
    assert isinstance(next_action(world, successor), DeleteReservation) is not kept
    world.bind("web-m")
    world.now += 24 * 3600
    assert isinstance(next_action(world, successor), DeleteJob) is not kept
