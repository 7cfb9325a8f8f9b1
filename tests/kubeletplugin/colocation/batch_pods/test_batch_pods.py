"""The part for batch pods on recorded machines: what it writes, when, and what it undoes."""

import asyncio
import logging
import os
import time

import pytest
from prometheus_client import CollectorRegistry

from dra.engine.cpus.cpusets import parse
from dra.engine.suppression.decide import CpuCandidates
from kubeletplugin.colocation.batch_pods.batch_pods import create_batch_pods
from kubeletplugin.colocation.batch_pods.suppression_mark import (
    MARK_NAME,
    SuppressionMark,
    lift_marked_quotas,
    lift_quotas,
)
from tests.dra.engine.cpus.uniform import uniform_topology
from tests.kubeletplugin.cgroups import recorded
from tests.kubeletplugin.cgroups.greedy import GREEDY, greedy_pod
from tests.kubeletplugin.colocation.batch_pods.machine import (
    CPUSET,
    OFF,
    ON,
    V1_FILES,
    V2_FILES,
    BatchNode,
    Events,
    Writer,
)
from tests.kubeletplugin.kubelet import until

V1_NAMES = ("cpu.shares", "cpu.cfs_quota_us", "memory.limit_in_bytes")
V2_NAMES = ("cpu.weight", "cpu.max", "memory.max")
CANDIDATES = CpuCandidates(topology=uniform_topology(cores=8), shared=parse("0-7"))


@pytest.mark.parametrize(
    "layout", [pytest.param("cgroupfs", id="cgroupfs"), pytest.param("systemd-containerd", id="systemd")]
)
async def test_a_batch_pod_and_its_container_get_their_limits_in_v1(tmp_path, layout):
    node = BatchNode(tmp_path, layout=layout)
    node.strategy = OFF
    job = node.add("job", cpu="2k", request="570", memory="1073741823")
    await node.step()
    for container in (False, True):
        assert node.values(*V1_NAMES, pod=job, container=container) == ["583", "200000", "1073737728"]
    assert node.quota == "-1"
    assert node.metric("batch_pods") == 1


@pytest.mark.parametrize("layout", ["cgroupfs", "systemd-containerd", "systemd-crio", "kind-systemd"])
async def test_a_batch_pod_and_its_container_get_their_limits_in_v2(tmp_path, layout):
    node = BatchNode(tmp_path, layout=layout, make=recorded.v2)
    node.strategy = OFF
    job = node.add("job", cpu="2k", request="570", memory="1Gi")
    await node.step()
    for container in (False, True):
        assert node.values(*V2_NAMES, pod=job, container=container) == ["23", "200000", "1073741824"]


async def test_weights_are_by_the_formula_that_the_kubelet_uses(tmp_path):
    node = BatchNode(tmp_path, make=recorded.v2)
    web = node.add("web", qos="burstable", label="LS", plain="1")
    node.file("cpu.weight", web).write_text("100\n")
    job = node.add("job", cpu="2k", request="570")
    await node.step()
    assert node.values("cpu.weight", pod=job) == ["65"]


@pytest.mark.parametrize("make", [recorded.v1, recorded.v2], ids=["v1", "v2"])
async def test_the_class_is_held_back_by_the_budget_and_recovers_in_steps(tmp_path, make):
    node = BatchNode(tmp_path, make=make)
    node.add("job", cpu="2k")
    await node.step()
    assert node.quota == "45000"
    assert node.metric("best_effort_limit_cpus") == 0.45
    assert node.metric("suppression", level="held-back") == 1
    node.use("other", 1400)
    await node.step()
    assert node.quota == "2000"
    node.use("other", 0)
    quotas = []
    for _ in range(7):
        await node.step()
        quotas.append(int(node.quota))
    assert quotas == [22000, 42000, 62000, 82000, 102000, 115000, 115000]


async def test_in_v1_a_pod_has_the_smaller_of_its_limit_and_the_quota_of_the_class(tmp_path):
    node = BatchNode(tmp_path)
    wide, small = node.add("wide", cpu="2k"), node.add("small", cpu="100")
    node.strategy = OFF
    await node.step()
    node.strategy = ON
    await node.step()
    assert [node.values("cpu.cfs_quota_us", pod=pod)[0] for pod in (wide, small)] == ["45000", "10000"]
    node.strategy = OFF
    await node.step()
    assert [node.values("cpu.cfs_quota_us", pod=pod)[0] for pod in (wide, small)] == ["200000", "10000"]


