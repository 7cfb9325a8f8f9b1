"""Steps that bring the control groups of a machine to a strategy."""

import errno

import pytest

from dra.engine.resctrl.actions import MakeGroup, MoveTasks, RecordGroups, WriteLine, refusal
from dra.engine.resctrl.decide import TASKS_PER_DECISION, ClassShare, ResctrlView, decide
from dra.engine.resctrl.groups import ResctrlGroup
from dra.engine.resctrl.reasons import ResctrlCode
from tests.dra.engine.resctrl import machines
from tests.dra.engine.resctrl.fake_kernel import FakeKernel
from tests.violations import for_each_case

BE, LS, LSR = ResctrlGroup.BE, ResctrlGroup.LS, ResctrlGroup.LSR
ALL = frozenset({BE, LS, LSR})
THIRD = ClassShare(cache_end=30)


def kernel(machine, *groups, **lines):
    """Return a machine with groups, some of them with other lines than a new group has."""
    made = FakeKernel(machine)
    for name in (*groups, *lines):
        made.make_group(name)
    for name, text in lines.items():
        made.write_line(name, text)
    return made


def plan(made, shares, *, recorded=ALL, **view):
    return decide(ResctrlView(tree=made.read_tree(), shares=shares, recorded=recorded, **view))


def lines(made, shares, **view):
    return [
        (action.group, action.line) for action in plan(made, shares, **view).actions if isinstance(action, WriteLine)
    ]


def codes(made, shares, **view):
    return [reason.code for reason in plan(made, shares, **view).reasons]


EACH = ";".join
IDS = [*range(8), *range(16, 24)]


@for_each_case(
    [
        pytest.param(machines.INTEL, THIRD, ["L3:0=7;1=7\n"], id="release-notes-on-intel"),
        pytest.param(machines.INTEL, ClassShare(), [], id="full-share-of-a-new-group-needs-no-write"),
        pytest.param(
            machines.AMD, THIRD, [f"L3:{EACH(f'{domain}=1f' for domain in range(16))}\n"], id="release-notes-on-amd"
        ),
        pytest.param(
            machines.AMD,
            ClassShare(bandwidth=30),
            [f"MB:{EACH(f'{domain}=48' for domain in range(16))}\n"],
            id="amd-limits-in-eighths-of-gigabytes-and-leaves-slow-memory",
        ),
        pytest.param(
            machines.AMD_SPARSE,
            ClassShare(cache_end=30, bandwidth=30),
            [f"L3:{EACH(f'{domain}=1f' for domain in IDS)}\n", f"MB:{EACH(f'{domain}=48' for domain in IDS)}\n"],
            id="ids-that-are-sparse-come-from-the-groups-own-line",
        ),
        pytest.param(
            machines.CDP,
            THIRD,
            ["L3CODE:0=3f;1=3f\n", "L3DATA:0=3f;1=3f\n"],
            id="code-and-data-apart-get-the-same-mask",
        ),
        pytest.param(
            machines.INTEL_TWO_WAYS,
            ClassShare(cache_end=5, bandwidth=55),
            ["L3:0=3\n", "MB:0=60\n"],
            id="steps-and-least-ways-of-the-machine",
        ),
        pytest.param(machines.MEGABYTES, ClassShare(cache_end=30, bandwidth=30), ["L3:0=7;1=7\n"], id="megabytes"),
        pytest.param(machines.CACHE_ONLY, ClassShare(bandwidth=30), [], id="no-line-for-what-the-machine-lacks"),
        pytest.param(
            machines.INTEL, ClassShare(cache_start=None, cache_end=30, bandwidth=50), ["MB:0=50;1=50\n"], id="no-range"
        ),
        pytest.param(machines.INTEL, ClassShare(cache_end=30, bandwidth=0), ["L3:0=7;1=7\n"], id="no-percentage"),
    ]
)
def test_a_new_group_gets_the_lines_of_its_share(machine, share, written):
    assert lines(kernel(machine, "BE"), {BE: share}) == [(BE, line) for line in written]


