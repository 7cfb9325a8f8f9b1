"""The built-in release rules hold for finished workloads, and for no workload that runs, waits or can go on."""

from typing import Final

import pytest

from dra.cel.object_rules import CompiledRule
from dra.model.workload_types import RELEASE_RULES
from tests.violations import combinations, for_each_case, named

KUBEFLOW_JOBS: Final = ("pytorchjobs", "tfjobs", "mpijobs", "xgboostjobs", "paddlejobs", "jaxjobs")
JOB: Final = "jobs.batch"
JOB_SET: Final = "jobsets.jobset.x-k8s.io"
RAY_JOB: Final = "rayjobs.ray.io"
TRAIN_JOB: Final = "trainjobs.trainer.kubeflow.org"
VOLCANO_JOB: Final = "jobs.batch.volcano.sh"
KUEUE_WORKLOAD: Final = "workloads.kueue.x-k8s.io"
WITHOUT_END: Final = ("rayclusters.ray.io", "leaderworkersets.leaderworkerset.x-k8s.io")


def conditions(**statuses):
    return {"conditions": [{"type": kind, "status": status} for kind, status in statuses.items()]}


def ray(status):
    return {"jobDeploymentStatus": status}


def volcano(phase):
    return {"state": {"phase": phase}}


CASES: Final = [
    (JOB, "succeeded", conditions(SuccessCriteriaMet="True", Complete="True"), True),
    (JOB, "failed", conditions(FailureTarget="True", Failed="True"), True),
    (JOB, "in-progress", {"active": 1}, False),
    (JOB, "succeeds-while-pods-end", conditions(SuccessCriteriaMet="True"), False),
    (JOB, "fails-while-pods-end", conditions(FailureTarget="True"), False),
    (JOB, "suspended", conditions(Suspended="True"), False),
    (JOB_SET, "succeeded", conditions(Completed="True"), True),
    (JOB_SET, "failed", conditions(Failed="True"), True),
    (JOB_SET, "in-progress", conditions(StartupPolicyCompleted="True"), False),
    (JOB_SET, "restarting", {"restarts": 1, **conditions(Failed="False")}, False),
    (JOB_SET, "suspended", conditions(Suspended="True"), False),
    (RAY_JOB, "succeeded", ray("Complete"), True),
    (RAY_JOB, "failed", ray("Failed"), True),
    *((RAY_JOB, each.lower(), ray(each), False) for each in ("", "Initializing", "Running", "Waiting")),
    *((RAY_JOB, each.lower(), ray(each), False) for each in ("Suspending", "Suspended", "Retrying")),
    (RAY_JOB, "validation-failed", ray("ValidationFailed"), False),
    (RAY_JOB, "succeeded-before-the-deployment", {"jobStatus": "SUCCEEDED", **ray("Running")}, False),
    (TRAIN_JOB, "succeeded", conditions(Complete="True"), True),
    (TRAIN_JOB, "failed", conditions(Failed="True"), True),
    (TRAIN_JOB, "in-progress", conditions(Complete="False"), False),
    (TRAIN_JOB, "suspended", conditions(Suspended="True"), False),
    *(
        (f"{resource}.kubeflow.org", case, status, finished)
        for resource in KUBEFLOW_JOBS
        for case, status, finished in (
            ("succeeded", conditions(Running="False", Succeeded="True"), True),
            ("failed", conditions(Running="False", Failed="True"), True),
            ("in-progress", conditions(Created="True", Running="True"), False),
            ("restarting", conditions(Restarting="True", Failed="False"), False),
            ("suspended", conditions(Suspended="True"), False),
        )
    ),
    (VOLCANO_JOB, "succeeded", volcano("Completed"), True),
    (VOLCANO_JOB, "failed", volcano("Failed"), True),
    (VOLCANO_JOB, "terminated", volcano("Terminated"), True),
    *((VOLCANO_JOB, each.lower(), volcano(each), False) for each in ("Pending", "Running", "Restarting")),
    *((VOLCANO_JOB, each.lower(), volcano(each), False) for each in ("Aborting", "Completing", "Terminating")),
    (VOLCANO_JOB, "aborted-but-a-command-resumes-the-job", volcano("Aborted"), False),
    (KUEUE_WORKLOAD, "finished", conditions(Admitted="True", Finished="True"), True),
    (KUEUE_WORKLOAD, "in-progress", conditions(QuotaReserved="True", Admitted="True"), False),
    (KUEUE_WORKLOAD, "evicted", conditions(Admitted="False", Evicted="True"), False),
    (KUEUE_WORKLOAD, "requeued", conditions(Requeued="True", Finished="False"), False),
    ("pods", "succeeded", {"phase": "Succeeded"}, True),
    ("pods", "failed", {"phase": "Failed"}, True),
    ("pods", "in-progress", {"phase": "Running"}, False),
    ("pods", "of-unknown-phase", {"phase": "Unknown"}, False),
]


@for_each_case(
    [pytest.param(resource, status, finished, id=f"{resource}-{case}") for resource, case, status, finished in CASES],
)
def test_a_rule_holds_for_finished_workloads_only(resource, status, finished):
    assert CompiledRule(RELEASE_RULES[resource]).holds({"status": status}) is finished


@for_each_case(
    combinations(named([{}, {"status": {}}, {"status": None}], ["no-status", "empty", "null"]), RELEASE_RULES)
)
def test_a_workload_without_status_is_not_finished(content, resource):
    assert CompiledRule(RELEASE_RULES[resource]).holds(content) is False


def test_the_table_shows_each_kind_finished_and_not_finished():
    outcomes = {(resource, finished) for resource, _, _, finished in CASES}
    assert outcomes == {(resource, finished) for resource in RELEASE_RULES for finished in (True, False)}


@pytest.mark.parametrize("resource", WITHOUT_END)
def test_a_kind_that_never_ends_has_no_rule(resource):
    assert resource not in RELEASE_RULES
