import msgspec
import pytest

from dra.engine.descheduling.plugins.low_node_load import LowNodeLoad
from dra.engine.descheduling.round import Limits
from tests.dra.engine.descheduling.clusters import job, reservation
from tests.dra.engine.descheduling.loads import NOW, evicted, metric, moved_to, node, pods, run

AT_ONCE = {"anomalyCondition": {"consecutiveAbnormalities": 1}}
CPU_20_50 = {"lowThresholds": {"cpu": 20}, "highThresholds": {"cpu": 50}} | AT_ONCE
CPU_PODS_30_50 = {"lowThresholds": {"cpu": 30, "pods": 30}, "highThresholds": {"cpu": 50, "pods": 50}} | AT_ONCE


def use(there, cpu="400m", memory="0"):
    """Return the use of pods in a report: each uses the same."""
    return [(pod, cpu, memory, {}) for pod in there]


def balance(nodes, reports, args=CPU_20_50, **more):
    """Play a round: `reports` has the pods of each node with what each uses."""
    there = [pod for used in reports.values() for pod, *_ in used] + more.pop("unmeasured", [])
    metrics = [metric(name, used, **more.pop(f"of_{name}", {})) for name, used in reports.items()]
    return run(LowNodeLoad(), args, nodes, there, node_metrics=metrics, **more)


def three_nodes(**of_second):
    """Return the cluster of upstream's tests: eight pods on n1, of which five may go, one on n2, and n3 cordoned."""
    nodes = [node("n1", cpu="4", memory="3000", pods=9), node("n2", cpu="4", memory="3000", pods=10)]
    nodes.append(node("n3", cpu="4", memory="3000", pods=10, unschedulable=True))
    on_first = pods(5, "n1", cpu="1m") + pods(3, "n1", cpu="1m", prefix="stay", namespace="kube")
    of_second = {"cpu": "400m", "memory": "0"} | of_second
    return nodes, on_first, pods(1, "n2", cpu="1m"), of_second


KUBE_STAYS = {"evictableNamespaces": {"exclude": ["kube"]}}


@pytest.mark.parametrize(
    ("memory", "on_second", "args", "count"),
    [
        pytest.param("0", "0", CPU_PODS_30_50, 4, id="1-until-cpu-and-pods-are-at-their-thresholds"),
        pytest.param("300", "2100", CPU_PODS_30_50, 3, id="2-memory-counts-unnamed"),
        pytest.param(
            "0",
            "0",
            CPU_PODS_30_50
            | {"useDeviationThresholds": True}
            | {"lowThresholds": {"cpu": 5, "pods": 5}, "highThresholds": {"cpu": 5, "pods": 5}},
            2,
            id="3-deviations-from-the-mean",
        ),
    ],
)
def test_pods_leave_the_hot_node_for_the_low_one(memory, on_second, args, count):
    nodes, first, second, of_second = three_nodes(memory=on_second)
    reports = {"n1": use(first, memory=memory), "n2": use(second, **of_second), "n3": []}
    result = balance(nodes, reports, args | KUBE_STAYS)
    assert len(evicted(result)) == count
    assert moved_to(result) == {"n2"}


PROD = {"labels": {"koordinator.sh/priority-class": "koord-prod"}}
BATCH = {"labels": {"koordinator.sh/priority-class": "koord-batch"}}
PROD_20_40 = {"prodLowThresholds": {"cpu": 20}, "prodHighThresholds": {"cpu": 40}}


@pytest.mark.parametrize(
    ("prod", "batch", "names"),
    [
        pytest.param(6, 0, ["p-0", "p-1"], id="4-above-the-prod-threshold-alone-prod-pods-go"),
        pytest.param(2, 3, [], id="4-mixed-below-both"),
        pytest.param(4, 9, ["b-0", "b-1", "b-2", "b-3", "b-4"], id="4-above-both-the-node-decides-batch-first"),
    ],
)
def test_prod_pods_have_thresholds_of_their_own(prod, batch, names):
    args = {"lowThresholds": {"cpu": 30}, "highThresholds": {"cpu": 80}} | AT_ONCE | PROD_20_40
    there = pods(prod, "n1", cpu="1m", prefix="p", **PROD) + pods(batch, "n1", cpu="1m", prefix="b", **BATCH)
    result = balance([node("n1"), node("n2")], {"n1": use(there, cpu="100m"), "n2": []}, args)
    assert evicted(result) == names