def test_only_what_differs_is_written_and_each_resource_for_itself():
    made = kernel(machines.AMD_SPARSE, BE="MB:16=48\n")
    (written,) = lines(made, {BE: ClassShare(bandwidth=30)})
    assert written == (BE, f"MB:{EACH(f'{domain}=48' for domain in IDS if domain != 16)}\n")
    made.write_line(*written)
    assert plan(made, {BE: ClassShare(bandwidth=30)}).actions == ()


@pytest.mark.parametrize(
    ("machine", "share", "code", "text"),
    [
        pytest.param(
            machines.INTEL,
            ClassShare(cache_start=11, cache_end=19),
            ResctrlCode.MASK_WIDENED,
            "resctrl group BE: gets the ways 2 of the L3 cache, more than 11-19 % of 10 ways: the least that the "
            "machine accepts is 1",
            id="empty-mask-is-widened",
        ),
        pytest.param(
            machines.AMD, ClassShare(bandwidth=9), ResctrlCode.STRATEGY_REFUSED, "the least is 10", id="amd-below-ten"
        ),
        pytest.param(
            machines.MEGABYTES, ClassShare(bandwidth=30), ResctrlCode.STRATEGY_REFUSED, "mba_MBps", id="mount-option"
        ),
        pytest.param(
            machines.INTEL,
            ClassShare(cache_start=-10, cache_end=50),
            ResctrlCode.STRATEGY_REFUSED,
            "-10-50 %",
            id="negative",
        ),
        pytest.param(
            machines.ZERO_MASK,
            THIRD,
            ResctrlCode.STRATEGY_REFUSED,
            "cbm_mask 0 is not",
            id="machine-with-an-empty-mask",
        ),
    ],
)
def test_what_cannot_be_done_as_said_is_told(machine, share, code, text):
    (reason,) = plan(kernel(machine, "BE"), {BE: share}).reasons
    assert reason.code is code
    assert text in reason.text


def test_a_refused_percentage_leaves_the_group_as_it_is():
    made = kernel(machines.AMD, BE="MB:0=48\n")
    assert lines(made, {BE: ClassShare(bandwidth=1)}) == []


def test_a_mount_in_megabytes_without_a_limit_is_nothing_to_tell():
    assert codes(kernel(machines.MEGABYTES, "BE"), {BE: ClassShare()}) == []


def test_groups_are_recorded_then_made_and_written_only_when_they_are_there():
    made = FakeKernel(machines.INTEL)
    shares = {LS: ClassShare(), BE: THIRD}
    first = plan(made, shares, recorded=frozenset(), threads={BE: {7}})
    assert first.actions == (RecordGroups(frozenset({BE, LS})), MakeGroup(BE), MakeGroup(LS))
    for group in (BE, LS):
        made.make_group(group)
    second = plan(made, shares, recorded=frozenset({BE, LS}), threads={BE: {7}})
    assert second.actions == (WriteLine(BE, "L3:0=7;1=7\n"), MoveTasks(BE, (7,)))


@pytest.mark.parametrize(
    ("others", "made_now", "left"),
    [
        pytest.param(4, [BE, LS, LSR], [], id="enough"),
        pytest.param(5, [BE, LS], ["LSR"], id="two"),
        pytest.param(6, [BE], ["LS", "LSR"], id="one"),
        pytest.param(7, [], ["BE", "LS", "LSR"], id="none"),
        pytest.param(9, [], ["BE", "LS", "LSR"], id="less-than-none"),
    ],
)
def test_closids_go_to_be_first_and_those_left_out_are_told(others, made_now, left):
    made = FakeKernel(machines.INTEL)  # MB has the fewest closids: 8, one of them the root's
    for number in range(others):
        made.groups[f"COS{number}"] = made.groups[""]
    result = plan(made, dict.fromkeys(ALL, THIRD), recorded=frozenset())
    assert [action.group for action in result.actions if isinstance(action, MakeGroup)] == made_now
    told = [reason.text for reason in result.reasons if reason.code is ResctrlCode.GROUPS_EXHAUSTED]
    assert [text.split(":")[0].split()[-1] for text in told] == left
    assert all("COS0, COS1, COS2, COS3, COS4" in text for text in told)


