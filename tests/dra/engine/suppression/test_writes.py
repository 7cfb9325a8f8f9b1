"""The values of cgroups, and the order of writes that the kernel accepts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.engine.suppression.writes import CgroupFile, CgroupState, CgroupTarget, CgroupWrite, plan_writes
from tests.dra.engine.suppression.kernel import Kernel, RefusedError

CLASS = ("besteffort",)
POD_1 = (*CLASS, "pod1")
POD_2 = (*CLASS, "pod2")
CONTAINER = (*POD_1, "a")
NESTED = (*CONTAINER, "own")


def state(path, quota=None, **values):
    return CgroupState(path=path, quota=quota, **values)


def plan(states, targets, quota=None, *, unified=False):
    return plan_writes(states, targets, class_path=CLASS, class_quota=quota, unified=unified)


def quotas(states, targets, quota=None, *, unified=False):
    """Return the planned writes to quotas and bursts, as short texts in their order."""
    writes = plan(states, targets, quota, unified=unified).writes
    return [f"{write.path[-1]} {'burst ' if write.file is CgroupFile.BURST else ''}{write.value}" for write in writes]


def cpu(milli):
    return CgroupTarget(cpu_milli=milli, owns_memory=False)


def memory(limit):
    return CgroupTarget(memory=limit, owns_cpu=False)


@pytest.mark.parametrize(
    ("quota", "present", "writes"),
    [
        pytest.param(50000, (None, 80000, 40000), ["pod1 50000", "besteffort 50000"], id="narrowed-from-the-bottom"),
        pytest.param(70000, (50000, 50000, 40000), ["besteffort 70000", "pod1 70000"], id="widened-from-the-top"),
        pytest.param(70000, (70000, 70000, 40000), [], id="nothing-to-do"),
        pytest.param(
            None, (50000, 50000, 40000), ["besteffort None", "pod1 80000"], id="not-held-back-any-more-pods-have-limits"
        ),
        pytest.param(2000, (50000, 50000, 40000), ["pod2 2000", "pod1 2000", "besteffort 2000"], id="the-least"),
    ],
)
def test_quotas_of_a_class_and_two_pods_in_v1(quota, present, writes):
    of_class, first, second = present
    states = [state(CLASS, of_class), state(POD_1, first), state(POD_2, second)]
    assert quotas(states, {POD_1: cpu(800), POD_2: cpu(400)}, quota) == writes


def test_v2_bounds_by_itself_so_the_class_alone_is_written():
    states = [state(CLASS), state(POD_1, 80000), state(POD_2, 40000)]
    assert quotas(states, {POD_1: cpu(800), POD_2: cpu(400)}, 50000, unified=True) == ["besteffort 50000"]


def test_a_container_is_narrowed_before_its_pod_and_widened_after():
    targets = {POD_1: cpu(800), CONTAINER: cpu(800)}
    wide = [state(CLASS), state(POD_1, 80000), state(CONTAINER, 80000)]
    narrow = [state(CLASS, 50000), state(POD_1, 50000), state(CONTAINER, 50000)]
    assert quotas(wide, targets, 50000) == ["a 50000", "pod1 50000", "besteffort 50000"]
    assert quotas(narrow, targets, None) == ["besteffort None", "pod1 80000", "a 80000"]


@pytest.mark.parametrize(
    ("present", "writes"),
    [
        pytest.param(state(POD_1, 30000, burst=20000), ["pod1 burst 15000", "pod1 15000"], id="lowered-first"),
        pytest.param(state(POD_1, 30000, burst=15000), ["pod1 15000"], id="a-burst-that-fits-stays"),
        pytest.param(state(POD_1, 10000, burst=5000), ["pod1 15000"], id="raised-quotas-keep-bursts"),
    ],
)
def test_a_burst_above_the_next_quota_is_lowered_first(present, writes):
    assert quotas([state(CLASS), present], {POD_1: cpu(150)}) == writes


@pytest.mark.parametrize(
    ("present", "quota", "writes"),
    [
        pytest.param(
            [state(CLASS), state(POD_1, 60000)], 50000, ["pod1 None", "besteffort 50000"], id="of-a-pod-without-limits"
        ),
        pytest.param(
            [state(CLASS), state(POD_1), state(CONTAINER), state(NESTED, 60000)],
            50000,
            ["own None", "besteffort 50000"],
            id="of-a-cgroup-that-a-container-made",
        ),
        pytest.param([state(CLASS), state(POD_1, 40000)], 50000, ["besteffort 50000"], id="that-fits-stays"),
        pytest.param([state(CLASS, 50000), state(POD_1, 40000)], None, ["besteffort None"], id="stays-in-recovery"),
    ],
)
def test_a_quota_of_others_is_lifted_where_it_stands_in_the_way(present, quota, writes):
    assert quotas(present, {}, quota) == writes


@pytest.mark.parametrize(
    ("present", "limit", "writes"),
    [
        pytest.param(state(POD_1, 60000, period=200000), 300, [], id="60000-of-200000-fit-under-30000-of-100000"),
        pytest.param(state(POD_1, 60001, period=200000), 300, ["pod1 60000"], id="60001-do-not"),
        pytest.param(state(POD_1, None, period=20000), 900, ["pod1 6000"], id="of-a-short-period"),
        pytest.param(state(POD_1, 3000, period=3000), 900, ["pod1 None"], id="what-the-kernel-would-refuse-is-none"),
    ],
)
def test_quotas_are_compared_as_parts_of_their_periods(present, limit, writes):
    assert quotas([state(CLASS, 30000), present], {POD_1: cpu(limit)}, 30000) == writes


def test_shares_are_written_where_they_differ_and_the_kernel_takes_them():
    states = [state(CLASS), state(POD_1, shares=2), state(POD_2, shares=3, is_idle=True), state(CONTAINER, shares=583)]
    target = CgroupTarget(shares=583, owns_memory=False)
    planned = plan(states, dict.fromkeys((POD_1, POD_2, CONTAINER), target))
    assert planned.writes == (CgroupWrite(path=POD_1, file=CgroupFile.SHARES, value=583),)
    assert planned.idle == (POD_2,)


@pytest.mark.parametrize(
    ("limit", "present", "written"),
    [
        pytest.param(1073741823, None, 1073737728, id="cut-to-whole-pages"),
        pytest.param(1073741823, 1073737728, "nothing", id="compared-after-the-same-rounding"),
        pytest.param(None, 1073741824, None, id="lifted"),
        pytest.param(None, None, "nothing", id="no-limit-as-before"),
        pytest.param(2**30, 2**29, 2**30, id="raised"),
    ],
)
def test_memory_limits(limit, present, written):
    planned = plan([state(CLASS), state(POD_1, memory=present)], {POD_1: memory(limit)})
    expected = () if written == "nothing" else (CgroupWrite(path=POD_1, file=CgroupFile.MEMORY, value=written),)
    assert planned.writes == expected


def test_in_v2_a_memory_limit_below_use_is_not_written_since_processes_would_be_killed():
    present = [state(CLASS), state(POD_1, memory_used=2**30 + 1)]
    planned = plan(present, {POD_1: memory(2**30)}, unified=True)
    assert (planned.writes, planned.memory_in_use) == ((), (POD_1,))
    later = [state(CLASS), state(POD_1, memory_used=2**30)]
    assert plan(later, {POD_1: memory(2**30)}, unified=True).writes


def test_in_v1_a_memory_limit_below_use_is_tried_and_told():
    present = [state(CLASS), state(POD_1, memory_used=2**30 + 1)]
    planned = plan(present, {POD_1: memory(2**30)})
    assert planned.writes
    assert planned.memory_in_use == (POD_1,)


def test_cgroups_that_are_not_there_yet_are_left_out():
    assert plan([state(CLASS)], {POD_1: cpu(100)}).writes == ()


QUOTAS = st.none() | st.integers(1000, 300000)
PERIODS = st.sampled_from([100000, 100000, 20000, 1000])
PATHS = (CLASS, POD_1, POD_2, CONTAINER, (*POD_1, "b"), (*POD_2, "c"), NESTED)


@st.composite
def kernels(draw):
    """A tree that v1's kernel would have, whoever wrote what."""
    kernel = Kernel(state(path, period=draw(PERIODS)) for path in PATHS)
    for path in draw(st.permutations(PATHS)):
        quota = draw(QUOTAS)
        try:
            kernel.write(CgroupWrite(path=path, file=CgroupFile.QUOTA, value=quota))
            kernel.write(CgroupWrite(path=path, file=CgroupFile.BURST, value=draw(st.integers(0, 100000))))
        except RefusedError:
            continue
    return kernel


