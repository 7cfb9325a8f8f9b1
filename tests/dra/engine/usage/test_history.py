import msgspec
import pytest

from dra.engine.usage.history import UsageHistory
from dra.engine.usage.samples import GpuProcessUse, GpuReading
from tests.dra.engine.usage.readings import GIB, node, pod, round_at

WEB = {"web": 1000}


def history(**keep):
    return UsageHistory(**{"node_seconds": 300.0, "pod_seconds": 300.0} | keep)


def test_two_readings_of_a_node_make_a_sample():
    usage = history()
    usage.observe_node(node(1, busy=0))
    assert usage.sample is None
    usage.observe_node(node(2, busy=50, used_bytes=GIB))
    assert (usage.sample.at, usage.sample.cpu_milli, usage.sample.memory_bytes) == (2.0, 500, GIB)
    assert usage.sample.pods_at is None


def test_the_last_round_stays_in_the_samples_of_the_seconds_after_it():
    usage = history()
    for at in (10, 20):
        usage.observe_node(node(at, busy=at * 150))
        usage.observe_round(round_at(at, node_milli=1500, pods=WEB), known=WEB)
    usage.observe_node(node(21, busy=21 * 150))
    sample = usage.sample
    assert (sample.at, sample.pods_at) == (21.0, 20.0)
    assert sample.pods["web"].cpu_milli == pytest.approx(1000)
    assert sample.system_cpu_milli == pytest.approx(500)


def test_rounds_that_are_not_recorded_make_samples_and_no_windows():
    """While batch pods are held back there is a round each second; averages need one in ten seconds."""
    usage = history()
    for at in range(1, 22):
        usage.observe_node(node(at, busy=at * 150))
        usage.observe_round(round_at(at, node_milli=1500, pods=WEB), known=WEB, record=at % 10 == 1)
    assert usage.sample.pods_at == 21.0
    assert len(usage.pods["web"].windows.cpu_milli._samples) == 2
    assert usage.pods["web"].windows.cpu_milli.average(300, now=21.0) == pytest.approx(1000)


def test_a_counter_that_began_anew_between_recorded_rounds_drops_the_recorded_sample():
    usage = history()
    usage.observe_round(round_at(10, node_milli=0, pods=WEB), known=WEB)
    anew = msgspec.structs.replace(round_at(15, node_milli=0), pods={"web": pod(15, millis=0, renewed=True)})
    usage.observe_round(anew, known=WEB, record=False)
    for at in (20, 30):
        grown = msgspec.structs.replace(round_at(at, node_milli=0), pods={"web": pod(at, millis=at * 10_000)})
        usage.observe_round(grown, known=WEB)
    assert usage.pods["web"].windows.cpu_milli.average(300, now=30.0) == pytest.approx(10_000)
    assert len(usage.pods["web"].windows.cpu_milli._samples) == 1


def test_a_pod_that_misses_a_round_keeps_its_samples_and_gets_none_for_the_gap():
    usage = history()
    for at in (10, 20):
        usage.observe_round(round_at(at, node_milli=0, pods=WEB), known=WEB)
    usage.observe_round(round_at(30, node_milli=0), known=WEB)
    usage.observe_round(round_at(40, node_milli=0, pods=WEB), known=WEB)
    assert [at for at, _, _ in usage.pods["web"].windows.cpu_milli._samples] == [20.0]


def test_a_pod_that_is_gone_is_forgotten():
    usage = history()
    usage.observe_round(round_at(10, node_milli=0, pods=WEB), known=WEB)
    usage.observe_round(round_at(20, node_milli=0), known=())
    assert usage.pods == {}


def test_five_thousand_pods_that_come_and_go_leave_nothing_behind():
    usage = history()
    for number in range(50):
        pods = {f"pod-{number}-{place}": 10 for place in range(100)}
        usage.observe_round(round_at(10 * number + 10, node_milli=0, pods=pods, others={f"x-{number}": 1}), known=pods)
        assert usage.pods.keys() == pods.keys()
    assert len(usage._set_back) <= 101


def test_shorter_times_are_kept_once_the_policy_asks_for_less():
    usage = history()
    for at in range(10, 310, 10):
        usage.observe_round(round_at(at, node_milli=0, pods=WEB), known=WEB)
    usage.keep(node_seconds=60.0, pod_seconds=60.0)
    usage.observe_round(round_at(310, node_milli=0, pods=WEB), known=WEB)
    assert len(usage.pods["web"].windows.memory_bytes._samples) == 7


def gpu(uuid="GPU-0", *, percent=50.0, memory=GIB, pods=None):
    return GpuReading(
        uuid=uuid,
        minor=0,
        utilization_percent=percent,
        memory_used_bytes=memory,
        memory_total_bytes=16 * GIB,
        pods=pods or {},
    )


def test_gpus_have_windows_and_so_has_what_a_pod_uses_of_them():
    usage = history()
    usage.observe_round(round_at(10, node_milli=0, pods=WEB), known=WEB)
    use = GpuProcessUse(utilization_percent=None, memory_bytes=GIB // 2)
    usage.observe_gpus(10.0, [gpu(percent=40.0, pods={"web": use, "unknown": use}), gpu("GPU-1", percent=None)])
    usage.observe_gpus(20.0, [gpu(percent=60.0, pods={"web": use})])
    assert usage.gpus.keys() == {"GPU-0"}
    assert usage.gpus["GPU-0"].utilization_percent.average(300, now=20.0) == 50
    of_pod = usage.pods["web"].gpus["GPU-0"]
    assert of_pod.utilization_percent.average(300, now=20.0) is None
    assert of_pod.memory_bytes.average(300, now=20.0) == GIB // 2
    usage.observe_gpus(30.0, [gpu()])
    assert usage.pods["web"].gpus == {}