def test_with_code_and_data_apart_there_are_half_as_many_closids():
    made = FakeKernel(machines.CDP)
    for number in range(6):
        made.make_group(f"COS{number}")
    assert [
        action.group for action in plan(made, dict.fromkeys(ALL, THIRD)).actions if isinstance(action, MakeGroup)
    ] == [BE]


@pytest.mark.parametrize("mode", ["exclusive", "pseudo-locksetup", "pseudo-locked"])
def test_a_group_that_another_tool_has_set_up_is_not_touched(mode):
    made = kernel(machines.INTEL, "BE")
    made.modes["BE"] = mode
    result = plan(made, {BE: THIRD}, recorded=frozenset(), threads={BE: {7}})
    assert result.actions == ()
    assert [reason.code for reason in result.reasons] == [ResctrlCode.GROUP_TAKEN]


def test_a_group_whose_text_is_not_numbers_is_not_written():
    made = kernel(machines.INTEL, "BE")
    tree = made.read_tree()
    odd = type(tree.groups[BE])(schemata="L3:uninitialized\n")
    view = ResctrlView(tree=type(tree)(**{**_fields(tree), "groups": {BE: odd}}), shares={BE: THIRD}, recorded=ALL)
    assert [reason.code for reason in decide(view).reasons] == [ResctrlCode.GROUP_TAKEN]
    assert decide(view).actions == ()


def _fields(tree):
    return {name: getattr(tree, name) for name in tree.__struct_fields__}


@pytest.mark.parametrize(
    ("threads", "present", "foreign", "moved"),
    [
        pytest.param({5, 6}, set(), set(), (5, 6), id="new-threads"),
        pytest.param({5, 6}, {5}, set(), (6,), id="those-that-are-there-stay"),
        pytest.param({0, 5}, set(), set(), (5,), id="id-0-would-move-the-writer"),
        pytest.param({5, 6}, set(), {6}, (5,), id="threads-in-a-group-of-another-tool-stay"),
        pytest.param({5}, {5, 9}, set(), None, id="threads-of-ended-pods-are-left"),
    ],
)
def test_threads_of_pods_are_moved_to_their_group(threads, present, foreign, moved):
    made = kernel(machines.INTEL, "BE", "COS1")
    made.threads |= dict.fromkeys(present, "BE") | dict.fromkeys(foreign, "COS1")
    result = plan(made, {BE: ClassShare()}, threads={BE: threads})
    assert result.actions == (() if moved is None else (MoveTasks(BE, moved),))
    assert (ResctrlCode.TASKS_LEFT in [reason.code for reason in result.reasons]) == bool(foreign)


def test_a_decision_moves_a_bounded_number_of_threads():
    made = kernel(machines.INTEL, "BE")
    (move,) = plan(made, {BE: ClassShare()}, threads={BE: frozenset(range(1, 30_000))}).actions
    assert len(move.tasks) == TASKS_PER_DECISION


def test_threads_of_a_class_that_is_off_are_not_moved_and_its_group_gets_everything():
    made = kernel(machines.INTEL, BE="L3:0=7;1=7\n", LS="MB:0=10;1=20\n")
    result = plan(made, {BE: THIRD}, threads={LS: {5}})
    assert result.actions == (WriteLine(LS, "MB:0=100;1=100\n"),)