def test_the_words_of_a_prod_source():
    args = {"lowThresholds": {"cpu": 30}, "highThresholds": {"cpu": 80}} | AT_ONCE | PROD_20_40
    there = pods(6, "n1", cpu="1m", **PROD)
    result = balance([node("n1"), node("n2")], {"n1": use(there, cpu="100m"), "n2": []}, args)
    assert result.decisions[0].reason == "node is overutilized, prod cpu usage(60.00%)>threshold(40.00%)"


@pytest.mark.parametrize(
    ("fit", "count"),
    [
        pytest.param(False, 1, id="5-without-nodeFit-while-there-is-headroom"),
        pytest.param(True, 0, id="5-with-nodeFit-no-receiver-goes-above-its-threshold"),
    ],
)
def test_the_story_of_the_manual(fit, count):
    args = {"lowThresholds": {"cpu": 20, "memory": 30}, "highThresholds": {"cpu": 50, "memory": 60}, "nodeFit": fit}
    nodes = [node(name, cpu="4") for name in ("n1", "n2", "n3")]
    big, small = pods(1, "n1", cpu="3"), pods(1, "n2", cpu="2")
    reports = {"n1": [(big[0], "3600m", "1Gi", {})], "n2": [(small[0], "2000m", "1Gi", {})], "n3": []}
    result = balance(
        nodes,
        reports,
        args | AT_ONCE,
        of_n1={"system": ("320m", "1Gi")},
        of_n2={"system": ("200m", "1Gi")},
        of_n3={"system": ("182m", "1Gi")},
    )
    assert evicted(result) == ["n1-0"][:count]
    if count:
        assert result.decisions[0].reason == "node is overutilized, cpu usage(98.00%)>threshold(50.00%)"


def rounds(abnormalities, hot, *, interval=120.0, report_every=120.0, **more):
    """Return the rounds, counted from 1, in which a node gives: `hot` says in which it is above the threshold."""
    args = CPU_20_50 | {"anomalyCondition": {"consecutiveAbnormalities": abnormalities, **more}}
    there, memory, acting = pods(8, "n1", cpu="1m"), {}, []
    for number, is_hot in enumerate(hot, start=1):
        now = NOW + number * interval
        reported_at = now - now % report_every
        reports = [metric("n1", use(there, cpu="100m" if is_hot else "30m"), age=NOW - reported_at)]
        reports.append(metric("n2", [], age=NOW - reported_at))
        limits = Limits(total=0)  # nothing is evictable
        result = run(
            LowNodeLoad(),
            args,
            [node("n1"), node("n2")],
            there,
            node_metrics=reports,
            memory=memory,
            now=now,
            limits=limits,
        )
        acting += [number] if result.decisions else []
    return acting


@pytest.mark.parametrize(
    ("abnormalities", "hot", "more", "acting"),
    [
        pytest.param(1, [True] * 3, {}, [1, 2, 3], id="6-one-report-acts-at-once"),
        pytest.param(2, [True] * 4, {}, [3, 4], id="6-two-reports-and-one-more"),
        pytest.param(5, [True] * 8, {"timeout": "60s"}, [6, 7, 8], id="41-the-timeout-does-not-end-an-anomaly"),
        pytest.param(2, [True, True, False, True, True, True], {}, [6], id="45-three-in-a-row-after-a-normal-one"),
    ],
)
def test_a_node_gives_after_enough_reports_in_a_row(abnormalities, hot, more, acting):
    assert rounds(abnormalities, hot, **more) == acting


def test_46_an_interval_longer_than_the_detectors_memory_upstream_acts_as_well():
    assert rounds(2, [True] * 4, interval=360.0, report_every=60.0) == [3, 4]


def test_rounds_that_events_start_do_not_count_the_same_report_again():
    assert rounds(2, [True] * 10, interval=6.0, report_every=60.0) == []


@pytest.mark.parametrize(
    ("age", "is_used"),
    [
        pytest.param(179, True, id="40-just-in-time"),
        pytest.param(180, False, id="40-expired"),
        pytest.param(-61, False, id="from-the-future"),
    ],
)
def test_a_node_with_an_expired_report_neither_gives_nor_receives(age, is_used):
    there = pods(8, "n1", cpu="1m")
    result = balance([node("n1"), node("n2")], {"n1": use(there, cpu="100m"), "n2": []}, of_n1={"age": age})
    assert bool(evicted(result)) == is_used
    result = balance([node("n1"), node("n2")], {"n1": use(there, cpu="100m"), "n2": []}, of_n2={"age": age})
    assert bool(evicted(result)) == is_used


