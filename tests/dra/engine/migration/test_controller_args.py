"""The fields of MigrationControllerArgs that concern rates, scope, dry runs, fit and the options of evictions."""

import pytest

from dra.api.descheduler.migration_controller_args import MigrationControllerArgs
from dra.engine.instants import NEVER
from dra.engine.migration.arbitration import Outcome, arbitrate
from dra.engine.migration.evictability import with_priority_value
from dra.engine.migration.plan import CreateReservation
from dra.engine.migration.reasons import MigrationReason
from tests.dra.engine.migration import examples
from tests.dra.engine.migration.examples import NOW, limits, pod
from tests.dra.engine.migration.stages import reserved
from tests.dra.engine.migration.world import ARGS, World, job


def arbitrated(jobs, pods, *, args, **more):
    return {each.job: each for each in arbitrate(examples.view(jobs, pods, **more), args=args, now=NOW)}


PER_NAMESPACE = {
    "objectLimiters": {"workload": {"duration": "0s"}, "namespace": {"duration": "60s", "maxMigrating": 1}}
}


def test_a_namespace_waits_until_its_last_eviction_is_long_enough_ago():
    evicted = examples.job("old", evicted=-20, passed=True, phase="Succeeded")
    verdicts = arbitrated([evicted, examples.job("a")], [pod("a", owner="other")], args=limits(**PER_NAMESPACE))
    verdict = verdicts["a"]
    assert (verdict.outcome, verdict.reason, verdict.wake_at) == (
        Outcome.WAITING,
        MigrationReason.OBJECT_LIMITER,
        NOW + 40,
    )
    assert verdict.message == (
        "namespace ns: 1 pod is evicted or migrating within 1m0s, the limit is 1 (objectLimiters.namespace)"
    )


def test_the_limit_of_a_namespace_counts_bare_pods_and_jobs_that_pass_in_the_same_round():
    pods = [pod("a", owner=""), pod("b", owner="")]
    jobs = [examples.job(name, mode="EvictDirectly", created=-index) for index, name in enumerate("ab")]
    verdicts = arbitrated(jobs, pods, args=limits(**PER_NAMESPACE, evictAllBarePods=True))
    assert [verdicts[name].outcome for name in "ab"] == [Outcome.PASSED, Outcome.WAITING]
    assert verdicts["b"].wake_at == NEVER


def test_the_limit_of_a_namespace_does_not_stop_another_namespace():
    evicted = examples.job("old", evicted=-20, passed=True, phase="Succeeded", namespace="other")
    verdicts = arbitrated([evicted, examples.job("a")], [pod("a")], args=limits(**PER_NAMESPACE))
    assert verdicts["a"].outcome is Outcome.PASSED


def test_a_limit_of_a_namespace_leaves_the_default_limit_of_workloads_in_force():
    args = limits(objectLimiters={"namespace": {"duration": "60s", "maxMigrating": 9}}, maxMigratingPerWorkload=1)
    evicted = examples.job("old", evicted=-100, passed=True, phase="Succeeded")
    verdicts = arbitrated([evicted, examples.job("a")], [pod("a")], args=args)
    assert "objectLimiters.workload" in verdicts["a"].message


def test_a_burst_spreads_the_evictions_of_a_workload_over_the_window():
    args = limits(objectLimiters={"workload": {"duration": "60s", "maxMigrating": 6, "burst": 1}})
    evicted = examples.job("old", evicted=-4, passed=True, phase="Succeeded")
    verdicts = arbitrated([evicted, examples.job("a")], [pod("a")], args=args, replicas={"web": 9})
    assert verdicts["a"].wake_at == pytest.approx(NOW + 6)
    assert "within 1m0s, 1 at once, the limit is 6" in verdicts["a"].message


