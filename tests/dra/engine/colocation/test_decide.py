"""When batch resources are written, and what is told: nodes as the cache sees them, at times of its own clocks."""

import json

import msgspec
import pytest

from dra.api.colocation.well_known import BATCH_CPU, BATCH_MEMORY
from dra.engine.colocation import watched
from dra.engine.colocation.cache import BatchCache
from dra.engine.colocation.configuration_cache import SloConfigurationCache
from dra.engine.colocation.decide import WriteBatch, decide, status_patch
from dra.engine.colocation.held_batch import BatchAmounts
from dra.engine.colocation.reasons import ColocationReason
from dra.engine.instants import NEVER, Moment
from dra.model.node_pods import ConfigMap
from tests.dra.engine.colocation.objects import NOW, be, metric, node, pod, used
from tests.violations import for_each_case

CONFIG = {"enable": True, "cpuReclaimThresholdPercent": 65, "memoryReclaimThresholdPercent": 65}


class Loop:
    """A cache with the decisions on it, and the Node that its writes change."""

    def __init__(self, **config):
        self.configuration = SloConfigurationCache()
        self.cache = BatchCache(self.configuration)
        self.at = 1000.0
        self.version = 1
        self.configure(CONFIG | config)

    @property
    def moment(self):
        return Moment(instant=self.at, wall=NOW + self.at - 1000.0)

    def configure(self, content, uid="c"):
        text = content if isinstance(content, str) else json.dumps(content)
        metadata = {"namespace": "koordinator-system", "name": "slo-controller-config", "uid": uid}
        config_map = msgspec.convert({"metadata": metadata, "data": {"colocation-config": text}}, ConfigMap)
        self.configuration.observe(config_map)
        self.cache.observe_configuration(config_map)

    def forget_configuration(self):
        gone = msgspec.convert({"metadata": {"name": "slo-controller-config"}}, ConfigMap)
        self.configuration.forget(gone)
        self.cache.observe_configuration(gone)

    def node(self, *args, **kwargs):
        self.version += 1
        seen = node(*args, **kwargs)
        msgspec.structs.force_setattr(seen.metadata, "resource_version", str(self.version))
        self.cache.observe_node(seen, now=self.at)

    def report(self, *args, **kwargs):
        given = metric(*args, **{"age": 1000.0 - self.at} | kwargs)
        seen = msgspec.convert(msgspec.to_builtins(given), watched.WatchedNodeMetric)
        watched.trim_metric(seen)
        self.cache.observe_metric(seen, now=self.at)

    def pod(self, given):
        seen = msgspec.convert(msgspec.to_builtins(given), watched.WatchedPod)
        if watched.counts(seen):
            watched.trim_pod(seen)
            self.cache.observe_pod(seen)
        else:
            self.cache.forget_pod(seen)

    def decide(self):
        return decide(self.cache.view("n1", now=self.moment), now=self.at)

    def write(self):
        """Return what is written now, and record it: the watch does not show it yet."""
        (action,) = self.decide().actions
        self.version += 1
        self.cache.record_write(action, version=str(self.version), now=self.at)
        return action.amounts.cpu

    def write_all(self):
        """Write what is due, if anything is."""
        if self.decide().actions:
            self.last = self.write()

    def reasons(self):
        return [event.reason for event in self.decide().reasons]


def holding(computed, *, offered, at=10.0):
    """Return a loop whose sum of CPUs is `computed`, on a node that offers `offered` since some seconds."""
    loop = Loop()
    loop.node(cpu="200", memory="0", batch=None if offered is None else {"cpu": offered, "memory": 0})
    loop.at += at
    loop.report(system=(f"{130_000 - computed}m", "0"))
    return loop