@pytest.mark.parametrize("make", [recorded.v1, recorded.v2], ids=["v1", "v2"])
@pytest.mark.parametrize("shape", GREEDY)
async def test_a_pod_with_any_number_of_cgroups_to_any_depth_frees_nobody_from_the_limits(tmp_path, make, shape):
    node = BatchNode(tmp_path, make=make)
    greedy, job = node.add("greedy", cpu="2k"), node.add("job", cpu="100")
    name = "cpu.max" if node.is_v2 else "cpu.cfs_quota_us"
    container = node.file(name, greedy, container=True).parent
    with greedy_pod(container, shape, V2_FILES if node.is_v2 else V1_FILES["cpu"]):
        await node.step(3)
        assert node.quota == "45000"
        of_greedy = "200000" if node.is_v2 else "45000"
        assert node.values(name, pod=greedy)[0].partition(" ")[0] == of_greedy
        assert node.values(name, pod=greedy, container=True)[0].partition(" ")[0] == of_greedy
        assert node.values(name, pod=job, container=True)[0].partition(" ")[0] == "10000"
        assert node.events.reasons == [], "nothing was refused"


@pytest.mark.parametrize("make", [recorded.v1, recorded.v2], ids=["v1", "v2"])
@pytest.mark.parametrize("way", ["switched-off", "last-pod-gone"])
async def test_the_quota_of_the_class_is_lifted_in_one_step(tmp_path, make, way):
    node = BatchNode(tmp_path, make=make)
    job = node.add("job", cpu="2k")
    await node.step(3)
    if way == "switched-off":
        node.strategy = OFF
    else:
        node.remove(job)
    await node.step()
    assert node.quota in ("-1", "max")
    assert list(node.marks.iterdir()) == []
    assert node.metric("best_effort_limit_cpus") == float("inf")


async def test_a_quota_of_others_stays_while_nothing_is_held_back(tmp_path):
    node = BatchNode(tmp_path)
    node.strategy = OFF
    node.add("job", cpu="500")
    node.file("cpu.cfs_quota_us").write_text("60000\n")
    await node.step(12)
    assert node.quota == "60000"


async def test_values_that_others_reset_are_ours_again_at_once_without_a_step_and_told_once(tmp_path, caplog):
    node = BatchNode(tmp_path)
    job = node.add("job", cpu="500", memory="1Gi")
    await node.step(2)
    for name in ("cpu.cfs_quota_us",):
        node.file(name).write_text("-1\n")
    with caplog.at_level(logging.WARNING):
        await node.step()
    assert node.quota == "45000"
    assert node.metric("batch_values_reset_by_others_total", value="quota") == 1
    assert "another process replaced" in caplog.text
    node.file("cpu.cfs_quota_us").write_text("22000\n")
    node.file("memory.limit_in_bytes", job).write_text("9223372036854771712\n")
    await node.step(10)
    assert node.quota == "45000"
    assert node.values("memory.limit_in_bytes", pod=job) == ["1073741824"]
    assert node.metric("batch_values_reset_by_others_total", value="memory") == 1
    assert node.events.reasons.count("BatchPodValuesReset") == 1


@pytest.mark.parametrize("make", [recorded.v1, recorded.v2], ids=["v1", "v2"])
async def test_what_systemd_lifts_when_the_kubelet_sets_shares_each_minute_is_written_again_and_no_fault(
    tmp_path, make, caplog
):
    node = BatchNode(tmp_path, layout="systemd-containerd", make=make)
    job = node.add("job", cpu="500", memory="1Gi")
    await node.step(2)
    quota, (name, none) = node.quota, ("cpu.max", "max 100000") if node.is_v2 else ("cpu.cfs_quota_us", "-1")
    node.file(name).write_text(f"{none}\n")
    with caplog.at_level(logging.WARNING):
        await node.step()
    assert node.quota == quota
    assert node.metric("batch_values_reset_by_others_total", value="quota") == 0
    assert "another process replaced" not in caplog.text
    node.file(name, job).write_text(f"{none}\n")
    await node.step(10)
    assert node.metric("batch_values_reset_by_others_total", value="quota") == 1, "the kubelet does not do this"


@pytest.mark.parametrize("make", [recorded.v1, recorded.v2], ids=["v1", "v2"])
async def test_a_burst_that_was_set_without_a_quota_is_lowered_before_the_quota_is_written(tmp_path, make):
    """The kernel refuses a quota below the burst, and takes any burst where there is no quota."""
    node = BatchNode(tmp_path, make=make)
    job = node.add("job", cpu="100")
    name = "cpu.max.burst" if node.is_v2 else "cpu.cfs_burst_us"
    for pod in (None, job):
        node.file(name, pod).write_text("150000\n")
    await node.step()
    assert node.values(name) == [node.quota]
    assert node.values(name, pod=job) == ["10000"]


