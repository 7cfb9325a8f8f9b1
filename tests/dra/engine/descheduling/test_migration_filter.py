"""The pods that arbitration would refuse, or would make wait: these are no candidates, and get no job."""

from collections import Counter

import pytest

from dra.engine.descheduling.migration_filter import MigrationControllerFilter
from dra.engine.descheduling.round import Profile
from dra.engine.migration.pod_index import workload_of
from tests.dra.engine.descheduling.rounds import ARGS, Naming, evicted, play, pod, refusals
from tests.dra.engine.migration.examples import job, limits
from tests.violations import for_each_case

IGNORES = {"labels": {"scheduling.koordinator.sh/reservation-ignored": "true"}}
EVICT = {"annotations": {"descheduler.alpha.kubernetes.io/evict": "true"}}
ALL = {"skipCheckExpectedReplicas": False}


def round_of(pods, given, **more):
    named = Naming(*(each.metadata.name for each in pods))
    profile = Profile(name="p", deschedule=((named, ARGS),), filters=((MigrationControllerFilter(), given),))
    replicas = Counter(filter(None, map(workload_of, pods)))
    return play(pods, profile, slots={"n2": 99}, replicas=replicas, **more)[0]


def pods(count, **more):
    return [pod(f"p{index}", **more) for index in range(count)]


@for_each_case(
    [
        pytest.param(pods(3), {}, 3, id="no-limit"),
        pytest.param(pods(3), {"maxMigratingPerNode": 2}, 2, id="node"),
        pytest.param(pods(3), {"maxMigratingPerNode": 0}, 3, id="here-0-is-no-limit"),
        pytest.param(pods(3), {"maxMigratingPerNamespace": 1}, 1, id="namespace"),
        pytest.param(pods(3), {"maxMigratingGlobally": 2}, 2, id="all"),
        pytest.param(pods(3), {"maxMigratingPerWorkload": None}, 1, id="three-replicas-of-one-workload-one-at-a-time"),
        pytest.param(pods(9), {"maxMigratingPerWorkload": None}, 2, id="nine-replicas-two-at-a-time"),
        pytest.param(pods(3), {"maxUnavailablePerWorkload": 1}, 1, id="unavailable"),
        pytest.param([*pods(2), pod("sick", ready=False)], {"maxUnavailablePerWorkload": 1}, 1, id="the-sick-one-only"),
        pytest.param(pods(1), {"skipCheckExpectedReplicas": False}, 0, id="the-only-replica"),
        pytest.param(
            pods(1, metadata=EVICT), {"skipCheckExpectedReplicas": False}, 1, id="the-only-replica-by-annotation"
        ),
        pytest.param(
            pods(3, metadata=EVICT), {"maxMigratingPerNode": 2}, 2, id="the-annotation-lifts-no-migration-limit"
        ),
        pytest.param(pods(2, spec={"schedulerName": "volcano"}), {}, 0, id="scheduler-without-reservations"),
        pytest.param(
            pods(2, spec={"schedulerName": "volcano"}), {"defaultJobMode": "EvictDirectly"}, 2, id="evicted-directly"
        ),
        pytest.param(pods(2, metadata=IGNORES), {}, 0, id="ignoring"),
        pytest.param(
            pods(2, metadata=IGNORES),
            {"defaultJobMode": "EvictDirectly"},
            2,
            id="ignoring-and-evicted-directly",
        ),
        pytest.param(pods(2, owner=""), {}, 0, id="bare"),
        pytest.param(pods(2, owner=""), {"evictAllBarePods": True}, 2, id="bare-allowed"),
        pytest.param(pods(2, owner=""), {"skipEvictionGates": ["BarePods"]}, 2, id="gate-skipped"),
        pytest.param(pods(2, spec={"priority": 7}), {"priorityThreshold": {"name": "seven"}}, 0, id="priority-class"),
    ],
)
def test_no_more_become_candidates_than_arbitration_would_let_begin(given, args, gone):
    result = round_of(given, limits(**args), priority_classes={"seven": 7})
    assert len(evicted(result)) == gone


@pytest.mark.parametrize(
    ("args", "gone"),
    [
        pytest.param({"maxMigratingPerNode": 2}, 1, id="node"),
        pytest.param({"maxMigratingPerNamespace": 2}, 1, id="namespace"),
        pytest.param({"maxMigratingGlobally": 1}, 0, id="all"),
        pytest.param({"maxMigratingPerWorkload": 2}, 1, id="workload"),
    ],
)
def test_jobs_in_flight_count(args, gone):
    result = round_of(pods(4), limits(**args), jobs=(job("p0"),))
    assert len(evicted(result)) == gone


def test_a_job_whose_pod_is_gone_counts_for_its_workload_still():
    waits = job("gone", evicted=-30, phase="Running")
    result = round_of(pods(4), limits(maxMigratingPerWorkload=1), jobs=(waits,))
    assert evicted(result) == []


def test_the_limit_is_named():
    result = round_of(pods(2), limits(maxMigratingPerNode=1))
    assert [each.verdict.message for each in result.decisions][1] == (
        "node n1: 1 pod is migrating away, the limit is 1 (maxMigratingPerNode)"
    )


@pytest.mark.parametrize(
    ("args", "kind"),
    [
        pytest.param({"maxMigratingGlobally": 1}, "WorkloadLimit", id="all"),
        pytest.param({"maxMigratingPerNamespace": 1}, "WorkloadLimit", id="namespace"),
        pytest.param({"maxMigratingPerWorkload": 1}, "WorkloadLimit", id="workload"),
        pytest.param({"maxMigratingPerNode": 1}, "Protected", id="a-node-keeps-its-own-pods-alone"),
        pytest.param({"maxUnavailablePerWorkload": 1}, "Protected", id="of-the-unavailable-a-sick-pod-may-still-go"),
    ],
)
def test_limits_that_all_replicas_meet_are_told_apart(args, kind):
    assert set(refusals(round_of(pods(3), limits(**args))).values()) == {kind}