@for_each_case(
    [
        pytest.param(10000, 10999, 10.0, False, id="trap-vector-5-less-than-10-percent"),
        pytest.param(10000, 11000, 10.0, False, id="trap-vector-5-10-percent"),
        pytest.param(10000, 11001, 10.0, True, id="trap-vector-5-more-than-10-percent"),
        pytest.param(10000, 10999, 300.0, True, id="trap-vector-5-less-after-300-seconds"),
        pytest.param(10000, 8999, 10.0, True, id="more-than-10-percent-less"),
        pytest.param(10000, 10000, 9999.0, False, id="no-change-is-never-written"),
        pytest.param(0, 0, 9999.0, False, id="trap-vector-5-nothing-stays-nothing"),
        pytest.param(None, 0, 9999.0, False, id="absent-stays-absent-while-there-is-nothing"),
        pytest.param(0, 5, 10.0, True, id="trap-vector-5-something-of-nothing"),
        pytest.param(None, 5, 10.0, True, id="trap-b4-the-value-is-gone"),
        pytest.param(5, 0, 10.0, True, id="trap-b7-nothing-of-something"),
    ]
)
def test_small_changes_wait(offered, computed, at, written):
    plan = holding(computed, offered=offered, at=at).decide()
    assert [action.amounts.cpu for action in plan.actions] == [computed] * written


def test_trap_vector_5_more_than_is_offered_is_held_and_that_is_written_at_once():
    loop = holding(0, offered=10000)
    loop.cache.record_write(loop.decide().actions[0], version="99", now=loop.at)
    loop.at += 1
    loop.pod(be("b", 10500))
    assert loop.write() == 10500


def test_a_small_change_is_decided_again_when_it_is_due():
    assert holding(10999, offered=10000).decide().wake_at == 1300.0


def test_capacity_and_allocatable_are_written_equal_in_one_patch():
    (action,) = holding(5000, offered=None).decide().actions
    amounts = {BATCH_CPU: "5000", BATCH_MEMORY: "0"}
    assert status_patch(action) == {"capacity": amounts, "allocatable": amounts}


def test_a_kubelet_that_sets_one_of_both_is_corrected_at_once():
    loop = holding(5000, offered=5000)
    seen = node(cpu="200", memory="0", batch={"cpu": 5000, "memory": 0})
    seen.status.allocatable[BATCH_CPU] = "4999"
    msgspec.structs.force_setattr(seen.metadata, "resource_version", "50")
    loop.cache.observe_node(seen, now=loop.at)
    assert loop.write() == 5000


def test_a_write_counts_before_the_watch_shows_it():
    loop = holding(5000, offered=None)
    assert loop.write() == 5000
    assert loop.decide().actions == ()


def test_trap_b4_a_node_that_is_made_anew_offers_at_once_what_it_offered():
    loop = holding(5000, offered=None)
    loop.write()
    loop.at += 1
    loop.node(cpu="200", memory="0", uid="made-anew")
    assert loop.write() == 5000


def test_whoever_undoes_each_write_makes_the_pauses_grow():
    loop, written = holding(5000, offered=None), 0
    for _ in range(600):
        if loop.decide().actions:
            loop.write()
            written += 1
        loop.at += 1
        loop.node(cpu="200", memory="0", batch={"cpu": 0, "memory": 0})
    assert 8 <= written <= 20


def test_whoever_undoes_each_write_is_told_and_a_node_made_anew_is_not():
    loop, told = holding(5000, offered=None), []
    for _ in range(60):
        loop.write_all()
        loop.at += 10
        loop.node(cpu="200", memory="0", batch={"cpu": 7000, "memory": 0})
        told += loop.decide().reasons
    assert {event.reason for event in told} == {ColocationReason.BATCH_UNDONE}
    assert told[0].text == (
        "node n1: another client sets kubernetes.io/batch-cpu and batch-memory after each write of the controller; let "
        "one of both compute them: stop the other, for example koord-manager, or set colocation: false"
    )
    loop = holding(5000, offered=None)
    for number in range(10):
        loop.write_all()
        loop.at += 10
        loop.node(cpu="200", memory="0", uid=f"made-anew-{number}")
        assert loop.reasons() == []


def test_a_bind_in_flight_counts_by_what_was_offered_within_the_last_minute():
    loop = holding(10000, offered=10000)
    loop.at += 1
    loop.report(system=("128", "0"))
    assert loop.write() == 2000
    loop.pod(be("bound-by-the-old-offer", 7000, started=False))
    assert loop.write() == 7000


