import msgspec
import pytest

from dra.engine.colocation.watched import WatchedNodeMetric
from dra.engine.descheduling.cache import DEBOUNCE_SECONDS, ROUND, DeschedulingCache, cluster_objects
from dra.engine.descheduling.triggers import CompiledTriggers, Trigger, TriggerKind
from dra.engine.instants import NEVER
from dra.model.scheduling import SchedulerNode
from tests.dra.engine.descheduling.rounds import pod
from tests.dra.engine.migration.examples import NOW, at, job

INTERVAL = 300.0
PENDING = {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}


def cache(**given):
    made = DeschedulingCache(interval=INTERVAL, **given)
    made.mark_all_dirty()
    return made


def node(name="n1", *, ready="True", taints=(), version="1", labels=None, annotations=None, beat="a"):
    conditions = [{"type": "Ready", "status": ready, "lastHeartbeatTime": beat}]
    return msgspec.convert(
        {
            "metadata": {
                "name": name,
                "uid": f"uid-{name}",
                "resourceVersion": version,
                "labels": labels or {},
                "annotations": annotations or {},
            },
            "spec": {"taints": list(taints)},
            "status": {"conditions": conditions, "allocatable": {"cpu": "4", "memory": "8Gi"}},
        },
        SchedulerNode,
    )


def metric(name="n1", *, cpu="1", made=0):
    usage = {"resources": {"cpu": cpu, "memory": "1Gi"}}
    content = {
        "metadata": {"name": name, "uid": f"metric-{name}"},
        "status": {"updateTime": at(made), "nodeMetric": {"nodeUsage": usage, "systemUsage": usage}},
    }
    return msgspec.convert(content, WatchedNodeMetric)


def due(made, now=0.0):
    """Return when a round is due because of what has been observed; None if none is."""
    made.settle(now=now)
    return made.dirty.take().get(ROUND)


def play(made, *, begin=0.0, seconds=0.0):
    """Run a round."""
    made.dirty.take()
    made.begin_round(now=begin)
    return made.end_round(now=begin + seconds)


class TestInterval:
    def test_a_replica_that_begins_to_act_runs_a_round_at_once(self):
        assert due(cache()) == -NEVER

    def test_the_next_round_begins_an_interval_after_the_last_began(self):
        assert play(cache(), begin=10.0, seconds=2.0) == 10.0 + INTERVAL

    def test_rounds_that_take_longer_than_the_interval_leave_time_for_other_work(self):
        made = DeschedulingCache(interval=10.0)
        assert play(made, seconds=20.0) == 20.0 + 4 * 20.0

    def test_an_interval_of_zero_is_one_round(self):
        made = DeschedulingCache(interval=0.0)
        assert play(made) == NEVER
        made.observe_node(node())
        assert due(made) is None
        assert made.rests_until == NEVER