@pytest.mark.parametrize(
    ("machine", "narrow", "full"),
    [
        pytest.param(
            machines.INTEL, "L3:0=7;1=7\nMB:0=30;1=30\n", ["L3:0=3ff;1=3ff\n", "MB:0=100;1=100\n"], id="intel"
        ),
        pytest.param(machines.AMD, "L3:3=1f\nMB:3=48\n", ["L3:3=ffff\n", "MB:3=2048\n"], id="amd"),
        pytest.param(
            machines.CDP, "L3CODE:0=1\nL3DATA:1=1\n", ["L3CODE:0=fffff\n", "L3DATA:1=fffff\n"], id="code-and-data"
        ),
        pytest.param(machines.MEGABYTES, "L3:0=1\nMB:0=30\n", ["L3:0=3ff\n"], id="megabytes-were-never-ours"),
    ],
)
def test_switched_off_full_masks_come_first_and_then_the_record_goes(machine, narrow, full):
    made = kernel(machine, BE=narrow)
    off = plan(made, {}, recorded=frozenset({BE}), threads={BE: {5}})
    assert off.actions == tuple(WriteLine(BE, line) for line in full)
    for action in off.actions:
        made.write_line(action.group, action.line)
    assert plan(made, {}, recorded=frozenset({BE})).actions == (RecordGroups(frozenset()),)
    assert plan(made, {}, recorded=frozenset()).actions == ()


def test_off_and_never_on_nothing_of_another_agents_groups_is_touched():
    made = kernel(machines.INTEL, BE="L3:0=7;1=7\n")
    assert plan(made, {}, recorded=frozenset()).actions == ()


@pytest.mark.parametrize(
    ("view", "code", "text"),
    [
        pytest.param(
            {"mounted": False}, ResctrlCode.UNAVAILABLE, "mount -t resctrl resctrl /sys/fs/resctrl", id="unmounted"
        ),
        pytest.param({"host_pids": False}, ResctrlCode.HOST_PIDS_HIDDEN, "hostPID: true", id="own-pid-namespace"),
    ],
)
def test_a_machine_that_cannot_be_divided_is_not_written(view, code, text):
    made = FakeKernel(machines.INTEL)
    made.mounted = view.get("mounted", True)
    result = plan(made, {BE: THIRD}, recorded=frozenset(), host_pids=view.get("host_pids", True), threads={BE: {5}})
    assert result.actions == ()
    assert [reason.code for reason in result.reasons] == [code]
    assert text in result.reasons[0].text


def test_a_machine_with_l2_only_is_not_written():
    assert codes(FakeKernel(machines.L2_ONLY), {BE: THIRD}) == [ResctrlCode.UNAVAILABLE]


def test_pods_in_virtual_machines_are_told_by_name():
    pods = tuple(f"ml/pod-{number}" for number in range(7))
    (reason,) = plan(kernel(machines.INTEL, "BE"), {BE: ClassShare()}, excluded_pods=pods).reasons
    assert reason.text.endswith("ml/pod-0, ml/pod-1, ml/pod-2, ml/pod-3, ml/pod-4 and 2 more")


def test_pods_with_more_cgroups_than_are_read_are_told_by_name():
    (reason,) = plan(kernel(machines.INTEL, "BE"), {BE: ClassShare()}, unread_pods=("ml/sort",)).reasons
    assert (reason.code, reason.text.split(": ")[-1]) == (ResctrlCode.THREADS_UNREAD, "ml/sort")


@for_each_case(
    [
        pytest.param(MoveTasks(BE, (5,)), errno.ESRCH, None, id="thread-has-ended"),
        pytest.param(MoveTasks(BE, (5,)), errno.ENOENT, None, id="group-was-removed"),
        pytest.param(MoveTasks(BE, (5,)), errno.EINVAL, ResctrlCode.WRITE_REFUSED, id="group-takes-no-threads"),
        pytest.param(MakeGroup(BE), errno.ENOSPC, ResctrlCode.GROUPS_EXHAUSTED, id="no-closid"),
        pytest.param(MakeGroup(BE), errno.EBUSY, ResctrlCode.WRITE_REFUSED, id="monitoring-ids-in-limbo"),
        pytest.param(
            WriteLine(BE, "L3:0=1\n"), errno.EINVAL, ResctrlCode.WRITE_REFUSED, id="overlaps-an-exclusive-group"
        ),
        pytest.param(RecordGroups(ALL), errno.ENOSPC, ResctrlCode.WRITE_REFUSED, id="disk-full"),
    ]
)
def test_a_refused_step_is_told_with_the_kernels_words(action, error, code):
    reason = refusal(action, error=error, text="no: because")
    assert (None if reason is None else reason.code) is code
    assert reason is None or reason.text.endswith(": no: because")
