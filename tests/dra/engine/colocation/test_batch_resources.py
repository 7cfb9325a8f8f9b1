"""The sum of batch resources: Koordinator's numbers, and where ours keeps more back."""

from dataclasses import replace as _unused  # noqa: F401

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.api.colocation.strategies import CalculatePolicy, ColocationStrategy
from dra.engine.colocation.batch_resources import ZeroReason
from dra.engine.colocation.held_batch import BatchAmounts
from tests.dra.engine.colocation.objects import ENABLED, be, metric, node, pod, reserved, total, used

G = 10**9
GI = 1 << 30
HP = used("web", "33", "33G")


def strategy(**fields):
    return msgspec.structs.replace(ENABLED, **fields)


@pytest.mark.parametrize(
    ("annotations", "wanted"),
    [
        pytest.param({}, (25000, 33 * G), id="vector-1-koordinators-own-test"),
        pytest.param(reserved('{"resources": {"cpu": "20"}}'), (12000, 33 * G), id="vector-2-annotation-of-cpus"),
        pytest.param(
            reserved('{"resources": {"cpu": "20"}, "reservedCPUs": "0-9"}'), (22000, 33 * G), id="vector-2-ids-win"
        ),
        pytest.param(reserved('{"resources": {"memory": "20G"}}'), (25000, 25 * G), id="vector-2-annotation-of-memory"),
        pytest.param(reserved('{"resources": {"memory": "5G"}}'), (25000, 33 * G), id="vector-2-less-than-the-system"),
    ],
)
def test_the_sum_is_that_of_koordinator(annotations, wanted):
    found = total(node(annotations=annotations), metric(HP, system=("7", "12G")), [pod("web")])
    assert (found.cpu.offered, found.memory.offered) == wanted


def test_vector_3_capacity_counts_and_not_allocatable_of_which_the_kubelet_has_reserved_some():
    found = total(node(allocatable={"cpu": "96"}), metric(used("web", "33"), system=("3", "0")), [pod("web")])
    assert found.cpu.computed == 28000
    assert (found.cpu.kubelet, found.cpu.system, found.cpu.system_or_reserved) == (4000, 3000, 4000)


@pytest.mark.parametrize(
    ("annotations", "wanted"),
    [
        pytest.param({}, 350, id="vector-4-two-cpus"),
        pytest.param(reserved('{"resources": {"cpu": "500m"}}'), 0, id="vector-4-never-below-zero"),
    ],
)
def test_a_small_node(annotations, wanted):
    plan = strategy(cpu_reclaim_threshold_percent=60)
    small = node("2", annotations=annotations)
    assert total(small, metric(used("web", "700m"), system=("150m", "0")), [pod("web")], plan).cpu.offered == wanted


def test_vector_6_an_lse_pod_counts_its_cpus_as_requested_and_its_memory_as_used():
    lse = pod("db", {"cpu": "10", "memory": "50G"}, qos="LSE")
    found = total(node(), metric(used("db", "1", "10G")), [lse])
    assert (found.cpu.used, found.memory.used) == (10000, 10 * G)


@pytest.mark.parametrize(
    ("priority", "counted"),
    [
        pytest.param("koord-prod", 5000, id="vector-7-prod"),
        pytest.param("koord-mid", 5000, id="mid"),
        pytest.param("", 5000, id="no-class"),
        pytest.param("koord-batch", 0, id="batch"),
        pytest.param("koord-free", 0, id="free"),
    ],
)
def test_what_is_reported_of_a_pod_that_is_gone_counts_unless_it_was_batch(priority, counted):
    found = total(node(), metric(used("gone", "5", priority=priority)))
    assert (found.cpu.gone, found.cpu.offered) == (counted, 65000 - counted)


def test_trap_vector_1_a_batch_pod_that_ends_before_the_next_report_is_no_load_of_the_system():
    report = metric(
        used("a", "1", priority="koord-batch"), used("b", "1", priority="koord-batch"), system=("500m", "0")
    )
    both = [be("a"), be("b")]
    assert [total(node("16"), report, pods).cpu.offered for pods in (both, both[:1], ())] == [9900] * 3


