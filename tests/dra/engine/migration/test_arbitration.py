"""Arbitration: the vectors 4 to 8 and 14 of issue 19, and what holds whatever the jobs."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.engine.instants import NEVER
from dra.engine.migration.arbitration import (
    SCALE_CHECK_SECONDS,
    ArbitrationVerdict,
    Outcome,
    arbitrate,
    arbitrate_again_at,
    in_order_of_writes,
    verdict_write,
    workloads_to_read,
)
from dra.engine.migration.plan import PatchJob, PatchJobStatus
from dra.engine.migration.reasons import MigrationReason
from tests.dra.engine.migration.examples import NOW, at, budget, job, limits, pod, view
from tests.violations import for_each_case

COST = "scheduling.koordinator.sh/eviction-cost"
LABELS_LS = {"koordinator.sh/qosClass": "LS"}
PROD = {"priority": 9500}


def verdicts(found, args=None, *, now=NOW):
    """Return the verdicts as job → reason, None for a job that passes."""
    return {each.job: each.reason for each in arbitrate(found, args=args or limits(), now=now)}


def passing(found, args=None, *, now=NOW):
    return [each.job for each in arbitrate(found, args=args or limits(), now=now) if each.outcome is Outcome.PASSED]


def vector_4(*, running=False):
    """Return jobs A(1) B(2) C(3, cost -5) prod Burstable LS and D(4) batch on n1, E(5) LSR on n2."""
    burstable = {"qosClass": "Burstable"}
    pods = [
        pod("A", owner="a", labels=LABELS_LS, spec=PROD, status=burstable),
        pod("B", owner="b", labels=LABELS_LS, spec=PROD, status=burstable),
        pod("C", owner="c", labels=LABELS_LS, spec=PROD, status=burstable, metadata={"annotations": {COST: "-5"}}),
        pod("D", owner="d", spec={"priority": 5500}),
        pod("E", owner="e", node="n2", labels={"koordinator.sh/qosClass": "LSR"}, spec=PROD, status=burstable),
    ]
    jobs = [job(name, created=created) for created, name in enumerate("ABCDE", 1)]
    if running:
        pods.append(pod("R", owner="r"))
        jobs.append(job("R", passed=True, phase="Running"))
    return view(jobs, pods)


@pytest.mark.parametrize(
    ("found", "args", "wanted"),
    [
        pytest.param(vector_4(), {"maxMigratingPerNode": 2}, ["D", "C", "E"], id="4-two-for-each-node"),
        pytest.param(vector_4(), {"maxMigratingGlobally": 2}, ["D", "C"], id="4-two-globally"),
        pytest.param(vector_4(running=True), {"maxMigratingPerNode": 2}, ["D", "E"], id="4-one-is-running"),
    ],
)
def test_jobs_pass_in_evict_first_order_up_to_the_limits(found, args, wanted):
    assert passing(found, limits(**args)) == wanted


def ten(*, not_ready=0, migrating=0):
    """Return a workload of ten pods, with a job for the last one."""
    pods = [pod(f"p{n}", ready=n >= not_ready) for n in range(10)]
    jobs = [job("mine", of="p9")]
    jobs += [job(f"other{n}", of=f"p{5 + n}", passed=True, phase="Running") for n in range(migrating)]
    return view(jobs, pods, replicas={"web": 10})


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        pytest.param(ten(not_ready=1), None, id="5-one-not-ready"),
        pytest.param(
            ten(not_ready=1, migrating=1), MigrationReason.MAX_UNAVAILABLE_PER_WORKLOAD, id="5-and-one-migrating"
        ),
        pytest.param(ten(migrating=1), None, id="one-migrating"),
        pytest.param(ten(not_ready=2), MigrationReason.MAX_UNAVAILABLE_PER_WORKLOAD, id="two-not-ready"),
    ],
)
def test_unavailable_pods_of_the_workload_count(found, reason):
    assert verdicts(found, limits(maxUnavailablePerWorkload=2)) == {"mine": reason}


@pytest.mark.parametrize(
    ("replicas", "args", "created_by", "mode", "refused"),
    [
        pytest.param(1, {}, "koord-descheduler", "", True, id="6-one-replica"),
        pytest.param(100, {"maxMigratingPerWorkload": 100}, "koord-descheduler", "", True, id="6-as-many-as-the-limit"),
        pytest.param(
            100,
            {"maxMigratingPerWorkload": 10, "maxUnavailablePerWorkload": 10},
            "koord-descheduler",
            "",
            False,
            id="6-more-than-the-limit",
        ),
        pytest.param(1, {}, "", "", False, id="6-a-persons-job"),
        pytest.param(1, {}, "", "EvictDirectly", True, id="a-person-evicts-directly"),
        pytest.param(1, {"skipCheckExpectedReplicas": True}, "koord-descheduler", "", False, id="check-is-off"),
    ],
)
def test_workloads_all_of_whose_pods_could_be_away(replicas, args, created_by, mode, refused):
    found = view([job("a", by=created_by, mode=mode)], [pod("a")], replicas={"web": replicas})
    wanted = MigrationReason.FORBIDDEN_MIGRATE_POD if refused else None
    assert verdicts(found, limits(**({"skipCheckExpectedReplicas": False} | args))) == {"a": wanted}


@pytest.mark.parametrize(
    ("cost", "refused"),
    [
        pytest.param("2147483647", True, id="7-greatest"),
        pytest.param("+5", False, id="7-plus"),
        pytest.param("05", False, id="7-zero"),
    ],
)
def test_the_greatest_eviction_cost_forbids_the_migration(cost, refused):
    for metadata in ({"annotations": {COST: cost}}, {"labels": {COST: cost}}):
        found = view([job("a")], [pod("a", metadata=metadata)])
        assert verdicts(found) == {"a": MigrationReason.FORBIDDEN_MIGRATE_POD if refused else None}


def web(name, **more):
    return pod(name, labels={"app": "web"}, **more)


@for_each_case(
    [
        pytest.param([budget("b", allowed=0)], web("a"), MigrationReason.POD_DISRUPTION_BUDGET, id="8-allows-0"),
        pytest.param([budget("b", allowed=1)], web("a"), None, id="8-allows-1"),
        pytest.param([budget("b", allowed=0, app="other")], web("a"), None, id="of-another-application"),
        pytest.param(
            [budget("b", allowed=0, selector={})], web("a"), MigrationReason.POD_DISRUPTION_BUDGET, id="of-all"
        ),
        pytest.param(
            [budget("b", allowed=9, generation=2)],
            web("a"),
            MigrationReason.POD_DISRUPTION_BUDGET,
            id="status-is-stale",
        ),
        pytest.param(
            [budget("b", allowed=1), budget("c", allowed=1)],
            web("a"),
            MigrationReason.FORBIDDEN_MIGRATE_POD,
            id="two-budgets",
        ),
        pytest.param([budget("b", allowed=0)], web("a", status={"phase": "Pending"}, node=""), None, id="pending"),
        pytest.param([budget("b", allowed=0, policy="AlwaysAllow")], web("a", ready=False), None, id="always-allow"),
        pytest.param([budget("b", allowed=0)], web("a", ready=False), None, id="not-ready-and-the-others-are-healthy"),
        pytest.param(
            [budget("b", allowed=0, healthy=1)],
            web("a", ready=False),
            MigrationReason.POD_DISRUPTION_BUDGET,
            id="not-ready-and-others-neither",
        ),
    ]
)
def test_budgets_are_waited_for_before_anything_is_reserved(budgets, found, reason):
    others = [web(each) for each in ("x", "y", "z")]
    given = view([job("a")], [found, *others], disruption_budgets=tuple(budgets))
    assert verdicts(given) == {"a": reason}


@pytest.mark.parametrize(
    "evicted",
    [
        pytest.param([web("a", metadata={"deletionTimestamp": at(0)})], id="terminating"),
        pytest.param([], id="gone"),
        pytest.param([web("d", ready=False)], id="replaced-by-a-pod-that-is-not-ready"),
    ],
)
def test_a_pod_evicted_a_moment_ago_uses_its_budget_before_the_status_says_so(evicted):
    jobs = [job("a", evicted=-1, phase="Running", passed=True), job("b")]
    pods = [*evicted, web("b"), web("c")]
    older = budget("d", allowed=1, healthy=3, desired=2)
    given = view(jobs, pods, disruption_budgets=(older,))
    assert verdicts(given) == {"b": MigrationReason.POD_DISRUPTION_BUDGET}
    given = view(jobs, [*pods, web("e")], disruption_budgets=(older,))
    assert verdicts(given) == {"b": None}, "the replacement is ready"


def test_jobs_that_have_passed_use_the_budget():
    pods = [web("a"), web("b"), web("c")]
    jobs = [job(each) for each in "abc"]
    found = view(jobs, pods, disruption_budgets=(budget("b", allowed=2, desired=1),))
    assert sorted(verdicts(found).values(), key=str) == [None, None, MigrationReason.POD_DISRUPTION_BUDGET]
    started = view(
        [job("a", passed=True, phase="Running"), *jobs[1:]], pods, disruption_budgets=(budget("b", allowed=1),)
    )
    assert set(verdicts(started).values()) == {MigrationReason.POD_DISRUPTION_BUDGET}


def test_the_policy_delete_needs_no_budget():
    found = view(
        [job("a", labels={"koordinator.sh/evict-policy": "Delete"})],
        [web("a")],
        disruption_budgets=(budget("b", allowed=0),),
    )
    assert verdicts(found) == {"a": None}


def test_14_the_older_of_two_jobs_for_one_pod_goes_on():
    jobs = [job("second", of="a", created=5), job("first", of="a", created=1)]
    wanted = {"first": None, "second": MigrationReason.FORBIDDEN_MIGRATE_POD}
    assert verdicts(view(jobs, [pod("a")])) == wanted
    running = [job("later", of="a", created=9, passed=True, phase="Running"), job("early", of="a", created=1)]
    assert verdicts(view(running, [pod("a")])) == {"early": MigrationReason.FORBIDDEN_MIGRATE_POD}


@for_each_case(
    [
        pytest.param(pod("a", owner="agent", kind="DaemonSet"), {}, "", True, id="daemonset"),
        pytest.param(pod("a", owner=""), {}, "", False, id="bare-pod-with-a-reservation"),  # decide() looks at owners
        pytest.param(pod("a", owner=""), {}, "EvictDirectly", True, id="bare-pod"),
        pytest.param(pod("a", owner=""), {"evictAllBarePods": True}, "EvictDirectly", False, id="bare-pods-allowed"),
        pytest.param(
            pod("a", metadata={"annotations": {"kubernetes.io/config.mirror": "x"}}), {}, "", True, id="static-pod"
        ),
        pytest.param(pod("a", spec={"priority": 2_000_000_000}), {}, "", True, id="system-critical"),
        pytest.param(pod("a", spec={"priority": 5}), {"priorityThreshold": 5}, "", True, id="priority-threshold"),
        pytest.param(pod("a", spec={"volumes": [{"emptyDir": {}}]}), {}, "", True, id="local-storage"),
        pytest.param(
            pod("a", spec={"volumes": [{"emptyDir": {}}]}),
            {"evictLocalStoragePods": True},
            "",
            False,
            id="local-allowed",
        ),
        pytest.param(
            pod("a", spec={"volumes": [{"persistentVolumeClaim": {"claimName": "x"}}]}),
            {"ignorePvcPods": True},
            "",
            True,
            id="volume-claims",
        ),
        pytest.param(pod("a"), {"labelSelector": {"x": "y"}}, "", True, id="label-selector"),
        pytest.param(pod("a"), {"namespaces": {"exclude": ["ns"]}}, "", True, id="namespace-excluded"),
        pytest.param(pod("a"), {"namespaces": {"include": ["other"]}}, "", True, id="namespace-not-included"),
        pytest.param(pod("a", metadata={"deletionTimestamp": at(0)}), {}, "", True, id="terminating"),
        pytest.param(
            pod(
                "a",
                spec={"volumes": [{"emptyDir": {}}]},
                metadata={"annotations": {"descheduler.alpha.kubernetes.io/evict": "true"}},
            ),
            {},
            "",
            False,
            id="annotation-overrules",
        ),
    ],
)
def test_pods_that_must_not_be_evicted(found, args, mode, refused):
    wanted = MigrationReason.FORBIDDEN_MIGRATE_POD if refused else None
    assert verdicts(view([job("a", mode=mode)], [found]), limits(**args)) == {"a": wanted}


@pytest.mark.parametrize(
    ("annotations", "reason"),
    [
        pytest.param({}, MigrationReason.FORBIDDEN_MIGRATE_POD, id="one-replica"),
        pytest.param({"descheduler.alpha.kubernetes.io/evict": "true"}, None, id="annotation-overrules"),
    ],
)
def test_the_annotation_of_a_pod_overrules_the_expected_replicas(annotations, reason):
    found = view([job("a", mode="EvictDirectly")], [pod("a", metadata={"annotations": annotations})])
    assert verdicts(found, limits(skipCheckExpectedReplicas=False)) == {"a": reason}


def test_the_annotation_of_a_pod_does_not_overrule_limits():
    evict = {"annotations": {"descheduler.alpha.kubernetes.io/evict": "true"}}
    found = view([job("r", passed=True), job("a")], [pod("r"), pod("a", metadata=evict)])
    assert verdicts(found, limits(maxMigratingPerNode=1)) == {"a": MigrationReason.MAX_MIGRATING_PER_NODE}


def test_a_migration_counts_for_its_workload_until_its_end():
    """Between the eviction and the replacement, no pod of the workload shows that one is missing."""
    evicted = job("gone", evicted=0, passed=True, phase="Running")
    found = view([evicted, job("a")], [pod("a"), pod("b"), pod("c")], replicas={"web": 4})
    assert verdicts(found, limits(maxMigratingPerWorkload=1)) == {"a": MigrationReason.MAX_MIGRATING_PER_WORKLOAD}
    ended = job("gone", evicted=0, passed=True, phase="Succeeded")
    assert verdicts(view([ended, job("a")], [pod("a")]), limits(maxMigratingPerWorkload=1)) == {"a": None}


def test_a_migration_without_the_annotation_counts_once_it_runs():
    found = view([job("r", phase="Running"), job("a")], [pod("r"), pod("a")])
    assert verdicts(found, limits(maxMigratingPerNode=1)) == {"a": MigrationReason.MAX_MIGRATING_PER_NODE}


def test_pods_that_have_ended_make_no_workload_unavailable():
    """A Job keeps its pods that have succeeded, and a Deployment its pods that the kubelet evicted."""
    ended = [pod(f"e{n}", ready=False, status={"phase": phase}) for n, phase in enumerate(["Failed", "Succeeded"])]
    found = view([job("a")], [*ended, pod("a"), pod("b")])
    assert verdicts(found, limits(maxUnavailablePerWorkload=1)) == {"a": None}


def test_a_pod_that_no_node_runs_makes_nothing_unavailable():
    unplaced = [pod(each, node="", ready=False, status={"phase": "Pending"}) for each in "ab"]
    args = limits(maxUnavailablePerWorkload=1, objectLimiters={"workload": {"duration": "60s", "maxMigrating": 1}})
    assert verdicts(view([job("a"), job("b")], unplaced), args) == {"a": None, "b": None}


def test_the_rate_of_evictions_of_a_workload_is_limited():
    args = limits(objectLimiters={"workload": {"duration": "60s", "maxMigrating": 2}})
    pods = [pod("a"), pod("b")]
    gone = [job("old", of="gone1", evicted=0, phase="Succeeded"), job("new", of="gone2", evicted=30, phase="Running")]
    found = view([*gone, job("a")], pods, replicas={"web": 4})
    (verdict,) = arbitrate(found, args=args, now=NOW + 40)
    assert (verdict.reason, verdict.wake_at) == (MigrationReason.OBJECT_LIMITER, NOW + 60)
    assert verdicts(found, args, now=NOW + 61) == {"a": None}


def test_a_job_waits_until_enough_evictions_have_left_the_window():
    args = limits(objectLimiters={"workload": {"duration": "60s", "maxMigrating": 2}})
    gone = [job(f"g{at_}", of=f"gone{at_}", evicted=at_, phase="Succeeded") for at_ in (30, 0, 10)]
    (verdict,) = arbitrate(view([*gone, job("a")], [pod("a")], replicas={"web": 4}), args=args, now=NOW + 40)
    assert verdict.wake_at == NOW + 70
    started = [job("b", passed=True), job("c", passed=True)]
    pods = [pod(each) for each in "abc"]
    (verdict,) = arbitrate(view([*started, job("a")], pods, replicas={"web": 4}), args=args, now=NOW)
    assert (verdict.reason, verdict.wake_at) == (MigrationReason.OBJECT_LIMITER, NEVER)


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(job("a", paused=True), id="paused"),
        pytest.param(job("a", passed=True), id="passed"),
        pytest.param(job("a", phase="Running"), id="running"),
        pytest.param(job("a", phase="Failed"), id="failed"),
        pytest.param(job("a", of="unknown"), id="pod-is-not-known"),
    ],
)
def test_jobs_without_a_verdict(given):
    assert arbitrate(view([given], [pod("a")]), args=limits(), now=NOW) == ()


def test_the_verdict_becomes_a_write():
    found = view([job("a"), job("b", created=-1)], [pod("a"), pod("b")])
    passed, waiting = arbitrate(found, args=limits(maxMigratingGlobally=1), now=NOW)
    action = verdict_write(job("a"), passed, now=NOW)
    assert isinstance(action, PatchJob)
    assert action.body["metadata"]["annotations"] == {
        "descheduler.koordinator.sh/passed-arbitration": "true",
        "reserve.dra/migrated-workload": "uid-of-web",
    }
    action = verdict_write(job("b"), waiting, now=NOW)
    assert isinstance(action, PatchJobStatus)
    (condition,) = action.body["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == (
        *("PassedArbitration", "False"),
        "MaxMigratingGlobally",
    )
    assert condition["message"] == "cluster: 1 pod is migrating, the limit is 1 (maxMigratingGlobally)"


def verdict(name, outcome, **given):
    return ArbitrationVerdict(job=name, uid=f"job-{name}", outcome=outcome, **given)


def test_jobs_that_pass_are_written_first():
    given = [verdict("a", Outcome.WAITING), verdict("b", Outcome.PASSED), verdict("c", Outcome.REFUSED)]
    assert [one.job for one in in_order_of_writes(given)] == ["b", "a", "c"]


@pytest.mark.parametrize(
    ("verdicts", "reads_replicas", "expected"),
    [
        pytest.param([], True, NEVER, id="no-jobs"),
        pytest.param([verdict("a", Outcome.PASSED)], True, NEVER, id="nothing-waits"),
        pytest.param([verdict("a", Outcome.WAITING)], False, NEVER, id="waits-for-an-event"),
        pytest.param([verdict("a", Outcome.WAITING)], True, NOW + SCALE_CHECK_SECONDS, id="workload-may-be-scaled"),
        pytest.param(
            [verdict("a", Outcome.WAITING, wake_at=NOW + 5.0), verdict("b", Outcome.WAITING, wake_at=NOW + 9.0)],
            True,
            NOW + 5.0,
            id="limit-on-the-rate",
        ),
    ],
)
def test_waiting_jobs_are_arbitrated_again_without_an_event(verdicts, reads_replicas, expected):
    assert arbitrate_again_at(verdicts, reads_replicas=reads_replicas, now=NOW) == expected


def test_the_controllers_of_waiting_jobs_are_read():
    found = view([job("a"), job("b", passed=True)], [pod("a", owner="x"), pod("b", owner="y")])
    assert {(each.name, namespace) for each, namespace in workloads_to_read(found)} == {("x", "ns")}


@st.composite
def clusters(draw):
    count = draw(st.integers(1, 12))
    pods = [
        pod(
            f"p{n}",
            node=draw(st.sampled_from(["n1", "n2"])),
            owner=draw(st.sampled_from(["x", "y"])),
            ready=draw(st.booleans()),
            created=n,
            labels={"app": draw(st.sampled_from(["web", "db"]))},
        )
        for n in range(count)
    ]
    jobs = [
        job(f"j{n}", of=f"p{n}", created=draw(st.integers(0, 3)), passed=draw(st.integers(0, 3)) == 0)
        for n in range(count)
    ]
    args = limits(
        maxMigratingGlobally=draw(st.sampled_from([None, 1, 3])),
        maxMigratingPerNode=draw(st.sampled_from([None, 1, 2])),
        maxMigratingPerNamespace=draw(st.sampled_from([None, 2])),
        maxMigratingPerWorkload=draw(st.sampled_from([1, "50%", "100%"])),
    )
    budgets = (budget("b", allowed=draw(st.integers(0, 3)), healthy=1),)
    return jobs, pods, args, budgets


@given(given_cluster=clusters(), reverse=st.booleans())
def test_no_limit_is_exceeded_and_the_order_of_the_input_does_not_matter(given_cluster, reverse):
    jobs, pods, args, budgets = given_cluster
    replicas = Counter(each.metadata.owner_references[0].name for each in pods)
    found = view(jobs, pods, replicas=replicas, disruption_budgets=budgets)
    passed = passing(found, args)
    shuffled = view(jobs[::-1] if reverse else jobs, pods[::-1], replicas=replicas, disruption_budgets=budgets)
    assert passing(shuffled, args) == passed
    by_name = {each.metadata.name: each for each in pods}
    before = [each for each in jobs if each.metadata.annotations]
    migrating = [by_name[each.spec.pod_ref.name] for each in before]
    for name in passed:
        found_pod = by_name[name.replace("j", "p")]
        others = [each for each in migrating if each.spec.node_name == found_pod.spec.node_name]
        assert not args.max_migrating_per_node or len(others) < args.max_migrating_per_node
        assert not args.max_migrating_globally or len(migrating) < args.max_migrating_globally
        assert not args.max_migrating_per_namespace or len(migrating) < args.max_migrating_per_namespace
        covered = [each for each in migrating if each.metadata.labels["app"] == "web"]
        assert found_pod.metadata.labels["app"] != "web" or len(covered) < budgets[0].status.disruptions_allowed
        migrating.append(found_pod)