def test_40_an_expired_node_is_not_in_the_mean():
    args = CPU_20_50 | {"useDeviationThresholds": True}
    args |= {"lowThresholds": {"cpu": 10}, "highThresholds": {"cpu": 10}}
    low, high, gone = (pods(1, name, cpu="1m") for name in ("low", "high", "gone"))
    nodes = [node(name) for name in ("low", "high", "gone")]
    reports = {"low": use(low, cpu="200m"), "high": use(high, cpu="800m"), "gone": use(gone, cpu="1000m")}
    result = balance(nodes, reports, args | {"nodeFit": False}, of_gone={"age": 180})
    assert evicted(result) == ["high-0"]
    assert result.decisions[0].reason == "node is overutilized, cpu usage(80.00%)>threshold(60.00%)"


def test_44_what_does_not_go_fills_no_receiver():
    names = ("n1", "n2")
    reports = {name: use(pods(3, name, cpu="1m"), cpu="400m") for name in names}
    nodes = [node(name, cpu="1800m") for name in names] + [node("n3", cpu="2")]
    result = balance(nodes, reports | {"n3": []})
    assert evicted(result) == ["n1-0", "n2-0"]


def test_43_the_pod_just_larger_than_the_excess_goes_alone():
    there = [(pods(1, "n1", cpu="1m", prefix=f"{milli}")[0], f"{milli}m", "0", {}) for milli in (300, 500, 900)]
    nodes = [node("n1", cpu="2400m"), node("n2", cpu="4")]
    assert evicted(balance(nodes, {"n1": there, "n2": []})) == ["500-0"]


def test_8_a_node_belongs_to_the_first_pool_that_selects_it():
    nodes = [node(name, labels={"size": size}) for name, size in (("a", "l"), ("b", "l"), ("c", "s"), ("d", "s"))]
    strict = {"lowThresholds": {"cpu": 10}, "highThresholds": {"cpu": 20}}
    pools = [
        {"name": "large", "nodeSelector": {"matchLabels": {"size": "l"}}, **strict},
        {"name": "again", "nodeSelector": {"matchExpressions": [{"key": "size", "operator": "Exists"}]}},
    ]
    reports = {name: use(pods(4, name, cpu="1m"), cpu="100m") for name in ("a", "c")} | {"b": [], "d": []}
    result = balance(nodes, reports, CPU_20_50 | {"nodePools": pools})
    assert evicted(result) == ["a-0", "a-1"]
    assert moved_to(result) == {"b"}


def test_9_what_is_held_on_receivers_is_no_headroom():
    there = pods(8, "n1", cpu="1m")
    reports = {"n1": use(there, cpu="100m"), "n2": []}
    kept = {"node.koordinator.sh/reservation": '{"resources": {"cpu": "600m"}}'}
    assert len(evicted(balance([node("n1"), node("n2")], reports))) == 3
    assert len(evicted(balance([node("n1"), node("n2", annotations=kept)], reports))) == 2
    held = [reservation("r", "n2", cpu="100m", owners=[{"labelSelector": {"matchLabels": {"app": "other"}}}])]
    nodes = [node("n1"), node("n2", cpu="600m")]
    assert len(evicted(balance(nodes, reports, reservations=held))) == 2


def test_pods_without_a_metric_stay_and_young_ones_count_by_their_requests_on_receivers():
    there = pods(8, "n1", cpu="1m")
    silent = pods(3, "n1", cpu="1m", prefix="silent")
    young = pods(1, "n2", cpu="450m", prefix="young", created=-30)
    nodes, reports = [node("n1"), node("n2", cpu="3")], {"n1": use(there, cpu="100m"), "n2": []}
    result = balance(nodes, reports, unmeasured=silent + young)
    assert evicted(result) == ["n1-0", "n1-1", "n1-2"]
    assert not [name for name in evicted(result) if name.startswith("silent")]
    nodes = [node("n1"), node("n2", cpu="2")]
    assert evicted(balance(nodes, reports, unmeasured=young)) == []
    old = pods(1, "n2", cpu="450m", prefix="old", created=-86400)
    assert len(evicted(balance(nodes, reports, unmeasured=old))) == 3