def test_trap_vector_2_a_new_pod_counts_with_its_request_until_it_is_measured_and_never_takes_what_is_held():
    small = node("32", batch={"cpu": 15800, "memory": 0})
    report, pods = [used("ls", "4")], [pod("ls", {"cpu": "8"}), be("b", 9000)]
    assert total(small, metric(*report, system=("1", "0")), pods).cpu.offered == 15800
    pods.append(pod("new", {"cpu": "10"}))
    found = total(small, metric(*report, system=("1", "0")), pods)
    assert (found.cpu.computed, found.cpu.offered) == (5800, 9000)
    assert (found.cpu.requested, found.without_report, found.without_report_names) == (10000, 1, ("default/new",))
    report.append(used("new", "500m"))
    assert total(small, metric(*report, system=("1", "0")), pods).cpu.offered == 15300


def test_trap_vector_3_what_a_running_batch_pod_holds_stays_offered_when_nothing_is_left():
    plan = strategy(cpu_reclaim_threshold_percent=75)
    found = total(node("4"), metric(used("ls", "4")), [pod("ls", {"cpu": "4"}), be("b", 1000)], plan)
    assert (found.cpu.computed, found.cpu.offered) == (0, 1000)


def test_trap_vector_4_the_margin_of_memory_is_cut_to_bytes():
    sized = node("4", str(17179869184), annotations=reserved('{"resources": {"memory": "1Gi"}}'))
    found = total(sized, metric(used("web", "0", "3Gi")), [pod("web")])
    assert (found.memory.margin, found.memory.offered) == (6012954214, 6871947674)


@pytest.mark.parametrize(
    ("age", "wanted", "reason"),
    [
        pytest.param(15 * 60, 65000, None, id="trap-vector-6-15-minutes"),
        pytest.param(15 * 60 + 1, 1700, ZeroReason.STALE, id="trap-vector-6-15-minutes-and-a-second"),
    ],
)
def test_only_what_is_held_is_offered_once_the_report_is_stale(age, wanted, reason):
    found = total(node(), metric(age=age), [be("b", 1700)])
    assert (found.cpu.offered, found.cpu.zero_reason) == (wanted, reason)


@pytest.mark.parametrize(
    ("report", "plan", "reason"),
    [
        pytest.param(None, ENABLED, ZeroReason.NO_REPORT, id="no-report"),
        pytest.param(metric(update_time=""), ENABLED, ZeroReason.NO_REPORT, id="no-report-yet"),
        pytest.param(metric(update_time="soon"), ENABLED, ZeroReason.STALE, id="a-time-that-is-none"),
        pytest.param(metric(system=None), ENABLED, ZeroReason.INCOMPLETE, id="an-absent-system-is-not-zero"),
        pytest.param(metric(system=(None, None)), ENABLED, ZeroReason.INCOMPLETE, id="an-empty-system-is-not-zero"),
        pytest.param(metric(), ColocationStrategy(), ZeroReason.DISABLED, id="disabled"),
    ],
)
def test_nothing_is_computed_without(report, plan, reason):
    found = total(node(), report, [be("b", 5, 7)], plan)
    assert found.offered == BatchAmounts(cpu=5, memory=7)
    assert found.cpu.zero_reason is found.memory.zero_reason is reason


def test_a_system_without_memory_degrades_memory_alone():
    found = total(node(), metric(system=("5", None)))
    assert (found.cpu.offered, found.memory.offered, found.memory.zero_reason) == (60000, 0, ZeroReason.INCOMPLETE)


def test_a_pod_that_is_reported_without_memory_counts_its_memory_by_request():
    found = total(node(), metric(used("web", "1", None)), [pod("web", {"cpu": "9", "memory": "9G"})])
    assert (found.cpu.used, found.cpu.requested, found.memory.used, found.memory.requested) == (1000, 0, 0, 9 * G)


@pytest.mark.parametrize(
    ("policy", "wanted"),
    [
        pytest.param(CalculatePolicy.USAGE, 78 * G - 12 * G - 3 * G - 8 * G, id="usage"),
        pytest.param(CalculatePolicy.REQUEST, 78 * G - 10 * G - 20 * G - 8 * G, id="request-without-the-system"),
        pytest.param(CalculatePolicy.MAX_USAGE_REQUEST, 78 * G - 12 * G - 20 * G - 8 * G, id="the-greater-of-both"),
    ],
)
def test_policies_of_memory(policy, wanted):
    sized = node(annotations=reserved('{"resources": {"memory": "10G"}}'))
    pods = [pod("web", {"memory": "20G"}), pod("new", {"memory": "8G"})]
    report = metric(used("web", "1", "3G"), system=("1", "12G"))
    assert total(sized, report, pods, strategy(memory_calculate_policy=policy)).memory.computed == wanted