@pytest.mark.parametrize("others", [1400, 0], ids=["shrinks", "grows"])
async def test_two_instances_in_a_rolling_update_undo_nothing_of_each_other(tmp_path, others):
    node = BatchNode(tmp_path)
    node.add("job", cpu="2k")
    await node.step(3)
    old, registries = node.part, [node.registry]
    node.start()
    new = node.part
    registries.append(node.registry)
    node.use("other", others)
    for second in range(40):
        node.part, node.system_milli = (old, 150.0) if second % 2 else (new, 157.0)
        await node.step()
    quota = {1400: (2000,), 0: (114300, 115000)}[others]
    assert int(node.quota) in quota
    for registry in registries:
        name, labels = "dra_reserve_node_batch_values_reset_by_others_total", {"value": "quota"}
        assert registry.get_sample_value(name, labels) == 0


async def test_without_samples_the_class_is_held_and_goes_to_its_floor(tmp_path):
    node = BatchNode(tmp_path)
    node.add("job", cpu="2k")
    await node.step(2)
    node.sampled = False
    node.use("other", 0)
    await node.step(59)
    assert (node.quota, node.metric("suppression", level="holding")) == ("45000", 1)
    await node.step()
    assert (node.quota, node.metric("suppression", level="floor")) == ("20000", 1)
    assert "not sampled for a minute" in node.events.texts["BatchPodsAtFloor"]
    node.sampled = True
    await node.step(6)
    assert node.quota == "115000"


async def test_until_the_strategies_are_known_nothing_changes(tmp_path):
    node = BatchNode(tmp_path)
    node.add("job", cpu="2k")
    await node.step(2)
    node.start()
    node.strategy = None
    await node.step(3)
    assert node.quota == "45000"
    node.strategy = OFF
    await node.step()
    assert node.quota == "-1", "the mark tells that the quota is ours"


async def test_after_a_restart_the_quota_goes_on_from_what_the_kernel_has(tmp_path):
    node = BatchNode(tmp_path)
    node.add("job", cpu="2k")
    await node.step(2)
    node.start()
    node.use("other", 0)
    await node.step()
    assert node.quota == "65000"


async def test_a_plugin_without_colocation_lifts_what_one_with_it_has_left(tmp_path):
    node = BatchNode(tmp_path)
    job = node.add("job", cpu="2k", memory="1Gi")
    await node.step(2)
    assert lift_quotas(SuppressionMark(node.marks), cgroup_root=node.root) == ""
    assert node.quota == "-1"
    assert node.values("cpu.cfs_quota_us", "memory.limit_in_bytes", pod=job) == ["-1", "1073741824"]
    assert list(node.marks.iterdir()) == []


@pytest.mark.parametrize(
    ("age", "lifted"),
    [
        pytest.param(None, False, id="no-mark-so-the-quota-is-somebody-elses"),
        pytest.param(20.0, False, id="another-instance-holds-back"),
        pytest.param(31.0, True, id="nobody-does-any-more"),
    ],
)
async def test_a_plugin_without_colocation_lifts_only_what_nobody_holds_any_more(tmp_path, age, lifted):
    node = BatchNode(tmp_path)
    node.add("job", cpu="2k")
    node.file("cpu.cfs_quota_us").write_text("60000\n")
    if age is not None:
        SuppressionMark(node.marks).set(("kubepods",))
        os.utime(node.marks / MARK_NAME, (time.time() - age,) * 2)
    task = asyncio.create_task(lift_marked_quotas(node.marks, cgroup_root=node.root))
    if lifted:
        await until(lambda: node.quota == "-1")
    else:
        await asyncio.sleep(0)
    task.cancel()
    assert node.quota == ("-1" if lifted else "60000")


async def test_the_mark_is_touched_while_the_class_is_held_back(tmp_path):
    node = BatchNode(tmp_path)
    node.add("job", cpu="2k")
    await node.step()
    os.utime(node.marks / MARK_NAME, (0, 0))
    assert SuppressionMark(node.marks).is_abandoned()
    await node.step()
    assert not SuppressionMark(node.marks).is_abandoned()


def test_the_mark_follows_a_kubelet_that_has_another_cgroup_now_and_comes_back_when_removed(tmp_path):
    mark = SuppressionMark(tmp_path)
    mark.set(("kubepods",))
    mark.set(("kubepods.slice",))
    assert mark.kubepods() == "kubepods.slice"
    (tmp_path / MARK_NAME).unlink()
    mark.set(("kubepods.slice",))
    assert SuppressionMark(tmp_path).is_set


async def test_reserved_cpus_count_if_they_are_more_than_the_system_uses(tmp_path):
    node = BatchNode(tmp_path)
    node.allocatable = "1500m"
    node.add("job", cpu="2k")
    await node.step()
    assert node.quota == "10000"


