"""The part that divides caches, on a kernel that refuses what the real one refuses."""

import asyncio
import contextlib
import errno
import threading
from unittest.mock import Mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dra.engine.resctrl.bandwidth import BandwidthError, BandwidthUnit, bandwidth
from dra.engine.resctrl.cache_masks import cache_mask
from dra.engine.resctrl.decide import FULL, ClassShare
from dra.engine.resctrl.groups import ResctrlGroup
from dra.engine.resctrl.tree import bandwidth_steps, cache_ways
from tests.dra.engine.resctrl import machines
from tests.dra.engine.resctrl.fake_kernel import ROOT, WRITER, Killed
from tests.kubeletplugin.colocation.resctrl.nodes import Node

BE, LS, LSR = ResctrlGroup.BE, ResctrlGroup.LS, ResctrlGroup.LSR
THIRD = {LS: ClassShare(), BE: ClassShare(cache_end=30, bandwidth=50)}

pytestmark = pytest.mark.asyncio


@pytest.fixture
def node(monkeypatch):
    return Node(machines.INTEL, monkeypatch)


async def test_pods_of_each_class_are_divided_in_one_round(node):
    node.run_pod("web", "LS", 10, 11)
    node.run_pod("sort", "BE", 20)
    node.run_pod("db", "LSE", 30)
    await node.round({**THIRD, LSR: ClassShare(cache_start=50)})
    assert node.kernel.groups["BE"] == {"MB": {0: 50, 1: 50}, "L3": {0: 0x7, 1: 0x7}}
    assert node.kernel.groups["LS"] == node.kernel.defaults
    assert node.kernel.groups["LSR"]["L3"] == {0: 0x3E0, 1: 0x3E0}
    assert [node.kernel.tasks(group) for group in ("LS", "BE", "LSR", ROOT)] == [{10, 11}, {20}, {30}, {WRITER}]
    assert node.events.recorded == []


async def test_a_group_has_its_limits_before_the_first_thread_enters(node):
    node.run_pod("sort", "BE", 20)
    await node.round(THIRD)
    kinds = [write.split()[1] if write.startswith("BE") else write.split()[0] for write in node.kernel.writes]
    assert kinds == ["record", "mkdir", "mkdir", "L3:0=7;1=7", "MB:0=50;1=50", "task"]


async def test_a_round_without_a_change_writes_nothing(node):
    node.run_pod("sort", "BE", 20)
    await node.round(THIRD)
    before = len(node.kernel.writes)
    for _ in range(3):
        await node.round(THIRD)
    assert len(node.kernel.writes) == before


async def test_threads_that_start_while_others_are_moved_follow_in_the_same_round(node):
    node.run_pod("sort", "BE", 20)
    node.kernel.forks = iter([(20, 21), (21, 22), (22, 23)])
    await node.round(THIRD)
    assert node.kernel.tasks("BE") >= {20, 21, 22}
    await node.round(THIRD)
    assert node.kernel.tasks("BE") == {20, 21, 22, 23}


async def test_threads_that_start_faster_than_they_are_moved_do_not_hold_a_round_up(node):
    node.run_pod("sort", "BE", 20)
    node.kernel.forks = ((20, number) for number in range(1000, 100_000))
    await node.round(THIRD)
    assert 1 < len(node.kernel.tasks("BE")) < 20


async def test_an_id_that_is_used_again_is_looked_at_again(node):
    node.run_pod("sort", "BE", 20)
    await node.round(THIRD)
    node.end_pod("sort")
    node.run_pod("web", "LS", 20)
    await node.round(THIRD)
    node.end_pod("web")
    node.run_pod("sort", "BE", 20)
    await node.round(THIRD)
    assert node.kernel.tasks("BE") == {20}


async def test_a_thread_that_ends_before_its_move_is_in_order(node):
    node.run_pod("sort", "BE", 20, 21)
    node.kernel.exit(21)
    await node.round(THIRD)
    assert node.kernel.tasks("BE") == {20}
    assert node.events.recorded == []