def test_the_most_that_batch_pods_may_have_is_a_part_of_the_capacity():
    plan = strategy(batch_cpu_threshold_percent=30, batch_memory_threshold_percent=0)
    found = total(node(), metric(), [be("b", 0, 5)], plan)
    assert (found.cpu.offered, found.memory.offered) == (30000, 5)


def test_a_reclaim_threshold_above_100_percent_offers_more_than_there_is():
    assert total(node("10"), metric(), (), strategy(cpu_reclaim_threshold_percent=150)).cpu.offered == 15000


def test_applications_of_the_host_are_system_unless_they_are_batch():
    host = (("koord-prod", ("5", "1G")), ("koord-batch", ("7", "1G")), ("", ("2", "1G")))
    assert total(node(), metric(host=host, system=("1", "1G"))).cpu.system == 8000


def test_a_pod_made_anew_does_not_inherit_the_report_of_the_one_before():
    report = metric(used("web-0", "1", "1G", uid="old"))
    found = total(node(), report, [pod("web-0", {"cpu": "4"}, uid="new")])
    assert (found.cpu.gone, found.cpu.requested, found.cpu.used) == (1000, 4000, 0)


def test_a_pod_without_labels_that_is_best_effort_is_batch():
    report = metric(used("b", "5"))
    plain = pod("b", {"kubernetes.io/batch-cpu": "500"}, qos="", priority="", kubernetes_qos="BestEffort")
    assert total(node(), report, [plain]).cpu.computed == 65000


LIES = [
    pytest.param("-64", id="negative"),
    pytest.param("NaN", id="no-number"),
    pytest.param("much", id="no-quantity"),
    pytest.param("", id="empty"),
    pytest.param("1e999999999", id="an-exponent-that-fills-the-memory"),
    pytest.param("9" * 200, id="longer-than-any-quantity"),
]


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_about_the_system_is_no_report(lie):
    assert total(node(), metric(system=(lie, lie))).offered == BatchAmounts()


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_about_a_pod_makes_its_request_count(lie):
    found = total(node(), metric(used("web", lie, lie)), [pod("web", {"cpu": "9", "memory": "9G"})])
    assert (found.cpu.offered, found.memory.offered) == (65000 - 9000, 78 * G - 9 * G)


@pytest.mark.parametrize(
    "report",
    [
        pytest.param(metric(system=("1e30", "1e30")), id="a-system-that-uses-more-than-there-is"),
        pytest.param(metric(used("gone", "9223372036854775807", "9223372036854775807")), id="a-pod-that-does"),
        pytest.param(metric(*[used(f"p{number}") for number in range(1025)]), id="more-pods-than-any-node-has"),
    ],
)
def test_huge_reports_leave_nothing(report):
    assert total(node(), report).offered == BatchAmounts()


def test_of_two_reports_of_one_pod_the_greater_counts():
    found = total(node(), metric(used("web", "9"), used("web", "1")), [pod("web")])
    assert found.cpu.used == 9000


def test_lines_explain_the_result():
    report = metric(used("a", "2", "1G"), used("gone", "3", "1G"), system=("1500m", "1G"))
    line = total(node(), report, [pod("a"), pod("b", {"cpu": "4"}), be("c", 100)]).cpu
    assert line.capacity - line.margin - line.system_or_reserved - line.used - line.requested - line.gone == 54500
    assert line.computed == 54500


amounts = st.integers(0, 2**63 - 1)


@given(
    held=st.lists(st.tuples(amounts, amounts, st.booleans()), max_size=4),
    offered=st.tuples(amounts, amounts),
    system=st.one_of(st.none(), st.tuples(amounts, amounts)),
    age=st.integers(-1000, 2000),
    enable=st.booleans(),
)
def test_offered_is_never_less_than_started_batch_pods_hold_nor_more_than_a_status_can_have(
    held, offered, system, age, enable
):
    pods = [be(f"b{number}", cpu, memory, started=started) for number, (cpu, memory, started) in enumerate(held)]
    report = metric(system=None if system is None else tuple(map(str, system)), age=age)
    sized = node(batch={"cpu": offered[0], "memory": offered[1]})
    found = total(sized, report, pods, strategy(enable=enable))
    for index, line in enumerate((found.cpu, found.memory)):
        started = min(sum(each[index] for each in held if each[2]), 2**63 - 1)
        fits = [each for each in held if each[2] or (each[0] <= offered[0] and each[1] <= offered[1])]
        everything = sum(each[index] for each in fits)
        assert line.offered >= max(started, min(everything, offered[index]))
        assert line.offered <= 2**63 - 1
