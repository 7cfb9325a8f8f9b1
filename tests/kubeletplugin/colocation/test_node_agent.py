import asyncio
import contextlib
import logging
import shutil
from functools import partial

import pytest

from dra.api.colocation.strategies import SuppressPolicy
from dra.engine.suppression.decide import Suppression
from dra.model.koordinator_classes import PriorityClass, QosClass
from kubeletplugin.colocation import node_agent
from kubeletplugin.colocation.node_agent import create_node_agent
from kubeletplugin.colocation.usage.gpu_reader import GpuUseReader
from tests.kubeletplugin.cgroups import recorded
from tests.kubeletplugin.cgroups.recorded import HASH
from tests.kubeletplugin.colocation.agent import CONFIG_MAP, NODE, Place, watching
from tests.kubeletplugin.node import until_async

GIB = 2**30


SUPPRESSION = {
    "resource-threshold-config": '{"nodeStrategies": [{"name": "a", "nodeSelector": {"matchLabels": {"pool": "a"}}, '
    '"enable": true, "cpuSuppressThresholdPercent": 70}]}'
}


class Part:
    name = "part"

    def __init__(self, error=None):
        self.states = []
        self.error = error

    async def step(self, state, now):
        self.states.append((now, state))
        if self.error is not None:
            raise self.error


@pytest.fixture
async def place(tmp_path):
    place = Place(tmp_path)
    await place.define()
    await place.user.create("nodes", {"metadata": {"name": NODE}})
    async with watching(place):
        yield place


async def two_pods(place):
    """A latency-sensitive pod and a batch pod that use CPUs, and a system beside them."""
    web = await place.create_pod("web", qos="LS")
    job = await place.create_pod("job", qos="BE")
    place.machine.add(web, milli=1000)
    place.machine.add(job, milli=300, qos="besteffort")
    place.machine.node_milli = 2000
    await place.seen(lambda informers: len(informers.pods.objects) == 2)
    return web, job


async def test_the_nodemetric_says_what_node_system_and_pods_use(place):
    await place.create_node_metric()
    await place.create_node_metric("n2")
    web, job = await two_pods(place)
    await place.seen(lambda informers: len(informers.node_metrics.objects) == 1)
    await place.steps(320)
    assert await place.agent._reporter.report() > 50
    status = (await place.node_metric())["status"]
    assert status["nodeMetric"]["nodeUsage"]["resources"] == {"cpu": "2000m", "memory": str(4 * GIB)}
    assert status["nodeMetric"]["systemUsage"]["resources"]["cpu"] == "700m"
    pods = {each["name"]: each for each in status["podsMetric"]}
    assert pods["web"]["podUsage"]["resources"] == {"cpu": "1000m", "memory": "24064000"}
    assert (pods["web"]["uid"], pods["web"]["qos"], pods["web"]["priority"]) == (web, "LS", "koord-prod")
    assert (pods["job"]["uid"], pods["job"]["qos"]) == (job, "BE")
    assert "status" not in await place.node_metric("n2")


async def test_the_nodemetric_says_how_far_batch_pods_are_held_back(tmp_path):
    part = Part()
    part.suppression = Suppression(policy=SuppressPolicy.CFS_QUOTA, budget_milli=20, at_floor=True)
    place = Place(tmp_path, part)
    await place.define()
    await place.create_node_metric(aggregateDurationSeconds=20)
    async with watching(place):
        await two_pods(place)
        await place.seen(lambda informers: len(informers.node_metrics.objects) == 1)
        await place.steps(40)
        await place.agent._reporter.report()
        told = (await place.node_metric())["status"]["suppression"]
        assert told == {"policy": "cfsQuota", "cpu": "20m", "atFloor": True}
        part.suppression = Suppression()
        await place.steps(1)
        await place.agent._reporter.report()
    assert "suppression" not in (await place.node_metric())["status"]


async def test_nothing_is_reported_before_half_of_the_window_is_sampled(place):
    await place.create_node_metric(aggregateDurationSeconds=60, reportIntervalSeconds=20)
    await two_pods(place)
    await place.seen(lambda informers: len(informers.node_metrics.objects) == 1)
    await place.steps(25)
    assert await place.agent._reporter.report() == 10
    assert "status" not in await place.node_metric()
    await place.steps(20)
    assert 15 <= await place.agent._reporter.report() <= 25
    assert "updateTime" in (await place.node_metric())["status"]


async def test_a_window_that_is_too_short_for_two_samples_of_pods_is_longer(place, caplog):
    """With 10 s nothing was reported, except by a report at the very second of a sample."""
    with caplog.at_level(logging.WARNING):
        await place.create_node_metric(aggregateDurationSeconds=10)
        await two_pods(place)
        await place.seen(lambda informers: len(informers.node_metrics.objects) == 1)
    await place.steps(35)
    await place.agent._reporter.report()
    assert "updateTime" in (await place.node_metric())["status"]
    assert "10 is too short for two samples of pods; 20 is used" in caplog.text


