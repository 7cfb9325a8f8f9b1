"""The built-in expressions for suspended workloads hold while a controller has suspended the object, and only then."""

from dra.cel.object_rules import CompiledRule
from dra.model.workload_types import SUSPENDED_RULES
from tests.dra.model.test_release_rules import KUBEFLOW_JOBS, KUEUE_WORKLOAD, VOLCANO_JOB, conditions, volcano
from tests.violations import for_each_case

BY_SPEC = (
    "jobs.batch",
    "jobsets.jobset.x-k8s.io",
    "rayjobs.ray.io",
    "rayclusters.ray.io",
    "trainjobs.trainer.kubeflow.org",
)
CASES = [
    *((resource, {"spec": {"suspend": suspend}}, suspend) for resource in BY_SPEC for suspend in (True, False)),
    *(
        (f"{resource}.kubeflow.org", {"spec": {"runPolicy": {"suspend": suspend}}}, suspend)
        for resource in KUBEFLOW_JOBS
        for suspend in (True, False)
    ),
    (VOLCANO_JOB, {"status": volcano("Aborted")}, True),
    (VOLCANO_JOB, {"status": volcano("Aborting")}, False),
    (VOLCANO_JOB, {"status": volcano("Running")}, False),
    (KUEUE_WORKLOAD, {"status": conditions(Evicted="True", QuotaReserved="False")}, True),
    (KUEUE_WORKLOAD, {"status": conditions(Evicted="False", Admitted="True")}, False),
]


@for_each_case(CASES)
def test_an_expression_holds_for_suspended_workloads_only(resource, content, suspended):
    assert CompiledRule(SUSPENDED_RULES[resource]).holds(content) is suspended


@for_each_case(SUSPENDED_RULES)
def test_a_workload_that_says_nothing_is_not_suspended(resource):
    assert CompiledRule(SUSPENDED_RULES[resource]).holds({"spec": {}, "status": {}}) is False


def test_the_table_shows_each_kind_suspended_and_not():
    assert {(resource, suspended) for resource, _, suspended in CASES} == {
        (resource, suspended) for resource in SUSPENDED_RULES for suspended in (True, False)
    }
