from dra.api.migration.model import parse_pod_migration_job
from dra.engine.migration.conditions import (
    Step,
    report_failure,
    report_running,
    report_step,
    report_success,
    report_waiting,
)
from dra.engine.migration.reasons import MigrationConditionType, MigrationReason
from tests.dra.engine.migration.world import NOON, World, job, merge, timestamp

EVICTING = Step(type=MigrationConditionType.EVICTION, done=False, reason=MigrationReason.EVICTING, message="m")
LATER = NOON + 60


def written(before, write):
    """Return the job after a write of its status."""
    after = dict(before)
    merge(after, write.body)
    return after


def report(given, step, now=NOON):
    return report_step(parse_pod_migration_job(given), step, now=now)


def test_a_write_has_the_resource_version_and_only_what_changes():
    given = job(status={"phase": "Running", "nodeName": "n"})
    body = report(given, EVICTING).body
    assert body["metadata"] == {"resourceVersion": "1"}
    assert body["status"].keys() == {"phase", "status", "reason", "message", "conditions"}
    assert body["status"]["phase"] == "Running"


def test_a_step_that_was_reported_is_not_written_again():
    given = written(job(), report(job(), EVICTING))
    assert report(given, EVICTING, LATER) is None


def test_only_a_change_of_the_status_is_a_transition():
    given = written(job(), report(job(), EVICTING))
    again = Step(type=EVICTING.type, done=False, reason=EVICTING.reason, message="refused")
    (told,) = report(given, again, LATER).body["status"]["conditions"]
    assert (told["lastProbeTime"], told["lastTransitionTime"]) == (timestamp(LATER), timestamp(NOON))
    done = Step(type=EVICTING.type, reason=MigrationReason.EVICT_COMPLETE)
    (told,) = report(given, done, LATER).body["status"]["conditions"]
    assert told["lastTransitionTime"] == timestamp(LATER)


def test_an_emptied_field_is_removed():
    given = written(job(), report(job(), EVICTING))
    body = report(given, Step(type=MigrationConditionType.RESERVATION_BOUND)).body
    assert (body["status"]["reason"], body["status"]["message"]) == (None, None)


def test_a_failure_explains_the_step_that_was_waited_for():
    given = written(job(), report(job(), EVICTING))
    write = report_failure(parse_pod_migration_job(given), MigrationReason.TIMEOUT, "late", now=LATER)
    (told,) = write.body["status"]["conditions"]
    assert (told["type"], told["status"], told["reason"], told["message"]) == ("Eviction", "False", "Timeout", "late")
    assert (write.body["status"]["phase"], write.body["status"]["reason"]) == ("Failed", "Timeout")
    assert [(each.reason, each.type.value) for each in write.events] == [(MigrationReason.TIMEOUT, "Warning")]


def test_a_job_that_begins_no_longer_waits_for_arbitration():
    waiting = report_waiting(parse_pod_migration_job(job()), MigrationReason.PAUSED, "paused", now=NOON)
    given = written(job(), waiting)
    status = report_running(parse_pod_migration_job(given), now=LATER).body["status"]
    assert [(each["type"], each["status"]) for each in status["conditions"]] == [("PassedArbitration", "True")]
    assert (status["phase"], status["reason"], status["message"]) == ("Running", None, None)


def test_success_is_reported_with_the_last_step():
    step = Step(type=MigrationConditionType.EVICTION, reason=MigrationReason.EVICT_COMPLETE)
    status = report_success(parse_pod_migration_job(job()), MigrationReason.COMPLETE, "done", now=NOON, step=step).body[
        "status"
    ]
    assert (status["phase"], status["status"], status["message"]) == ("Succeeded", "Complete", "done")
    assert [each["type"] for each in status["conditions"]] == ["Eviction"]


def test_conditions_of_others_are_kept():
    other = {"type": "Seen", "status": "True", "reason": "ByMe"}
    world = World(job=job(status={"conditions": [other]}))
    world.settle()
    assert world.status["conditions"][0] == other