async def test_the_writer_is_never_moved_by_an_id_of_another_pid_namespace(node):
    node.run_pod("sort", "BE", 0)
    await node.round(THIRD)
    assert WRITER in node.kernel.tasks(ROOT)
    assert not any("task 0" in write for write in node.kernel.writes)


async def test_without_the_hosts_process_ids_nothing_is_written_and_the_node_says_so(node):
    node.kernel.host_pids = False
    node.run_pod("sort", "BE", 20)
    await node.round(THIRD)
    assert node.kernel.writes == []
    assert [reason for reason, _ in node.events.recorded] == ["ResctrlHostPIDsHidden"]
    assert node.metric("dra_reserve_node_resctrl_impaired", reason="ResctrlHostPIDsHidden") == 1


async def test_pods_in_virtual_machines_stay_in_the_root_group_and_are_named(node):
    node.run_pod("sort", "BE", 20, runtime_class="kata-qemu")
    node.run_pod("copy", "BE", 21)
    await node.round(THIRD)
    assert node.kernel.tasks("BE") == {21}
    ((reason, text),) = node.events.recorded
    assert (reason, text.split(": ")[-1]) == ("ResctrlPodsExcluded", "ml/sort")


async def test_a_pod_with_more_cgroups_than_are_read_is_named_and_its_known_threads_are_moved(node):
    node.run_pod("sort", "BE", 20)
    node.unread.add("sort")
    await node.round(THIRD)
    assert node.kernel.tasks("BE") == {20}
    ((reason, text),) = node.events.recorded
    assert (reason, text.split(": ")[-1]) == ("ResctrlThreadsUnread", "ml/sort")


async def test_a_state_that_lasts_is_told_once_and_again_after_it_was_over(node):
    node.run_pod("sort", "BE", 20)
    for mounted in (False, False, True, False):
        node.kernel.mounted = mounted
        await node.round(THIRD)
    assert [reason for reason, _ in node.events.recorded] == ["ResctrlUnavailable", "ResctrlUnavailable"]


async def test_a_remount_by_an_administrator_is_made_good_in_the_next_round(node):
    node.run_pod("sort", "BE", 20)
    await node.round(THIRD)
    node.kernel.remount()
    await node.round(THIRD)
    assert node.kernel.tasks("BE") == {20}
    assert node.kernel.groups["BE"]["L3"] == {0: 0x7, 1: 0x7}


async def test_a_group_that_somebody_removes_comes_back_with_its_threads(node):
    node.run_pod("sort", "BE", 20)
    await node.round(THIRD)
    node.kernel.remove_group("BE")
    await node.round(THIRD)
    assert node.kernel.tasks("BE") == {20}


async def test_another_writers_numbers_are_ours_again_in_the_next_round(node):
    await node.round(THIRD)
    node.kernel.write_line("BE", "L3:1=3ff\n")
    await node.round(THIRD)
    assert node.kernel.writes[-1] == "BE L3:1=7"


async def test_a_line_that_the_kernel_refuses_keeps_no_other_line_and_no_thread_from_its_place(node):
    node.kernel.make_group("COS1")
    node.kernel.write_line("COS1", "L3:0=1;1=1\n")
    node.kernel.modes["COS1"] = "exclusive"
    node.run_pod("sort", "BE", 20)
    await node.round(THIRD)
    assert node.kernel.groups["BE"]["MB"] == {0: 50, 1: 50}
    assert node.kernel.tasks("BE") == {20}
    assert [text.split(": ", 1)[1] for _, text in node.events.recorded] == [
        "L3:0=7;1=7 is refused: Invalid argument: Overlaps with exclusive group"
    ]


async def test_a_group_that_cannot_be_made_for_lack_of_monitoring_ids_is_told(node, monkeypatch):
    monkeypatch.setattr(node.kernel, "make_group", Mock(side_effect=OSError(errno.ENOSPC, "Out of RMIDs")))
    await node.round(THIRD)
    assert {reason for reason, _ in node.events.recorded} == {"ResctrlGroupsExhausted"}


