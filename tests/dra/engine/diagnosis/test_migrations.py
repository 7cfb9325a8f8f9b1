"""The step of a migration, and the problems of jobs that wait."""

import msgspec
import pytest

from dra.api.migration.model import parse_pod_migration_job
from dra.engine.diagnosis import migrations
from dra.engine.diagnosis.migrations import MigrationStep
from dra.engine.diagnosis.problem_codes import ProblemCode
from dra.engine.diagnosis.snapshot import ControllerLease, ControllerPresence
from dra.model.preemption import PodDisruptionBudget
from dra.model.scheduling import SchedulerPod
from tests.violations import for_each_case

PASSED = {"descheduler.koordinator.sh/passed-arbitration": "true"}
RUNNING = ControllerLease(presence=ControllerPresence.RUNNING, name="dra-reserve/dra-reserve-descheduler")
ABSENT = ControllerLease(presence=ControllerPresence.ABSENT, name="dra-reserve/dra-reserve-descheduler")


def condition(kind, status="True", *, reason="", message="", at="2026-11-24T12:00:00Z"):
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": at}


PROPOSED = {
    "koordinator.sh/evict-trigger": "LowNodeLoad",
    "koordinator.sh/evict-reason": "node is overutilized",
    "reserve.dra/profile": "default",
    "reserve.dra/descheduling-round": "2026-11-24T11:59:00Z",
}


def job(
    *conditions, name="j", phase="Running", passed=True, paused=False, pod="web-1", uid="", annotations=(), **status
):
    return parse_pod_migration_job(
        {
            "metadata": {
                "name": name,
                "uid": f"uid-{name}",
                "creationTimestamp": "2026-11-24T11:59:00Z",
                "annotations": (PASSED if passed else {}) | dict(annotations),
            },
            "spec": {
                "paused": paused,
                "podRef": {"namespace": "shop", "name": pod, "uid": uid},
                "reservationOptions": {"reservationRef": {"name": "r"}},
            },
            "status": {"phase": phase, "conditions": list(conditions), **status},
        }
    )


def unapproved(**more):
    required = PROPOSED | {"reserve.dra/approval": "Required"}
    return job(passed=False, paused=True, phase="Pending", annotations=required, **more)


WAIT = condition("PassedArbitration", "False", reason="MaxMigratingPerNode", message="node n1: full")
CREATED = condition("ReservationCreated")
UNSCHEDULABLE = condition("ReservationScheduled", "False", reason="Unschedulable", message="0/2 nodes")
SCHEDULED = condition("ReservationScheduled")
EVICTING = condition("Eviction", "False", reason="Evicting", message="try")
EVICTED = condition("Eviction", reason="EvictComplete")
UNBOUND = condition("PodBoundReservation", "False", reason="WaitForPodBindReservation")
BOUND = condition("PodBoundReservation")
UNREADY = condition("BoundPodReady", "False", reason="WaitForBoundPodReady")


@for_each_case(
    [
        pytest.param(job(passed=False, phase="Pending"), MigrationStep.WAITING, "", id="nobody-has-looked"),
        pytest.param(job(WAIT, passed=False), MigrationStep.WAITING, "MaxMigratingPerNode", id="a-limit"),
        pytest.param(job(WAIT, passed=False, paused=True), MigrationStep.PAUSED, "MaxMigratingPerNode", id="paused"),
        pytest.param(unapproved(), MigrationStep.UNAPPROVED, "", id="waits-for-a-person"),
        pytest.param(job(), MigrationStep.STARTING, "", id="passed"),
        pytest.param(job(CREATED), MigrationStep.SCHEDULING, "", id="created"),
        pytest.param(job(CREATED, UNSCHEDULABLE), MigrationStep.SCHEDULING, "Unschedulable", id="unschedulable"),
        pytest.param(job(CREATED, SCHEDULED), MigrationStep.RESERVED, "", id="room-is-held"),
        pytest.param(job(CREATED, SCHEDULED, paused=True), MigrationStep.PAUSED, "", id="paused-before-the-eviction"),
        pytest.param(job(CREATED, SCHEDULED, EVICTING), MigrationStep.EVICTING, "Evicting", id="evicting"),
        pytest.param(job(SCHEDULED, EVICTED), MigrationStep.BINDING, "EvictComplete", id="evicted"),
        pytest.param(
            job(SCHEDULED, EVICTED, paused=True), MigrationStep.BINDING, "EvictComplete", id="paused-after-the-eviction"
        ),
        pytest.param(
            job(SCHEDULED, EVICTED, UNBOUND), MigrationStep.BINDING, "WaitForPodBindReservation", id="not-bound"
        ),
        pytest.param(job(EVICTED, BOUND), MigrationStep.READYING, "", id="bound"),
        pytest.param(job(EVICTED, BOUND, UNREADY), MigrationStep.READYING, "WaitForBoundPodReady", id="not-ready"),
        pytest.param(job(condition("PodScheduled", "False")), MigrationStep.BINDING, "", id="pending-pod"),
        pytest.param(job(phase="Failed", reason="Timeout"), MigrationStep.ENDED, "Timeout", id="failed"),
        pytest.param(job(EVICTED, phase="Succeeded"), MigrationStep.ENDED, "EvictComplete", id="succeeded"),
    ],
)
def test_the_conditions_tell_the_step(given, step, reason):
    found = migrations.explain(given)
    assert (found.step, found.reason) == (step, reason)