def test_jobs_in_flight_are_load_where_they_go_and_not_where_they_leave():
    there = pods(8, "n1", cpu="1m")
    reports = {"n1": use(there, cpu="100m"), "n2": []}
    nodes = [node("n1"), node("n2")]
    running = [job(pod, name=f"j{number}", uid=f"u{number}", node="n2") for number, pod in enumerate(there[:3])]
    assert evicted(balance(nodes, reports, jobs=running)) == []
    assert len(evicted(balance(nodes, reports, jobs=running[:1]))) == 2


def test_amplified_cpus_are_no_capacity():
    raw = {"node.koordinator.sh/raw-allocatable": '{"cpu": "1"}'}
    there = pods(8, "n1", cpu="1m")
    reports = {"n1": use(there, cpu="100m"), "n2": []}
    assert evicted(balance([node("n1", cpu="2"), node("n2")], reports)) == []
    assert len(evicted(balance([node("n1", cpu="2", annotations=raw), node("n2")], reports))) == 3
    broken = {"node.koordinator.sh/raw-allocatable": '{"cpu": "one"}'}
    assert evicted(balance([node("n1", cpu="2", annotations=broken), node("n2")], reports)) == []


def test_a_pod_never_goes_to_another_hot_node_or_to_one_in_between():
    names = {"hot": 8, "hotter": 9, "middle": 3}
    reports = {name: use(pods(count, name, cpu="1m"), cpu="100m") for name, count in names.items()}
    result = balance([node(name) for name in (*names, "low")], reports | {"low": []})
    assert {decision.receivers for decision in result.decisions} == {frozenset({"low"})}
    assert moved_to(result) == {"low"}


def test_a_pod_of_a_report_is_known_by_its_uid():
    there = pods(8, "n1", cpu="1m")
    before = [msgspec.structs.replace(pod.metadata, uid=f"before-{number}") for number, pod in enumerate(there)]
    earlier = [msgspec.structs.replace(pod, metadata=meta) for pod, meta in zip(there, before, strict=True)]
    metrics = [metric("n1", use(earlier, cpu="100m")), metric("n2", [])]
    result = run(LowNodeLoad(), CPU_20_50, [node("n1"), node("n2")], there, node_metrics=metrics)
    assert evicted(result) == []


@pytest.mark.parametrize(
    ("more", "note"),
    [
        pytest.param({"paused": True}, "paused", id="paused"),
        pytest.param({"dryRun": True}, "dryRun: 1 nodes are overutilized (n1); nothing is evicted", id="dry-run"),
        pytest.param(
            {"numberOfNodes": 1}, "1 nodes are below the low thresholds, and numberOfNodes asks for more", id="number"
        ),
        pytest.param(
            {"anomalyCondition": {"consecutiveAbnormalities": 2}},
            "no node has been above the high thresholds for long enough",
            id="anomaly",
        ),
        pytest.param({"highThresholds": {"cpu": 90}}, "no node is above the high thresholds", id="nothing-is-hot"),
        pytest.param(
            {"nodeSelector": {"matchLabels": {"kubernetes.io/hostname": "n1"}}},
            "no schedulable node is below the low thresholds",
            id="nobody-receives",
        ),
    ],
)
def test_a_round_says_why_nothing_goes(more, note):
    reports = {"n1": use(pods(8, "n1", cpu="1m"), cpu="100m"), "n2": []}
    result = balance([node("n1"), node("n2")], reports, CPU_20_50 | more)
    assert evicted(result) == []
    assert result.notes == [f"profile p: LowNodeLoad: {note}"]


@pytest.mark.parametrize(
    ("more", "names"),
    [
        pytest.param(
            {"podSelectors": [{"name": "x", "selector": {"matchLabels": {"go": "yes"}}}]}, ["go-0"], id="label"
        ),
        pytest.param({"podSelectors": [{"name": "x"}]}, ["go-0", "n1-0", "n1-1"], id="a-selector-without-selector"),
        pytest.param({"evictableNamespaces": {"include": ["other"]}}, [], id="namespaces-included"),
    ],
)
def test_arguments_restrict_which_pods_go(more, names):
    there = pods(7, "n1", cpu="1m") + pods(1, "n1", cpu="1m", prefix="go", labels={"go": "yes"})
    result = balance([node("n1"), node("n2")], {"n1": use(there, cpu="100m"), "n2": []}, CPU_20_50 | more)
    assert evicted(result) == names
