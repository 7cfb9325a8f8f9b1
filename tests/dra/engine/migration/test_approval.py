import pytest

from dra.api.migration.model import parse_pod_migration_job
from dra.api.migration.well_known import ANNOTATION_APPROVAL, APPROVAL_REQUIRED
from dra.engine.migration.approval import NotApprovableError, approve, needs_approval, reject
from dra.engine.migration.plan import DeleteReservation, EvictPod, PatchJobStatus
from tests.dra.engine.migration.stages import evicted, held, outcome, reserved
from tests.dra.engine.migration.world import NOON, World, job, merge

WAITS = {"metadata": {"annotations": {ANNOTATION_APPROVAL: APPROVAL_REQUIRED}}, "spec": {"paused": True}}


def waiting(**spec):
    made = job(passed=False, **WAITS)
    made["spec"] |= spec
    return made


def parsed(content):
    return parse_pod_migration_job(content)


def test_a_job_of_the_descheduler_waits_and_an_event_tells_how_to_approve():
    world = World(job=waiting())
    plan = world.plan()
    (action,) = plan.actions
    assert isinstance(action, PatchJobStatus)
    (event,) = action.events
    assert event.reason == "ApprovalRequired"
    assert "approve or reject the migration, see kubectl dra approve --help" in event.message
    world.settle()
    assert world.condition("PassedArbitration") == ("False", "ApprovalRequired")
    assert world.settle() == []


def test_the_event_comes_once():
    world = World(job=waiting())
    world.settle()
    assert not any(isinstance(action, PatchJobStatus) for action in world.plan().actions)


def test_an_unapproved_job_expires():
    world = World(job=waiting(ttl="1m"))
    world.settle()
    world.now = NOON + 60
    assert outcome(world) == ("Failed", "Timeout")
    assert "waits for approval" in world.status["message"]


def test_an_approved_job_goes_on():
    world = World(job=waiting())
    world.settle()
    merge(world.job, approve(parsed(world.job)))
    merge(world.job, {"metadata": {"annotations": {"descheduler.koordinator.sh/passed-arbitration": "true"}}})
    assert not needs_approval(parsed(world.job))
    reserved(world)
    assert world.reservation


def test_a_rejected_job_ends_and_its_pod_stays():
    world = World(job=waiting())
    world.settle()
    merge(world.job, reject(parsed(world.job), by="ada"))
    assert (world.status["phase"], world.status["message"]) == ("Aborted", "rejected by ada; the pod stays")
    assert not any(isinstance(action, EvictPod) for action in world.settle())


@pytest.mark.parametrize(
    "status", [pytest.param({"phase": "Aborted"}, id="aborted"), pytest.param({"phase": "Failed"}, id="failed")]
)
def test_a_phase_that_a_person_sets_frees_what_the_job_holds(status):
    """Koordinator's manual ends a job by phase Failed."""
    world = held(World())
    merge(world.job, {"status": status})
    (action,) = world.plan().actions
    assert isinstance(action, DeleteReservation)


def test_the_patches_hold_only_for_the_job_that_was_looked_at():
    assert approve(parsed(waiting())) == {"metadata": {"resourceVersion": "1"}, "spec": {"paused": False}}
    assert reject(parsed(waiting()))["metadata"] == {"resourceVersion": "1"}


@pytest.mark.parametrize(
    ("given", "text"),
    [
        pytest.param(job(spec={"paused": True}), "does not wait for approval (phase Pending)", id="paused-by-a-person"),
        pytest.param(waiting(paused=False), "does not wait for approval (phase Pending)", id="approved-already"),
        pytest.param({**waiting(), "status": {"phase": "Failed"}}, "(phase Failed)", id="expired"),
    ],
)
def test_only_a_job_that_waits_can_be_approved(given, text):
    with pytest.raises(NotApprovableError, match=r"^podmigrationjob migration: ") as refused:
        approve(parsed(given))
    assert text in str(refused.value)


def test_a_job_that_has_ended_cannot_be_rejected():
    with pytest.raises(NotApprovableError, match=r"^podmigrationjob migration: has ended \(phase Succeeded\)"):
        reject(parsed({**waiting(), "status": {"phase": "Succeeded"}}))


def test_a_job_whose_pod_is_gone_cannot_be_rejected():
    with pytest.raises(NotApprovableError, match="the job holds its new place"):
        reject(parsed(evicted(World()).job))