async def test_without_a_record_of_the_groups_none_is_made(node, monkeypatch):
    monkeypatch.setattr(node.record, "write", Mock(side_effect=OSError(errno.ENOSPC, "disk full")))
    await node.round(THIRD)
    assert node.kernel.writes == []
    ((_, text),) = node.events.recorded
    assert text == "resctrl: the record of groups is not written: No space left on device"


async def test_groups_and_threads_of_other_tools_are_never_touched(node):
    node.kernel.make_group("COS1")
    node.kernel.write_line("COS1", "L3:0=30;1=30\n")
    node.run_pod("sort", "BE", 20, 21)
    node.kernel.move_tasks("COS1", [21])
    before = len(node.kernel.writes)
    for shares in (THIRD, {}):
        await node.round(shares)
        await node.round(shares)
    assert not any("COS1" in write for write in node.kernel.writes[before:])
    assert node.kernel.tasks("COS1") == {21}
    assert [reason for reason, _ in node.events.recorded] == ["ResctrlTasksLeft"]


async def test_switched_off_full_masks_are_restored_nobody_moves_and_then_nothing_is_touched(node):
    node.run_pod("sort", "BE", 20)
    await node.round(THIRD)
    await node.round({})
    assert node.kernel.groups["BE"] == node.kernel.defaults
    assert node.kernel.tasks("BE") == {20}
    assert node.record.groups == frozenset()
    node.kernel.write_line("BE", "L3:0=1\n")  # an administrator, by hand
    before = len(node.kernel.writes)
    await node.round({})
    assert len(node.kernel.writes) == before


async def test_switched_off_from_the_start_the_groups_of_another_agent_stay_as_they_are(node):
    node.kernel.make_group("BE")
    node.kernel.write_line("BE", "L3:0=7;1=7\n")
    before = list(node.kernel.writes)
    await node.round({})
    node.part.restore()
    assert node.kernel.writes == before


async def test_before_the_strategy_is_known_nothing_is_restored(node):
    node.run_pod("sort", "BE", 20)
    await node.round(THIRD)
    node.start()
    before = len(node.kernel.writes)
    await node.round(None)
    assert len(node.kernel.writes) == before


async def test_a_plugin_that_stops_restores_and_divides_again_when_it_starts(node):
    node.run_pod("sort", "BE", 20)
    await node.round(THIRD)
    node.part.restore()
    assert node.kernel.groups["BE"] == node.kernel.defaults
    node.start()
    await node.round(THIRD)
    assert node.kernel.groups["BE"]["L3"] == {0: 0x7, 1: 0x7}


async def test_the_old_instance_of_a_rolling_update_that_stops_is_made_good_by_the_new_one(node):
    node.run_pod("sort", "BE", 20)
    await node.round(THIRD)
    old = node.part
    node.start()
    await node.round(THIRD)
    old.restore()
    assert node.kernel.groups["BE"] == node.kernel.defaults
    await node.round(THIRD)
    assert node.kernel.groups["BE"]["L3"] == {0: 0x7, 1: 0x7}
    assert node.record.groups == {BE, LS}


async def test_a_round_that_is_still_under_way_when_the_plugin_stops_does_not_undo_the_restoration(node, monkeypatch):
    began, go_on = threading.Event(), threading.Event()
    read_tree = node.kernel.read_tree

    def read_slowly():
        began.set()
        assert go_on.wait(10)
        return read_tree()

    node.run_pod("sort", "BE", 20)
    monkeypatch.setattr(node.kernel, "read_tree", read_slowly)
    under_way = asyncio.create_task(node.round(THIRD))
    await asyncio.to_thread(began.wait, 10)
    stopping = asyncio.create_task(asyncio.to_thread(node.part.restore))
    go_on.set()
    await asyncio.gather(under_way, stopping)
    await node.round(THIRD)
    assert node.kernel.groups["BE"] == node.kernel.defaults
    assert node.record.groups == frozenset()


async def test_a_new_pod_does_not_wait_for_the_next_interval(node):
    await node.round(THIRD)
    node.run_pod("sort", "BE", 20)
    await node.part.step(node.state(THIRD), node.now + 1)
    assert node.kernel.tasks("BE") == {20}