def test_a_bind_in_flight_counts_for_a_leader_that_has_only_watched_the_former_one_lower_the_offer():
    loop = holding(2000, offered=10000)
    loop.at += 1
    loop.node(cpu="200", memory="0", batch={"cpu": 2000, "memory": 0})  # by the former leader
    loop.pod(be("bound-by-the-old-offer", 7000, started=False))
    assert loop.write() == 7000
    loop = holding(2000, offered=10000)
    loop.node(cpu="200", memory="0", batch={"cpu": 2000, "memory": 0})
    loop.at += 60
    loop.pod(be("names-the-node-itself", 7000, started=False))
    assert loop.decide().actions == ()


def test_a_bind_by_any_offer_of_the_last_minute_counts():
    loop = holding(10000, offered=10000)
    for system in ("125", "128"):
        loop.at += 30
        loop.report(system=(system, "0"))
        loop.write()
    loop.pod(be("bound-by-the-second-offer", 4800, started=False))
    loop.at += 40  # 70 seconds after the first decrease, 40 after the second
    assert loop.write() == 4800


def test_a_pod_that_nobody_has_admitted_and_that_asks_for_more_than_there_is_counts_nothing():
    loop = holding(10000, offered=10000)
    loop.pod(be("names-the-node-itself", 10**9, started=False))
    assert loop.decide().actions == ()
    loop.at += 60
    loop.report(system=("130", "0"))
    assert loop.write() == 0


def test_pods_that_nobody_admits_keep_no_offer_for_longer_than_a_minute():
    loop = holding(10000, offered=10000)
    loop.write_all()
    offered = []
    for number in range(200):
        loop.at += 1
        loop.report(system=("128", "0"))
        given = be(f"p{number}", 9000, started=False)
        if number % 2:
            loop.pod(given)
        else:
            loop.pod(be(f"p{number - 1}", 9000, started=False, phase="Failed"))
        loop.write_all()
        offered.append(loop.last)
    assert max(offered[:60]) >= 9000
    assert max(offered[70:]) == 2000


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_holds_nothing(phase):
    loop = holding(0, offered=0)
    loop.pod(be("b", 700))
    assert loop.write() == 700
    loop.at += 1
    loop.pod(be("b", 700, phase=phase))
    assert loop.write() == 0


def test_an_agent_that_reports_one_thing_and_its_contrary_causes_one_write_a_second():
    """Each report is worth a write, and an agent that has been taken over may send hundreds in a second."""
    loop = holding(9000, offered=9000)
    writes = 0
    for number in range(100):
        loop.at += 0.05
        loop.report(system=(("1m", "100")[number % 2], "0"))
        plan = loop.decide()
        writes += len(plan.actions)
        if plan.actions:
            loop.write()
    assert 0 < writes <= 6


def test_pods_that_hold_more_than_is_offered_wait_for_nothing():
    loop = holding(0, offered=0)
    loop.pod(be("b", 700))
    assert loop.write() == 700
    loop.pod(be("c", 300))
    assert loop.write() == 1000


def test_trap_vector_6_a_report_becomes_stale_by_the_time_alone():
    loop = holding(9000, offered=9000)
    loop.pod(be("b", 1700))
    wake_at = loop.decide().wake_at
    assert wake_at == pytest.approx(loop.at + 900.0, abs=0.1)
    loop.at = wake_at
    assert loop.reasons() == [ColocationReason.BATCH_DEGRADED]
    assert loop.write() == 1700


def test_trap_n6_a_report_of_a_clock_that_runs_ahead_becomes_stale_and_is_told():
    loop = holding(9000, offered=9000)
    loop.report(system=("121", "0"), age=-3600)
    assert loop.reasons() == [ColocationReason.REPORT_FROM_FUTURE]
    loop.at += 901
    assert loop.write() == 0


def test_trap_n6_a_report_from_the_future_that_a_controller_finds_at_its_start_is_stale_until_it_changes():
    loop = Loop()
    loop.node()
    loop.report(age=-86400)
    assert loop.decide().actions == ()
    loop.at += 60
    loop.report(age=-86400 - 60)
    assert loop.write() == 65000