async def test_without_a_nodemetric_the_agent_waits_and_says_so_once(place, caplog):
    await two_pods(place)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            await place.steps(10)
            await place.agent._reporter.report()
    assert [each.message for each in caplog.records if "nodemetric n1" in each.message] == [
        "nodemetric n1: does not exist yet, so that use of node n1 is not reported; the controller creates it"
    ]


async def test_a_nodemetric_made_anew_is_written_and_not_the_one_before(place):
    await place.create_node_metric(aggregateDurationSeconds=20)
    await two_pods(place)
    await place.seen(lambda informers: len(informers.node_metrics.objects) == 1)
    await place.steps(40)
    stale = place.agent._reporter._object
    await place.user.request("DELETE", "/apis/slo.koordinator.sh/v1alpha1/nodemetrics/n1")
    made = await place.create_node_metric(aggregateDurationSeconds=20)
    place.agent._reporter._object = stale
    await place.agent._reporter.report()
    assert "status" not in await place.node_metric()
    await place.seen(lambda _: place.agent._reporter._object.metadata.uid == made["metadata"]["uid"])


async def test_parts_see_pods_with_class_and_cgroup_and_the_last_sample(tmp_path):
    part = Part()
    place = Place(tmp_path, part)
    await place.define()
    await place.user.create("nodes", {"metadata": {"name": NODE, "labels": {"pool": "a"}}})
    await place.configure(SUPPRESSION)
    async with watching(place):
        _, job = await two_pods(place)
        await place.steps(3)
    now, state = part.states[-1]
    assert now == place.clock.now()
    assert state.node.metadata.name == NODE
    by_name = {each.pod.metadata.name: each for each in state.pods}
    assert by_name["job"].qos is QosClass.BE
    assert by_name["job"].priority is PriorityClass.BATCH
    assert by_name["job"].cgroup == ("besteffort", f"pod{job}")
    assert state.sample.pods_at == now, "while batch pods are held back, pods are sampled each second"
    assert state.sample.pods[job].cpu_milli == pytest.approx(300)
    assert state.sample.system_cpu_milli == pytest.approx(700)


async def test_a_part_that_fails_is_counted_and_the_others_step(tmp_path):
    failing, other = Part(error=OSError("busy")), Part()
    place = Place(tmp_path, failing, other)
    await place.define()
    async with watching(place):
        await place.steps(2)
    assert len(failing.states) == len(other.states) == 2
    failures = partial(place.metrics.registry.get_sample_value, "dra_reserve_node_part_failures_total")
    assert [failures({"part": name}) for name in ("part", "sampling", "report", "gpus")] == [2, 0, 0, 0]


async def test_the_time_that_gpus_cost_is_counted(tmp_path):
    place = Place(tmp_path)
    await place.agent.sample_gpus(GpuUseReader([]))
    labels = {"sampled": "gpus"}
    assert place.metrics.registry.get_sample_value("dra_reserve_node_sampling_cpu_seconds_total", labels) is not None


async def test_a_failure_that_lasts_is_logged_once_and_again_after_it_was_gone(tmp_path, caplog):
    failing = Part(error=OSError("read-only"))
    place = Place(tmp_path, failing)
    await place.define()
    async with watching(place):
        await place.steps(3)
        failing.error = None
        await place.steps(1)
        failing.error = OSError("read-only")
        await place.steps(2)
    assert sum("part: failed" in each.message for each in caplog.records) == 2


@pytest.mark.parametrize(
    ("loop", "method"), [("sampling", "step"), ("report", "report"), ("gpus", "sample_gpus")], ids=lambda text: text
)
async def test_a_failure_that_nobody_expected_ends_no_loop_and_so_no_driver(tmp_path, monkeypatch, loop, method):
    monkeypatch.setattr(node_agent, "STEP_INTERVAL", 0.0)
    place = Place(tmp_path)
    await place.define()
    place.agent._gpus = GpuUseReader([])

    async def fail(*_):
        raise AttributeError("nvml has no such function")

    monkeypatch.setattr(place.agent._reporter if method == "report" else place.agent, method, fail)
    failures = place.metrics.failures.labels(loop)._value
    task = asyncio.create_task(place.agent.run())

    async def failed_again():
        return task.done() or failures.get() >= 2

    await until_async(failed_again)
    assert not task.done()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def test_parts_step_before_the_kubelet_has_started_and_without_samples(tmp_path):
    part = Part()
    place = Place(tmp_path, part)
    await place.define()
    async with watching(place):
        await place.steps(1)
        assert part.states[0][1].sample is None
        assert part.states[0][1].hierarchies is None
        assert any("check that the kubelet has started" in text for text in place.agent.not_ready_reasons())
        await two_pods(place)
        await place.steps(1)
    assert part.states[1][1].hierarchies.kubepods == ("kubepods",)
    assert not any("kubelet has started" in text for text in place.agent.not_ready_reasons())


