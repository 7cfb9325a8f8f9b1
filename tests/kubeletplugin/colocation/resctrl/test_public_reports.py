"""What users of other tools have reported about resctrl, tried on the part that divides caches.

Each test names the report; the text of a test's name says what happens here instead.
"""

import pytest

from dra.engine.resctrl.decide import ClassShare
from dra.engine.resctrl.groups import ResctrlGroup
from dra.engine.resctrl.support import resctrl_support
from tests.dra.engine.resctrl import machines
from tests.dra.engine.resctrl.fake_kernel import ROOT
from tests.dra.engine.resctrl.machines import Machine
from tests.kubeletplugin.colocation.resctrl.nodes import Node

BE, LS, LSR = ResctrlGroup.BE, ResctrlGroup.LS, ResctrlGroup.LSR
HALF = {BE: ClassShare(cache_end=50, bandwidth=50)}

pytestmark = pytest.mark.asyncio


@pytest.fixture
def make(monkeypatch):
    return lambda machine: Node(machine, monkeypatch)


def reasons(node):
    return [reason for reason, _ in node.events.recorded]


async def test_koordinator_1777_domains_8_to_15_do_not_exist_and_all_others_are_written(make):
    node = make(machines.AMD_SPARSE)
    await node.round(HALF)
    assert set(node.kernel.groups["BE"]["L3"]) == {*range(8), *range(16, 24)}
    assert set(node.kernel.groups["BE"]["L3"].values()) == {0xFF}
    assert set(node.kernel.groups["BE"]["MB"].values()) == {80}
    assert reasons(node) == []


async def test_koordinator_2052_cache_and_bandwidth_have_different_domains_and_each_gets_its_own(make):
    files = {**machines.INTEL.files, "schemata": "    MB:0=100\n    L3:0=3ff;2=3ff\n"}
    node = make(Machine(files))
    await node.round(HALF)
    assert node.kernel.groups["BE"] == {"MB": {0: 50}, "L3": {0: 0x1F, 2: 0x1F}}


async def test_koordinator_2637_a_thread_id_that_was_moved_once_is_moved_again_for_another_pod(make):
    node = make(machines.INTEL)
    for name in ("first", "second"):
        node.run_pod(name, "BE", 4711)
        await node.round(HALF)
        assert node.kernel.tasks("BE") == {4711}
        node.end_pod(name)


async def test_goresctrl_89_no_empty_line_is_written_for_what_the_strategy_leaves_out(make):
    node = make(machines.INTEL)
    await node.round({BE: ClassShare(cache_start=None, cache_end=None, bandwidth=None)})
    assert node.kernel.writes == ["record BE", "mkdir BE"]


async def test_goresctrl_100_no_strategy_gives_a_socket_an_empty_mask(make):
    node = make(machines.INTEL)
    await node.round({BE: ClassShare(cache_start=99, cache_end=100)})
    assert node.kernel.groups["BE"]["L3"] == {0: 0x200, 1: 0x200}


async def test_intel_cmt_cat_204_groups_of_pqos_hold_all_closids_and_the_node_names_them(make):
    node = make(machines.CACHE_ONLY)
    for name in (*(f"COS{number}" for number in range(1, 14)), "p0", "p1"):
        node.kernel.make_group(name)
    before = len(node.kernel.writes)
    node.run_pod("sort", "BE", 20)
    await node.round(HALF)
    assert len(node.kernel.writes) == before
    assert node.kernel.tasks(ROOT) >= {20}
    assert "COS1, COS10, COS11, COS12, COS13 and 10 more" in node.events.recorded[0][1]


async def test_runc_1878_a_group_that_a_container_gives_back_is_taken_in_the_next_round(make):
    node = make(machines.INTEL)
    for number in range(7):
        node.kernel.make_group(f"container-{number}")
    node.run_pod("sort", "BE", 20)
    await node.round(HALF)
    assert reasons(node) == ["ResctrlGroupsExhausted"]
    node.kernel.remove_group("container-3")
    await node.round(HALF)
    assert node.kernel.tasks("BE") == {20}
    assert node.metric("dra_reserve_node_resctrl_impaired", reason="ResctrlGroupsExhausted") == 0