def test_trap_n6_a_report_that_says_it_is_old_is_stale_though_it_was_just_seen():
    loop = holding(9000, offered=9000)
    loop.report(system=("121", "0"), age=901)
    assert loop.write() == 0


def test_trap_n3_a_report_without_the_use_of_the_system_raises_nothing():
    loop = holding(9000, offered=9000)
    loop.at += 60
    loop.report(system=None)
    assert loop.reasons() == [ColocationReason.BATCH_DEGRADED]
    assert loop.write() == 0


@pytest.mark.parametrize(
    ("held", "written"), [pytest.param(0, None, id="nothing-held"), pytest.param(300, "300", id="something-held")]
)
def test_switched_off_the_resources_go_down_to_what_is_held_and_away(held, written):
    loop = holding(9000, offered=9000)
    if held:
        loop.pod(be("b", held))
    loop.configure({"enable": False})
    (action,) = loop.decide().actions
    assert status_patch(action)["allocatable"][BATCH_CPU] == written


@pytest.mark.parametrize(
    ("offered", "held", "written"),
    [
        pytest.param(9000, 8900, "8900", id="a-little-more-than-is-held"),
        pytest.param(8900, 8900, None, id="what-is-held"),
        pytest.param(0, 0, "", id="nothing-is-taken-off"),
    ],
)
def test_switched_off_no_reduction_waits(offered, held, written):
    loop = holding(offered, offered=offered)
    if held:
        loop.pod(be("b", held))
    loop.configure({"enable": False})
    assert [status_patch(action)["allocatable"][BATCH_CPU] or "" for action in loop.decide().actions] == [written] * (
        written is not None
    )


def test_switched_off_for_one_node_config_only_its_nodes_offer_nothing_new():
    pool = {"name": "pool", "nodeSelector": {"matchLabels": {"pool": "a"}}, "enable": False}
    for labels, written in (({"pool": "a"}, [8900]), ({"pool": "b"}, [])):
        loop = Loop(nodeConfigs=[pool])
        loop.node(cpu="200", memory="0", batch={"cpu": 9000, "memory": 0}, labels=labels)
        loop.at += 10
        loop.report(system=("121", "0"))
        loop.pod(be("b", 8900))
        assert [action.amounts.cpu for action in loop.decide().actions] == written


def test_when_a_report_becomes_stale_a_small_reduction_does_not_wait_either():
    loop = holding(9000, offered=9000)
    loop.pod(be("b", 8900))
    loop.cache.record_write(loop_write(9000), version="9", now=loop.at + 890)
    loop.at += 901
    assert loop.write() == 8900


def loop_write(cpu):
    amounts = BatchAmounts(cpu=cpu)
    return WriteBatch(node="n1", uid="n", amounts=amounts, computed=amounts)


def test_a_node_that_never_offered_anything_is_not_touched_while_off():
    loop = Loop(enable=False)
    loop.node()
    assert loop.decide().actions == ()


def test_trap_b15_a_configuration_with_an_error_leaves_the_offer_alone_and_is_told():
    loop = holding(9000, offered=9000)
    loop.configure('{"enable": false, "degradeTimeMinutes": 0}')
    assert loop.decide().actions == ()
    (event,) = loop.configuration.events()
    assert event.reason is ColocationReason.CONFIG_INVALID
    assert event.text == (
        "ConfigMap koordinator-system/slo-controller-config: colocation-config: degradeTimeMinutes: 0 is out of range; "
        "write a number that is 1 or more. The last valid content of colocation-config stays in effect; correct the key"
    )
    assert loop.configuration.error_counts()["colocation-config"] == 1


def test_trap_b12_two_node_configs_that_match_one_node_are_told_on_the_config_map():
    both = [{"name": name, "nodeSelector": {"matchLabels": {"a": "1"}}} for name in ("x", "y")]
    loop = Loop(nodeConfigs=both)
    loop.node(labels={"a": "1"})
    loop.report()
    (event,) = loop.decide().reasons
    assert event.reason is ColocationReason.NODE_CONFIGS_OVERLAP
    assert "nodeConfig x and nodeConfig y match the same nodes; nodeConfig x counts there" in event.text