@pytest.mark.parametrize("left", ["kubepods/burstable", "kubepods"], ids=["empty-cgroups-stay", "nothing-stays"])
async def test_a_kubelet_that_returns_with_another_cgroup_driver_is_found_again(place, left):
    web, _ = await two_pods(place)
    await place.steps(1)
    for top in place.machine.cgroups.iterdir():
        shutil.rmtree(top / left)
        shutil.rmtree(top / "kubepods/besteffort", ignore_errors=True)
    path, container = recorded.LAYOUTS["systemd-containerd"]
    recorded.add_pod(place.machine.cgroups, path("burstable", web), container=container)
    place.machine._pods.clear()
    state = await place.steps(2)
    assert state.hierarchies.kubepods == ("kubepods.slice",)
    assert {each.pod.metadata.uid for each in state.pods if each.has_containers} == {web}


async def test_a_static_pod_counts_by_the_hash_in_its_cgroup_and_not_as_the_systems(place):
    annotations = {"kubernetes.io/config.mirror": HASH, "kubernetes.io/config.hash": HASH}
    uid = await place.create_pod("kube-apiserver-n1", annotations=annotations)
    place.machine.add(HASH, milli=400)
    place.machine.node_milli = 500
    await place.seen(lambda informers: informers.pods.objects)
    state = await place.steps(31)
    assert state.sample.pods[uid].cpu_milli == pytest.approx(400)
    assert state.sample.system_cpu_milli == pytest.approx(100)


async def test_pods_of_unknown_shape_are_told_once_counted_and_left_without_a_metric(place, caplog):
    """A runtime that ignores the kubelet's cgroup driver: the pod's own cgroup is empty."""
    uid = await place.create_pod("web")
    place.machine.add(uid, milli=0, container=False)
    (place.machine.cgroups / "cpu" / f"kubepods-pod{uid}.slice:cri-containerd:01").mkdir()
    await place.seen(lambda informers: informers.pods.objects)
    with caplog.at_level(logging.WARNING):
        state = await place.steps(41)
    told = [each.message for each in caplog.records if "default/web" in each.message]
    assert len(told) == 1
    assert "the container runtime uses another cgroup driver than the kubelet" in told[0]
    assert state.sample.pods == {}
    assert place.metrics.registry.get_sample_value("dra_reserve_node_unsampled_pods") == 1


async def test_pods_that_have_ended_are_no_pods_of_the_node(place):
    await place.create_pod("done", phase="Succeeded")
    await place.seen(lambda informers: informers.pods.objects)
    assert (await place.steps(1)).pods == ()


async def test_metrics_tell_the_use_by_class_and_what_sampling_costs(place):
    await two_pods(place)
    await place.steps(31)
    value = place.metrics.registry.get_sample_value
    assert value("dra_reserve_node_used_cpus") == pytest.approx(2)
    assert value("dra_reserve_node_system_used_cpus") == pytest.approx(0.7)
    assert value("dra_reserve_node_pods_used_cpus", {"qos": "BE"}) == pytest.approx(0.3)
    assert value("dra_reserve_node_sampling_cpu_seconds_total", {"sampled": "pods"}) > 0
    assert value("dra_reserve_node_pods_cpu_pressure_ratio", {"qos": "BE"}) is None


def test_a_machine_without_cgroups_of_memory_is_refused_with_what_to_do(tmp_path):
    place = Place(tmp_path)
    shutil.rmtree(place.machine.cgroups / "memory")
    with pytest.raises(ValueError, match=r"node n1: --colocation is impossible: .*no controller memory"):
        create_node_agent(None, place.agent._context)
    shutil.rmtree(place.machine.cgroups)
    with pytest.raises(ValueError, match=r"--colocation is impossible: .*mount the host's"):
        create_node_agent(None, place.agent._context)


async def test_strategies_are_those_for_the_labels_of_the_node_and_keep_their_last_good_content(tmp_path, caplog):
    place = Place(tmp_path)
    await place.define()
    await place.user.create("nodes", {"metadata": {"name": NODE, "labels": {"pool": "a"}}})
    assert (await place.agent.step()).strategies is None, "not read yet, so nothing is known to be off"
    async with watching(place):
        assert not (await place.agent.step()).strategies.threshold.enable
        await place.configure(SUPPRESSION)
        await place.seen(lambda informers: informers.config_maps.objects)
        strategies = (await place.agent.step()).strategies
        assert (strategies.threshold.enable, strategies.threshold.cpu_suppress_threshold_percent) == (True, 70)
        with caplog.at_level(logging.WARNING):
            await place.configure({"resource-threshold-config": "{"})
            await place.seen(lambda _: place.agent._strategies._configuration.problems)
        assert (await place.agent.step()).strategies == strategies
        assert "configmap koordinator-system/slo-controller-config: resource-threshold-config" in caplog.text
        await place.user.request("DELETE", CONFIG_MAP)
        await place.seen(lambda informers: not informers.config_maps.objects)
        assert not (await place.agent.step()).strategies.threshold.enable
