from datetime import timedelta

import pytest

from dra.model.meta import ObjectMeta
from localplane.controller_manager.api_types import Condition, ContainerStatus, Pod, PodStatus
from localplane.controller_manager.jobs.pod_failures import BackoffRecord, FailurePolicyResult, match_pod_failure_policy
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
    record, delays = BackoffRecord(), []
    for number in range(8):
        record = record.with_finished([], [ended(number)])
        delays.append(record.remaining_time(NOON + timedelta(seconds=number)))
    assert delays == [10, 20, 40, 80, 160, 320, 600, 600]
    assert record.remaining_time(NOON + timedelta(seconds=607)) == 0.0


def test_a_success_forgives_what_was_before_it():
    record = BackoffRecord().with_finished([], [ended(0), ended(1)])
    record = record.with_finished([ended(5, code=0)], [ended(3), ended(7)])
    assert record.count == 1


EXIT = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}
OTHER = {"action": "Ignore", "onExitCodes": {"operator": "NotIn", "values": [1, 42]}}
DISRUPTION = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}


@pytest.mark.parametrize(
    ("rules", "pod", "verdict"),
    [
        pytest.param([], ended(), FailurePolicyResult(), id="no-rule"),
        pytest.param(
            [EXIT],
            ended(code=42),
            FailurePolicyResult(
                job_failure_message="Container main for pod ml/p failed with exit code 42"
                " matching FailJob rule at index 0"
            ),
            id="fails-the-job",
        ),
        pytest.param([EXIT], ended(code=1), FailurePolicyResult(), id="another-code"),
        pytest.param([EXIT, OTHER], ended(code=3), FailurePolicyResult(counts=False), id="not-in"),
        pytest.param(
            [DISRUPTION],
            ended(conditions=[Condition(type="DisruptionTarget", status="True")]),
            FailurePolicyResult(counts=False),
            id="disruption",
        ),
        pytest.param(
            [{**EXIT, "onExitCodes": {"containerName": "other", "operator": "In", "values": [42]}}],
            ended(code=42),
            FailurePolicyResult(),
            id="another-container",
        ),
    ],
)
def test_what_the_policy_says(rules, pod, verdict):
    assert match_pod_failure_policy({"rules": rules}, pod) == verdict
