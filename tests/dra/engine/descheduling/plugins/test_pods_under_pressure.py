import pytest

from dra.engine.descheduling.plugins.pods_under_pressure import RemovePodsUnderPressure
from tests.dra.engine.descheduling.clusters import job
from tests.dra.engine.descheduling.loads import NOW, evicted, metric, moved_to, node, pods, run
from tests.violations import for_each_case

FLOOR = {"suppression": {"policy": "cfsQuota", "cpu": "20m", "atFloor": True}}
LS = {"labels": {"koordinator.sh/qosClass": "LS"}}
BE = {"labels": {"koordinator.sh/qosClass": "BE"}}


def psi(percent):
    return {"psi": {"cpu": {"some": {"avg10": 99.0, "avg60": percent, "avg300": 1.0, "total": 1}}}}


WEB = pods(2, "n1", prefix="web", **LS)
BATCH = pods(2, "n1", prefix="batch", **BE)


def reports(pressures=(35.0, 25.0), *, floor=FLOOR, age=0.0, other=0.0, cpu="50m"):
    """Return the report of n1, and that of n2, whose one pod is under little pressure."""
    web = [
        (pod, cpu, "0", {} if percent is None else psi(percent)) for pod, percent in zip(WEB, pressures, strict=True)
    ]
    batch = [(pod, f"{10 + number}m", "0", psi(90.0)) for number, pod in enumerate(BATCH)]
    quiet = [(pod, "10m", "0", psi(other)) for pod in QUIET]
    return [metric("n1", web + batch, age=age, **floor), metric("n2", quiet, age=age)]


QUIET = pods(1, "n2", prefix="quiet", **LS)


def play(metrics, args=None, *, memory=None, now=NOW, there=None, nodes=None, **more):
    given = {"consecutiveReports": 1} | (args or {})
    nodes = nodes or [node("n1"), node("n2"), node("n3")]
    there = [*WEB, *BATCH, *QUIET] if there is None else there
    return run(RemovePodsUnderPressure(), given, nodes, there, node_metrics=metrics, memory=memory, now=now, **more)


def test_the_pod_under_most_pressure_goes_alone_to_a_node_without():
    result = play(reports())
    assert evicted(result) == ["web-0"]
    assert moved_to(result) == {"n2"}
    assert result.decisions[0].receivers == {"n2"}
    assert "waits for CPUs (35.00% of the last minute, 1 reports in a row)" in result.decisions[0].reason


@for_each_case(
    [
        pytest.param(reports(floor={}), id="batch-pods-are-not-held-back"),
        pytest.param(reports(floor={"suppression": {"atFloor": False}}), id="held-back-and-not-at-the-floor"),
        pytest.param(reports((19.9, 0.0)), id="little-pressure"),
        pytest.param(reports((None, None)), id="a-kernel-without-PSI"),
        pytest.param(reports(age=180), id="an-expired-report"),
        pytest.param(reports(other=6.0), id="each-other-node-is-under-pressure"),
        pytest.param(reports()[:1], id="no-other-node-is-known"),
    ]
)
def test_no_pod_goes(metrics):
    assert evicted(play(metrics)) == []


@pytest.mark.parametrize(
    ("reported", "acting"),
    [
        pytest.param([35.0] * 4, [3, 4], id="three-reports-in-a-row"),
        pytest.param([35.0, 35.0, 1.0, 35.0, 35.0, 35.0], [6], id="one-without-pressure-starts-anew"),
    ],
)
def test_a_pod_must_be_disturbed_in_several_reports(reported, acting):
    memory, rounds = {}, []
    for number, percent in enumerate(reported, start=1):
        metrics = reports((percent, 0.0), age=-60.0 * number)
        for _ in range(3):  # events start more rounds than there are reports
            result = play(metrics, {"consecutiveReports": 3}, memory=memory, now=NOW + 60.0 * number)
        rounds += [number] if evicted(result) else []
    assert rounds == acting


def test_the_next_pod_waits_for_the_end_of_the_move():
    moving = [job(WEB[1], node="n2")]
    assert evicted(play(reports(), jobs=moving)) == []


def test_batch_pods_go_instead_if_the_arguments_say_so_the_largest_first():
    assert evicted(play(reports(), {"target": "Disturbing"})) == ["batch-1"]


def test_a_pod_that_waits_for_its_own_limit_stays():
    limited = {"resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": "100m"}}}
    there = pods(2, "n1", prefix="web", containers=[{"name": "c", "image": "i", **limited}], **LS)
    there = [*there, *BATCH, *QUIET]
    assert evicted(play(reports(cpu="95m"), there=there)) == []
    assert evicted(play(reports(cpu="50m"), there=there)) == ["web-0"]


@pytest.mark.parametrize("namespaces", [{"exclude": ["ns"]}, {"include": ["other"]}], ids=["excluded", "not-included"])
def test_pods_of_other_namespaces_stay(namespaces):
    assert evicted(play(reports(), {"evictableNamespaces": namespaces})) == []


def test_a_round_says_that_nobody_waits():
    assert "no pod waits for CPUs" in play(reports((0.0, 0.0))).notes[0]
