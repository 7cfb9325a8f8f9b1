"""The order of arbitration, and costs as Kubernetes reads them."""

import pytest

from dra.engine.migration.order import Candidate, evict_first_key, eviction_cost, parse_cost, sort_candidates
from tests.dra.engine.migration.examples import job, pod
from tests.violations import for_each_case

COST = "scheduling.koordinator.sh/eviction-cost"
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"


@for_each_case(
    [
        pytest.param("5", 5, id="number"),
        pytest.param("-5", -5, id="negative"),
        pytest.param("0", 0, id="zero"),
        pytest.param("+5", 0, id="7-plus-sign"),
        pytest.param("05", 0, id="7-leading-zero"),
        pytest.param("-05", 0, id="negative-with-leading-zero"),
        pytest.param("", 0, id="empty"),
        pytest.param("-", 0, id="sign-alone"),
        pytest.param("five", 0, id="word"),
        pytest.param("\u0665", 0, id="other-digits"),
        pytest.param("2147483647", 2147483647, id="7-greatest"),
        pytest.param("2147483648", 0, id="too-great"),
        pytest.param("-2147483648", -2147483648, id="smallest"),
        pytest.param("-2147483649", 0, id="too-small"),
        pytest.param("9" * 30, 0, id="far-too-great"),
        pytest.param(None, 0, id="none"),
    ],
)
def test_costs(text, wanted):
    assert parse_cost(text) == wanted


def test_the_annotation_of_the_eviction_cost_takes_precedence_over_the_label():
    assert eviction_cost(pod("a", labels={COST: "3"})) == 3
    assert eviction_cost(pod("a", labels={COST: "3"}, metadata={"annotations": {COST: "4"}})) == 4


def ranked(first, second):
    return evict_first_key(first) < evict_first_key(second)


@for_each_case(
    [
        pytest.param({"spec": {"priority": 3500}}, {"spec": {"priority": 5500}}, id="free-before-batch"),
        pytest.param({"spec": {"priority": 5500}}, {"spec": {"priority": 7500}}, id="batch-before-mid"),
        pytest.param({"spec": {"priority": 7500}}, {"spec": {"priority": 9500}}, id="mid-before-prod"),
        pytest.param({"spec": {"priority": 9500}}, {"spec": {"priority": 0}}, id="prod-before-none"),
        pytest.param(
            {"labels": {"koordinator.sh/priority-class": "koord-batch"}},
            {"spec": {"priority": 9500}},
            id="class-by-label",
        ),
        pytest.param(
            {"status": {"qosClass": "BestEffort"}, "spec": {"priority": 9}},
            {"spec": {"priority": 7500}},
            id="best-effort-is-batch-by-default",
        ),
        pytest.param(
            {"status": {"qosClass": "Burstable"}, "labels": {"koordinator.sh/qosClass": "BE"}, "spec": {"priority": 9}},
            {"status": {"qosClass": "Burstable"}},
            id="class-by-qos-label",
        ),
        pytest.param({"spec": {"priority": 1}}, {"spec": {"priority": 2}}, id="lower-priority"),
        pytest.param({"status": {"qosClass": "BestEffort"}}, {"status": {"qosClass": "Burstable"}}, id="best-effort"),
        pytest.param({"status": {"qosClass": "Burstable"}}, {"status": {"qosClass": "Guaranteed"}}, id="burstable"),
        pytest.param(
            {"labels": {"koordinator.sh/qosClass": "LS"}}, {"labels": {"koordinator.sh/qosClass": "LSR"}}, id="ls-lsr"
        ),
        pytest.param({"labels": {"koordinator.sh/qosClass": "LSE"}}, {}, id="lse-before-none"),
        pytest.param({"metadata": {"annotations": {DELETION_COST: "-1"}}}, {}, id="deletion-cost"),
        pytest.param({"metadata": {"annotations": {COST: "-1"}}}, {}, id="eviction-cost"),
        pytest.param({"created": 10}, {"created": 0}, id="newer-pod"),
    ],
)
def test_pods_in_evict_first_order(first, second):
    assert ranked(pod("b", **first), pod("a", **second))


def names(candidates, **migrating):
    found = sort_candidates(
        candidates, migrating={("ns", f"uid-of-{name}"): count for name, count in migrating.items()}
    )
    return [each.job.metadata.name for each in found]


def test_the_pods_of_one_batch_job_pass_one_after_the_other():
    cheap = pod("a", owner="batch", kind="Job", metadata={"annotations": {COST: "-9"}})
    pods = [cheap, pod("b", metadata={"annotations": {COST: "-5"}}), pod("c", owner="batch", kind="Job")]
    assert names([Candidate(job=job(each.metadata.name), pod=each) for each in pods]) == ["a", "c", "b"]


def test_a_batch_job_with_more_migrating_pods_goes_first():
    pods = [pod("a", metadata={"annotations": {COST: "-9"}}), pod("b", owner="batch", kind="Job")]
    candidates = [Candidate(job=job(each.metadata.name), pod=each) for each in pods]
    assert names(candidates) == ["a", "b"]
    assert names(candidates, batch=1) == ["b", "a"]


def test_a_job_that_was_created_later_goes_first_among_jobs_for_equal_pods():
    alike = pod("a")
    candidates = [Candidate(job=job(f"j{created}", of="a", created=created), pod=alike) for created in (0, 5, 3)]
    assert names(candidates) == ["j5", "j3", "j0"]


def test_a_job_that_was_created_later_goes_first_among_jobs_for_pods_of_equal_rank():
    candidates = [Candidate(job=job(name, created=created), pod=pod(name)) for name, created in (("a", 0), ("b", 5))]
    assert names(candidates) == ["b", "a"]
    alike = [Candidate(job=job(name), pod=pod(name)) for name in "ba"]
    assert names(alike) == ["a", "b"]