async def test_collectd_3764_monitoring_groups_take_no_closid(make):
    files = {**machines.INTEL.files, **{f"mon_groups/pqos-51-{number}/tasks": "" for number in range(50)}}
    node = make(Machine(files))
    await node.round(HALF)
    assert "BE" in node.kernel.groups


async def test_intel_cmt_cat_290_an_administrator_remounts_and_nothing_is_lost(make):
    node = make(machines.CDP)
    node.run_pod("sort", "BE", 20)
    await node.round(HALF)
    node.kernel.mounted = False
    await node.round(HALF)
    node.kernel.remount()
    node.kernel.mounted = True
    await node.round(HALF)
    assert node.kernel.groups["BE"]["L3CODE"] == {0: 0x3FF, 1: 0x3FF}
    assert node.kernel.tasks("BE") == {20}
    assert reasons(node) == ["ResctrlUnavailable"]


async def test_cadvisor_3334_a_process_with_many_threads_is_moved_thread_by_thread(make):
    node = make(machines.INTEL)
    node.run_pod("sort", "BE", *range(100, 180))
    await node.round(HALF)
    assert node.kernel.tasks("BE") == set(range(100, 180))


async def test_runc_3550_a_machine_that_divides_l2_only_is_left_to_its_administrator(make):
    node = make(machines.L2_ONLY)
    node.kernel.make_group("c0")
    node.kernel.write_line("c0", "L2:0=03;1=03\n")
    before = len(node.kernel.writes)
    await node.round(HALF)
    assert len(node.kernel.writes) == before
    assert reasons(node) == ["ResctrlUnavailable"]


async def test_linux_xuantie_kernel_281_a_machine_whose_mask_reads_zero_is_refused_not_written(make):
    node = make(machines.ZERO_MASK)
    await node.round(HALF)
    assert not any(write.startswith("BE L3") for write in node.kernel.writes)
    assert reasons(node) == ["ResctrlStrategyRefused"]


async def test_runtime_spec_988_a_container_with_a_closid_of_its_own_keeps_it(make):
    node = make(machines.INTEL)
    node.kernel.make_group("guaranteed_group")
    node.run_pod("db", "LSR", 30, 31)
    node.kernel.move_tasks("guaranteed_group", [30, 31])
    await node.round({LSR: ClassShare(cache_start=50)})
    assert node.kernel.tasks("guaranteed_group") == {30, 31}
    assert reasons(node) == ["ResctrlTasksLeft"]


async def test_intel_cmt_cat_276_a_mount_that_counts_megabytes_gets_no_percentage(make):
    node = make(machines.MEGABYTES)
    await node.round(HALF)
    assert node.kernel.groups["BE"] == {"MB": {0: 4294967295, 1: 4294967295}, "L3": {0: 0x1F, 1: 0x1F}}
    assert reasons(node) == ["ResctrlStrategyRefused"]


async def test_intel_cmt_cat_108_a_machine_whose_cache_is_not_listed_is_limited_in_bandwidth_alone(make):
    files = {path: text for path, text in machines.INTEL.files.items() if not path.startswith("info/L3/")} | {
        "schemata": "MB:0=100;1=100\n"
    }
    node = make(Machine(files))
    await node.round(HALF)
    assert node.kernel.groups["BE"] == {"MB": {0: 50, 1: 50}}
    assert resctrl_support(node.kernel.read_tree()).startswith(
        "L3 cache: cannot be divided; memory bandwidth: from 10 %"
    )


async def test_workload_collocation_agent_247_steps_are_those_of_the_machine(make):
    node = make(machines.INTEL_TWO_WAYS)
    await node.round(HALF)
    assert node.kernel.groups["BE"]["MB"] == {0: 60}
    await node.round(HALF)
    assert sum(write.startswith("BE MB") for write in node.kernel.writes) == 1
