from datetime import timedelta

import pytest

from dra.local.workloads.jobs.failures import Failures, Verdict, judge
from dra.local.workloads.manifests import Condition, ContainerStatus, Pod, PodStatus
from dra.model.meta import ObjectMeta
from tests.dra.kube.virtual import NOON


def ended(after=0.0, *, code=1, conditions=()):
    at = (NOON + timedelta(seconds=after)).strftime("%Y-%m-%dT%H:%M:%SZ")
    state = {"terminated": {"exitCode": code, "finishedAt": at}}
    status = PodStatus(
        phase="Failed" if code else "Succeeded",
        container_statuses=[ContainerStatus(name="main", state=state)],
        conditions=list(conditions),
    )
    return Pod(metadata=ObjectMeta(name="p", namespace="ml"), status=status)


def test_the_delay_doubles_with_each_failure_and_counts_from_the_last():
    record, delays = Failures(), []
    for number in range(8):
        record = record.after([], [ended(number)])
        delays.append(record.delay(NOON + timedelta(seconds=number)))
    assert delays == [10, 20, 40, 80, 160, 320, 600, 600]
    assert record.delay(NOON + timedelta(seconds=607)) == 0.0


def test_a_success_forgives_what_was_before_it():
    record = Failures().after([], [ended(0), ended(1)])
    record = record.after([ended(5, code=0)], [ended(3), ended(7)])
    assert record.count == 1


EXIT = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}
OTHER = {"action": "Ignore", "onExitCodes": {"operator": "NotIn", "values": [1, 42]}}
DISRUPTION = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}


@pytest.mark.parametrize(
    ("rules", "pod", "verdict"),
    [
        pytest.param([], ended(), Verdict(), id="no-rule"),
        pytest.param(
            [EXIT],
            ended(code=42),
            Verdict(fails_job="Container main for pod ml/p failed with exit code 42 matching FailJob rule at index 0"),
            id="fails-the-job",
        ),
        pytest.param([EXIT], ended(code=1), Verdict(), id="another-code"),
        pytest.param([EXIT, OTHER], ended(code=3), Verdict(counts=False), id="not-in"),
        pytest.param(
            [DISRUPTION],
            ended(conditions=[Condition(type="DisruptionTarget", status="True")]),
            Verdict(counts=False),
            id="disruption",
        ),
        pytest.param(
            [{**EXIT, "onExitCodes": {"containerName": "other", "operator": "In", "values": [42]}}],
            ended(code=42),
            Verdict(),
            id="another-container",
        ),
    ],
)
def test_what_the_policy_says(rules, pod, verdict):
    assert judge({"rules": rules}, pod) == verdict