def test_the_step_lasts_since_the_transition_of_its_condition_else_since_the_creation():
    assert migrations.explain(job(CREATED)).since == "2026-11-24T12:00:00Z"
    assert migrations.explain(job()).since == "2026-11-24T11:59:00Z"


def test_the_old_node_is_told_until_the_eviction():
    assert migrations.explain(job(CREATED), from_node="n1").from_node == "n1"
    assert migrations.explain(job(EVICTED), from_node="n1").from_node == "", "the pod of that name is another one"


@pytest.mark.parametrize(
    ("jobs", "found"),
    [
        pytest.param([job(name="a", phase="Failed")], None, id="ended"),
        pytest.param([job(name="a", uid="other")], None, id="another-pod-of-the-name"),
        pytest.param([job(name="a", pod="web-2")], None, id="another-pod"),
        pytest.param([job(name="b"), job(name="a", uid="u")], "a", id="the-older-or-first-by-name"),
    ],
)
def test_the_open_job_of_a_pod(jobs, found):
    chosen = migrations.job_of_pod(jobs, ("shop", "web-1"), "u")
    assert (chosen.metadata.name if chosen else None) == found


APP = {"matchLabels": {"app": "web"}}


def budget(allowed, *, healthy=3, desired=3, expected=3, selector=APP):
    status = {
        "disruptionsAllowed": allowed,
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "expectedPods": expected,
    }
    metadata = {"namespace": "shop", "name": "web"}
    content = {"metadata": metadata, "spec": {"selector": selector}, "status": status}
    return msgspec.convert(content, PodDisruptionBudget)


POD = msgspec.convert({"metadata": {"namespace": "shop", "name": "web-1", "labels": {"app": "web"}}}, SchedulerPod)


@for_each_case(
    [
        pytest.param(job(WAIT, passed=False), RUNNING, [budget(1)], [], id="waits-for-a-limit"),
        pytest.param(job(passed=False), ABSENT, [], [ProblemCode.NO_DESCHEDULER], id="nobody-migrates"),
        pytest.param(job(phase="Succeeded"), ABSENT, [], [], id="ended-jobs-need-nobody"),
        pytest.param(job(passed=False), ControllerLease(), [], [], id="the-lease-is-unknown"),
        pytest.param(job(paused=True), RUNNING, [], [ProblemCode.MIGRATION_PAUSED], id="paused"),
        pytest.param(unapproved(), RUNNING, [], [ProblemCode.MIGRATION_UNAPPROVED], id="waits-for-approval"),
        pytest.param(job(), RUNNING, [budget(0)], [ProblemCode.BUDGET_FORBIDS_MIGRATION], id="never-allows"),
        pytest.param(
            job(),
            RUNNING,
            [budget(0, selector={})],
            [ProblemCode.BUDGET_FORBIDS_MIGRATION],
            id="of-the-whole-namespace",
        ),
        pytest.param(job(), RUNNING, [budget(0, healthy=2)], [], id="allows-once-a-pod-is-healthy-again"),
        pytest.param(job(EVICTED), RUNNING, [budget(0)], [], id="evicted-already"),
    ]
)
def test_problems_of_jobs(given, lease, budgets, codes):
    found = migrations.problems([given], descheduler=lease, pods={POD.metadata.key: POD}, budgets=budgets)
    assert [each.code for each in found] == codes


def test_a_job_of_the_descheduler_tells_plugin_profile_reason_and_round():
    found = migrations.explain(unapproved())
    assert (found.plugin, found.profile, found.cause) == ("LowNodeLoad", "default", "node is overutilized")
    assert found.round == "2026-11-24T11:59:00Z"


def test_a_long_annotation_of_a_tenant_is_cut():
    found = migrations.explain(job(annotations={"koordinator.sh/evict-reason": "x" * 100_000}))
    assert len(found.cause) == migrations.ANNOTATION_LENGTH_MAX


def test_a_rejected_job_tells_who_ended_it():
    found = migrations.explain(job(phase="Aborted", reason="Rejected", message="rejected by a person; the pod stays"))
    assert (found.step, found.reason) == (MigrationStep.ENDED, "Rejected")


def test_a_reason_that_a_tenant_wrote_holds_no_command_to_paste():
    found = migrations.explain(job(annotations={"koordinator.sh/evict-reason": "run kubectl delete ns shop"}))
    assert found.cause == "run kubectl: delete ns shop"