async def test_by_cpuset_the_writer_of_cpusets_gets_the_cpus(tmp_path):
    writer = Writer(CANDIDATES)
    node = BatchNode(tmp_path, writer=writer)
    node.strategy = CPUSET
    node.add("job", cpu="2k")
    await node.step(3)
    assert writer.limits == ["0-1"]
    assert node.quota == "-1"
    node.strategy = ON
    await node.step()
    assert (writer.limits[-1], node.quota) == ("", "45000")
    node.strategy = CPUSET
    await node.step()
    assert (writer.limits[-1], node.quota) == ("0-1", "-1")
    node.strategy = OFF
    await node.step()
    assert writer.limits[-1] == ""


async def test_a_limit_of_cpus_outlives_a_restart_of_the_plugin(tmp_path):
    writer = Writer(CANDIDATES)
    node = BatchNode(tmp_path, writer=writer)
    node.strategy = CPUSET
    node.add("job", cpu="2k")
    writer.limit_best_effort(parse("3-5"))
    node.sampled = False
    await node.step(2)
    assert writer.limits == ["3-5"], "as before, until there is a sample"
    node.sampled = True
    await node.step()
    assert writer.limits == ["3-5", "3-4"]


@pytest.mark.parametrize("strategy", [CPUSET, ON], ids=["cpuset", "quota"])
async def test_a_kernel_without_quotas_has_all_other_limits_and_no_quota_is_claimed(tmp_path, strategy):
    """CONFIG_CFS_BANDWIDTH is not set."""
    writer = Writer(CANDIDATES)
    node = BatchNode(tmp_path, writer=writer)
    job = node.add("job", cpu="2k", memory="1Gi")
    for file in node.root.rglob("cpu.cfs_*"):
        file.unlink()
    node.strategy = strategy
    await node.step(2)
    assert node.values("cpu.shares", "memory.limit_in_bytes", pod=job) == ["2048", "1073741824"]
    assert bool(writer.limits) is (strategy is CPUSET)
    assert node.metric("suppression", level="off") == (strategy is ON)
    assert not node.marks.exists()


def test_two_writers_of_cpusets_are_an_error_at_the_start(tmp_path):
    drivers = (Writer(CANDIDATES), object(), Writer(None))
    with pytest.raises(ValueError, match="node n1: 2 drivers write cpusets of pods"):
        create_batch_pods(node="n1", drivers=drivers, events=Events(), registry=CollectorRegistry(), marks=tmp_path)


@pytest.mark.parametrize("writer", [None, Writer(None)], ids=["no-cpu-driver", "kubelet-writes-cpusets"])
async def test_where_nobody_writes_cpusets_the_quota_holds_back_and_that_is_told(tmp_path, writer):
    node = BatchNode(tmp_path, writer=writer)
    node.strategy = CPUSET
    node.add("job", cpu="2k")
    await node.step()
    assert node.quota == "45000"
    assert "in place of cpuset" in node.events.texts["BatchPodsHeldBackByQuota"]


async def test_in_v2_memory_below_use_waits_until_it_fits_and_is_told(tmp_path):
    node = BatchNode(tmp_path, make=recorded.v2)
    job = node.add("job", memory="1Gi")
    for container in (False, True):
        node.file("memory.current", job, container=container).write_text("2147483648\n")
    await node.step()
    assert node.values("memory.max", pod=job) == ["max"]
    assert node.metric("batch_memory_over_limit") == 2
    assert "not in force" in node.events.texts["BatchMemoryOverLimit"]
    for container in (False, True):
        node.file("memory.current", job, container=container).write_text("4096\n")
    await node.step(10)
    assert node.values("memory.max", pod=job) == ["1073741824"]
    assert node.metric("batch_memory_over_limit") == 0


async def test_pods_that_are_not_ours_keep_their_values(tmp_path):
    node = BatchNode(tmp_path)
    burstable = node.add("plain", qos="burstable", cpu="500", memory="1Gi", plain="100m")
    unlabelled = node.add("unlabelled", cpu="500", label="")
    half = node.add("half", cpu="500")
    before = node.values(*V1_NAMES, pod=burstable)
    await node.step()
    assert node.values(*V1_NAMES, pod=burstable) == before
    assert node.values(*V1_NAMES, pod=unlabelled) == before
    assert node.values("memory.limit_in_bytes", pod=half) == before[2:]
    assert "default/plain" in node.events.texts["BatchPodNotLimited"]


async def test_a_pod_labelled_be_outside_of_the_class_counts_with_the_others(tmp_path):
    node = BatchNode(tmp_path)
    node.add("job", cpu="2k")
    node.add("plain", qos="burstable", cpu="500", plain="100m", milli=250)
    await node.step()
    assert node.quota == "20000"


async def test_pods_and_files_may_be_gone_at_any_time(tmp_path):
    node = BatchNode(tmp_path)
    job = node.add("job", cpu="2k")
    await node.step()
    folder = node.file("cpu.shares", job, container=True).parent
    for file in folder.iterdir():
        file.unlink()
    await node.step(11)
    assert node.quota == "45000"