async def test_between_intervals_nothing_is_read(node, monkeypatch):
    await node.round(THIRD)
    monkeypatch.setattr(node.kernel, "read_tree", None)
    await node.part.step(node.state(THIRD), node.now + 1)


SHARES = st.builds(
    lambda ends, percent: ClassShare(cache_start=min(ends), cache_end=max(ends), bandwidth=percent),
    st.tuples(st.integers(0, 100), st.integers(0, 100)).filter(lambda ends: ends[0] != ends[1]),
    st.integers(1, 100),
)
STRATEGIES = st.dictionaries(st.sampled_from(ResctrlGroup), SHARES)
MACHINES = [
    machines.INTEL,
    machines.INTEL_TWO_WAYS,
    machines.AMD,
    machines.AMD_SPARSE,
    machines.CDP,
    machines.MEGABYTES,
]


SITUATIONS = st.fixed_dictionaries(
    {
        "machine": st.sampled_from(MACHINES),
        "strategies": st.lists(STRATEGIES, min_size=1, max_size=3),
        "kills": st.lists(st.integers(0, 12), max_size=6),
        "others": st.integers(0, 8),
        "classes": st.lists(st.sampled_from(["BE", "LS", "LSR", "LSE", "SYSTEM"]), max_size=5),
    }
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(situation=SITUATIONS)
async def test_killed_before_any_write_the_next_start_settles(monkeypatch, situation):
    node, strategies = Node(situation["machine"], monkeypatch), situation["strategies"]
    for number in range(min(situation["others"], node.kernel.closids() - 1)):
        node.kernel.make_group(f"COS{number}")
    foreign = {name: str(lines) for name, lines in node.kernel.groups.items()}
    for number, named in enumerate(situation["classes"]):
        node.run_pod(f"pod-{number}", named, 100 + 2 * number, 101 + 2 * number)
    for kill in situation["kills"]:
        node.kernel.kill_at = kill
        for shares in strategies:
            try:
                await node.round(shares)
            except Killed:
                node.start()
    node.kernel.kill_at = None
    await node.round(strategies[-1])
    _assert_settled(node, strategies[-1], was_on={group for shares in strategies for group in shares})
    assert {name: str(node.kernel.groups[name]) for name in foreign} == foreign
    assert WRITER in node.kernel.tasks(ROOT)
    writes = len(node.kernel.writes)
    await node.round(strategies[-1])
    assert len(node.kernel.writes) == writes


def _assert_settled(node, shares, *, was_on):
    tree = node.kernel.read_tree()
    for group in tree.groups:
        assert group in was_on
        _assert_numbers(node.kernel.groups[group], shares.get(group, FULL), tree)
    if shares:
        missing = shares.keys() - tree.groups.keys()
        assert not missing or len(node.kernel.groups) == node.kernel.closids()
    else:
        assert node.record.groups == frozenset()
    for named, threads in node.pods.values():
        group = ResctrlGroup.LSR if named == "LSE" else named
        if group in shares and group in tree.groups:
            assert threads <= node.kernel.tasks(group)
        if group == "SYSTEM":
            assert threads <= node.kernel.tasks(ROOT)


def _assert_numbers(lines, share, tree):
    ways, steps = cache_ways(tree), bandwidth_steps(tree)
    mask = cache_mask(share.cache_start, share.cache_end, ways=ways).bits
    for name, domains in lines.items():
        if name.startswith("L3"):
            assert set(domains.values()) == {mask}
    if steps.unit is not BandwidthUnit.MEGABYTES:
        with contextlib.suppress(BandwidthError):  # refused: whatever was there before
            assert set(lines["MB"].values()) == {bandwidth(share.bandwidth, steps=steps)}


async def test_a_round_runs_beside_the_loop(node):
    """Reading thousands of threads takes a while; the plugin answers the kubelet meanwhile."""
    node.run_pod("sort", "BE", 20)
    task = asyncio.create_task(node.round(THIRD))
    await asyncio.sleep(0)
    assert not task.done()
    await task