def test_an_error_that_a_controller_finds_at_its_start_is_told_with_what_is_in_force_then():
    """The last valid content is known to no process that has started since."""
    loop = Loop()
    loop.configure("{", uid="made-anew")
    (event,) = loop.configuration.events()
    assert event.text.endswith(
        "No valid content of colocation-config is known since this process started, so its defaults are in effect, "
        "which switch it off; correct the key"
    )


def test_a_node_made_anew_has_no_offer_of_the_former_one():
    loop = holding(9000, offered=9000)
    loop.report(system=("130", "0"))
    assert loop.write() == 0
    loop.node(cpu="200", memory="0", uid="made-anew")
    loop.pod(be("names-the-node-itself", 9000, started=False))
    assert loop.decide().actions == ()


def test_a_write_that_was_undone_before_the_watch_showed_it_is_noticed():
    loop = holding(9000, offered=9000)
    loop.configure({"enable": False})
    loop.write()
    loop.cache.dirty.clear()
    loop.node(cpu="200", memory="0", batch={"cpu": 9000, "memory": 0})
    assert "n1" in set(loop.cache.dirty.take())


def test_an_edit_of_the_config_map_that_changes_no_strategy_marks_no_node():
    """Whoever writes its labels or annotations again and again keeps no controller with thousands of nodes busy."""
    loop = holding(9000, offered=9000)
    loop.cache.dirty.clear()
    loop.configure(json.dumps(CONFIG, indent=4))
    assert len(loop.cache.dirty) == 0
    loop.configure(CONFIG | {"degradeTimeMinutes": 16})
    assert set(loop.cache.dirty) == {"n1"}
    loop.cache.dirty.clear()
    loop.forget_configuration()
    assert set(loop.cache.dirty) == {"n1"}


def test_an_annotation_with_an_error_is_told_on_the_node():
    loop = Loop()
    loop.node(annotations={"node.koordinator.sh/colocation-strategy": "{"})
    loop.report()
    assert loop.reasons() == [ColocationReason.NODE_STRATEGY_INVALID]


def test_trap_b5_a_pod_that_three_reports_lack_is_told():
    loop = Loop()
    loop.node()
    loop.pod(pod("web", {"cpu": "1"}))
    loop.report()
    plan = loop.decide()
    assert (plan.reasons, plan.wake_at) == ((), loop.at + 180.0)
    loop.at += 180
    loop.report()
    assert loop.reasons() == [ColocationReason.PODS_WITHOUT_REPORT]
    loop.report(used("web", "1"))
    assert loop.reasons() == []


def test_only_what_the_sum_depends_on_marks_a_node():
    loop = holding(9000, offered=9000)
    loop.cache.dirty.clear()
    loop.node(cpu="200", memory="0", batch={"cpu": 9000, "memory": 0})
    loop.report(system=("121", "0"))
    assert len(loop.cache.dirty) == 0


def test_nothing_is_remembered_of_what_is_gone():
    loop = holding(9000, offered=9000)
    loop.pod(be("b", 300))
    loop.pod(be("b", 300, phase="Failed"))
    gone = node()
    loop.cache.forget_node(gone)
    loop.cache.forget_metric(msgspec.convert({"metadata": {"name": "n1"}}, watched.WatchedNodeMetric))
    assert loop.cache.view("n1", now=loop.moment) is None
    loop.cache.mark_all_dirty()
    assert "n1" not in set(loop.cache.dirty) or not loop.cache._nodes
    assert loop.cache._nodes == {}


def test_totals_add_up_what_nodes_offer():
    loop = holding(9000, offered=9000)
    loop.decide()
    amounts, zero = loop.cache.totals()
    assert amounts == BatchAmounts(cpu=9000, memory=0)
    assert sum(zero.values()) == 0


def test_a_replica_that_only_watches_counts_no_node_as_switched_off():
    loop = holding(9000, offered=9000)
    assert sum(loop.cache.totals()[1].values()) == 0


def test_a_node_without_a_report_is_decided_again_only_when_something_changes():
    loop = Loop()
    loop.node()
    assert loop.decide().wake_at == NEVER