def test_in_a_dry_run_no_job_passes_and_each_that_would_counts():
    args = limits(dryRun=True, maxMigratingGlobally=1)
    verdicts = arbitrated([examples.job("a", created=1), examples.job("b")], [pod("a"), pod("b")], args=args)
    assert [verdicts[name].reason for name in "ab"] == [
        MigrationReason.DRY_RUN,
        MigrationReason.MAX_MIGRATING_GLOBALLY,
    ]
    assert {verdict.outcome for verdict in verdicts.values()} == {Outcome.WAITING}


def test_a_job_that_has_begun_reserves_nothing_in_a_dry_run():
    world = World(job=job(status={"phase": "Running"}), args=ARGS.model_copy(update={"dry_run": True}))
    assert not any(isinstance(action, CreateReservation) for action in world.settle())


def test_a_job_that_holds_a_reservation_evicts_nothing_in_a_dry_run():
    world = reserved(World())
    world.args = ARGS.model_copy(update={"dry_run": True})
    world.place()
    world.settle()
    assert not world.evictions


@pytest.mark.parametrize(
    ("of_job", "options"),
    [
        pytest.param({}, {"gracePeriodSeconds": 60, "propagationPolicy": "Background"}, id="configured"),
        pytest.param({"deleteOptions": {"gracePeriodSeconds": 5}}, {"gracePeriodSeconds": 5}, id="of-the-job"),
    ],
)
def test_the_options_of_an_eviction(of_job, options):
    given = {"gracePeriodSeconds": 60, "propagationPolicy": "Background"}
    args = MigrationControllerArgs.model_validate({"defaultDeleteOptions": given})
    world = World(job=job(spec={"mode": "EvictDirectly", **of_job}), args=args)
    world.settle()
    (eviction,) = world.evictions
    assert eviction.delete_options == {**options, "preconditions": {"uid": "uid-web-a"}}


@pytest.mark.parametrize(
    ("fields", "outcome"),
    [
        pytest.param({"nodeFit": True}, Outcome.REFUSED, id="refused-at-once"),
        pytest.param({}, Outcome.PASSED, id="not-asked-for"),
        pytest.param({"nodeFit": True, "skipEvictionGates": ["NodeFit"]}, Outcome.PASSED, id="gate"),
    ],
)
def test_a_pod_that_fits_on_no_other_node(fields, outcome):
    view = examples.view([examples.job("a")], [pod("a")], unfit={"uid-a": "pod ns/a: fits on no other node"})
    (verdict,) = arbitrate(view, args=limits(**fields), now=NOW)
    assert verdict.outcome is outcome


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param(1000, "", id="below"),
        pytest.param(999, "pod ns/a: priority 999 is not below priorityThreshold 999", id="at-the-threshold"),
        pytest.param(
            None,
            "pod ns/a: stays while the value of PriorityClass high is unknown (priorityThreshold.name)",
            id="no-such-class",
        ),
    ],
)
def test_a_threshold_by_the_name_of_a_class(value, text):
    args = with_priority_value(limits(priorityThreshold={"name": "high"}), value)
    verdicts = arbitrated([examples.job("a")], [pod("a", spec={"priority": 999})], args=args)
    assert verdicts["a"].message == text


@pytest.mark.parametrize(
    ("operator", "values", "outcome"),
    [
        pytest.param("In", ["web", "db"], Outcome.PASSED, id="in"),
        pytest.param("NotIn", ["web"], Outcome.REFUSED, id="not-in"),
        pytest.param("Exists", [], Outcome.PASSED, id="exists"),
        pytest.param("DoesNotExist", [], Outcome.REFUSED, id="does-not-exist"),
    ],
)
def test_expressions_of_the_label_selector(operator, values, outcome):
    expression = {"key": "app", "operator": operator, "values": values}
    args = limits(labelSelector={"matchExpressions": [expression]})
    verdicts = arbitrated([examples.job("a")], [pod("a", labels={"app": "web"})], args=args)
    assert verdicts["a"].outcome is outcome