class TestTriggers:
    @pytest.mark.parametrize(
        "change",
        [
            pytest.param(lambda c: c.observe_node(node("n2")), id="a-node-joins"),
            pytest.param(lambda c: c.observe_node(node(ready="False")), id="a-node-is-not-ready"),
            pytest.param(
                lambda c: c.observe_node(node(taints=[{"key": "a", "effect": "NoSchedule"}])), id="a-node-is-tainted"
            ),
            pytest.param(
                lambda c: c.observe_node(node(annotations={"node.koordinator.sh/reservation": "{}"})),
                id="a-node-reservation-is-set",
            ),
            pytest.param(lambda c: c.observe_pod(pod("web", node="", status=PENDING)), id="a-pod-fits-on-no-node"),
            pytest.param(lambda c: c.observe_node_metric(metric(cpu="3500m")), id="a-node-is-hot"),
        ],
    )
    def test_a_change_makes_a_round_due_at_once(self, change):
        made = cache(thresholds={"cpu": 80.0})
        made.observe_node(node())
        play(made)
        change(made)
        assert due(made, now=100.0) == 100.0
        assert made.begin_round(now=100.0)

    @pytest.mark.parametrize(
        "change",
        [
            pytest.param(lambda c: c.observe_node(node(version="2", beat="b")), id="a-heartbeat"),
            pytest.param(lambda c: c.observe_pod(pod("web")), id="a-pod-that-runs"),
            pytest.param(lambda c: c.observe_pod(pod("web", node="", status={"phase": "Pending"})), id="a-new-pod"),
            pytest.param(lambda c: c.observe_node_metric(metric(cpu="100m")), id="a-node-is-cool"),
            pytest.param(lambda c: c.observe_node_metric(metric("other", cpu="99")), id="a-report-of-no-node"),
        ],
    )
    def test_other_changes_wait_for_the_interval(self, change):
        made = cache(thresholds={"cpu": 80.0})
        made.observe_node(node())
        play(made)
        change(made)
        assert due(made, now=100.0) is None

    def test_rounds_after_changes_are_seconds_apart(self):
        made = cache()
        play(made, begin=10.0)
        made.observe_node(node())
        assert due(made, now=11.0) == 10.0 + DEBOUNCE_SECONDS

    def test_a_tenant_whose_pods_fit_nowhere_cannot_keep_the_process_busy(self):
        """Where rounds take seconds, four fifths of the time are left for migrations."""
        made = cache()
        play(made, begin=0.0, seconds=10.0)
        made.observe_pod(pod("web", node="", status=PENDING))
        assert due(made, now=11.0) == 50.0

    def test_a_pod_that_stays_unschedulable_starts_one_round(self):
        made = cache()
        made.observe_pod(pod("web", node="", status=PENDING))
        play(made)
        made.observe_pod(pod("web", node="", status=PENDING))
        assert due(made, now=100.0) is None

    def test_the_same_report_starts_one_round(self):
        """Rounds must not count one report of a node as many."""
        made = cache(thresholds={"cpu": 80.0})
        made.observe_node(node())
        made.observe_node_metric(metric(cpu="3500m", made=1))
        play(made)
        made.observe_node_metric(metric(cpu="3500m", made=1))
        assert due(made, now=100.0) is None
        made.observe_node_metric(metric(cpu="3500m", made=61))
        assert due(made, now=100.0) == 100.0

    def test_a_rule_of_a_plugin_starts_a_round_when_it_becomes_true(self):
        rule = Trigger(kind=TriggerKind.POD, when="object.metadata.labels['tier'] == 'spot'")
        made = cache(triggers=CompiledTriggers([rule]))
        play(made)
        made.observe_pod(pod("web"))
        assert due(made, now=100.0) is None
        labelled = pod("web", metadata={"labels": {"tier": "spot"}})
        made.observe_pod(labelled)
        assert due(made, now=100.0) == 100.0
        play(made, begin=100.0)
        made.observe_pod(labelled)
        assert due(made, now=200.0) is None

    def test_a_standby_forgets_what_it_saw(self):
        made = cache()
        made.observe_node(node())
        made.discard_dirty()
        assert due(made) is None


def test_nodes_without_a_report_in_time_are_counted_where_a_plugin_reads_reports():
    made = cache(thresholds={"cpu": 80.0})
    for name in ("n1", "n2", "n3"):
        made.observe_node(node(name))
    made.observe_node_metric(metric("n1", made=-10))
    made.observe_node_metric(metric("n2", made=-180))
    assert made.expired_metrics(now=NOW) == 2
    assert DeschedulingCache(interval=INTERVAL).expired_metrics(now=NOW) == 0


def test_the_pods_of_ended_jobs_are_told_apart_from_those_in_flight():
    jobs = [job("a"), job("b", phase="Failed"), job("c", phase="Aborted"), job("d", phase="Running")]
    kinds = ("nodes", "pods", "reservations", "disruption_budgets", "unavailable_budgets", "node_metrics")
    more = ("namespaces", "priority_classes", "volumes", "volume_claims", "claims", "slices", "device_classes")
    objects = cluster_objects(jobs=jobs, server="", **dict.fromkeys((*kinds, *more), ()))
    assert [each.metadata.name for each in objects.jobs] == ["a", "d"]
    assert [each.metadata.name for each in objects.ended_jobs] == ["b", "c"]


def test_a_report_is_trimmed_to_its_amounts_once_the_triggers_have_seen_all_of_it():
    rule = Trigger(kind="NodeMetric", when="object.status.nodeMetric.systemUsage.resources.cpu == '1'")
    made, report = DeschedulingCache(interval=300, triggers=CompiledTriggers([rule])), metric("n1", cpu="1")
    made.observe_node_metric(report)
    assert due(made) is not None
    assert made.node_metrics["n1"].usage is not None
    assert made.node_metrics["n1"].status.node_metric is None