@st.composite
def pod_limits(draw):
    """Targets of two pods and their containers, which may have no limit, or more or less than their pod."""
    milli = st.none() | st.integers(1, 3000)
    of_pods = {POD_1: draw(milli), POD_2: draw(milli)}
    of_containers = {path: draw(milli) for path in PATHS if path[:2] in of_pods and len(path) == len(CONTAINER)}
    return {path: cpu(limit) for path, limit in {**of_pods, **of_containers}.items()}


@given(kernel=kernels(), targets=pod_limits(), quota=st.none() | st.integers(1000, 300000), killed=st.integers(0, 12))
def test_v1_refuses_no_write_and_a_plan_that_was_cut_off_is_completed_by_the_next(kernel, targets, quota, killed):
    wanted = plan(kernel.states.values(), targets, quota)
    for write in wanted.writes[:killed]:
        kernel.write(write)
    for write in plan(kernel.states.values(), targets, quota).writes:
        kernel.write(write)
    assert plan(kernel.states.values(), targets, quota).writes == (), "nothing is left to do"
    assert kernel.states[CLASS].quota == quota


@given(kernel=kernels(), targets=pod_limits(), steps=st.lists(st.none() | st.integers(1000, 300000), max_size=6))
def test_limits_return_when_the_class_is_not_held_back_any_more(kernel, targets, steps):
    for quota in (*steps, None):
        for write in plan(kernel.states.values(), targets, quota).writes:
            kernel.write(write)
    for path in (POD_1, POD_2):
        limit, period = targets[path].cpu_milli, kernel.states[path].period
        assert kernel.states[path].quota == (limit and max(limit * period // 1000, 1000))


@given(
    uses=st.lists(st.integers(0, 2**21), min_size=2, max_size=2),
    limits=st.lists(st.none() | st.integers(1, 2**21), min_size=2, max_size=2),
    unified=st.booleans(),
)
def test_no_process_is_ever_killed_for_memory(uses, limits, unified):
    states = [state(CLASS), *(state(path, memory_used=used) for path, used in zip((POD_1, POD_2), uses, strict=True))]
    kernel = Kernel(states, unified=unified)
    targets = {path: memory(limit) for path, limit in zip((POD_1, POD_2), limits, strict=True)}
    for write in plan(states, targets, unified=unified).writes:
        try:
            kernel.write(write)
        except RefusedError:
            assert not unified
    assert not kernel.killed
