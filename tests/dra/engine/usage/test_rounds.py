import msgspec
import pytest

from dra.engine.usage.rounds import use_between
from tests.dra.engine.usage.readings import GIB, pod, pressure, round_at

KEPT = {"a": 1000, "b": 500}


def test_the_systems_use_is_the_nodes_less_that_of_all_pods():
    use = use_between(round_at(10, node_milli=2000, pods=KEPT), round_at(20, node_milli=2000, pods=KEPT))
    assert use.system_cpu_milli == pytest.approx(500)
    assert {uid: sample.cpu_milli for uid, sample in use.pods.items()} == {"a": 1000, "b": 500}
    assert use.system_memory_bytes == GIB // 2


def test_rounds_that_are_not_aligned_leave_the_system_at_zero_not_below():
    use = use_between(round_at(10, node_milli=1000, pods=KEPT), round_at(20, node_milli=1000, pods=KEPT))
    assert use.system_cpu_milli == 0


def test_memory_of_pods_that_exceeds_the_nodes_leaves_the_system_at_zero():
    use = use_between(round_at(10, node_milli=0, used_bytes=1), round_at(20, node_milli=0, used_bytes=1, pods=KEPT))
    assert use.system_memory_bytes == 0


def test_a_pod_that_ends_within_the_round_is_no_load_of_the_system():
    """koordinator#991: its use is in the node's, but it is not there any more when pods are read."""
    before = round_at(10, node_milli=2000, pods=KEPT, all_pods=1500)
    after = round_at(20, node_milli=2000, pods={"a": 1000}, all_pods=1500)
    assert use_between(before, after).system_cpu_milli == pytest.approx(500)


def test_a_pod_that_begins_within_the_round_is_no_load_of_the_system():
    before = round_at(10, node_milli=2000, pods={"a": 1000}, all_pods=1500)
    after = round_at(20, node_milli=2000, pods=KEPT, all_pods=1500)
    use = use_between(before, after)
    assert use.system_cpu_milli == pytest.approx(500)
    assert use.pods.keys() == {"a"}


def test_a_cgroup_of_no_known_pod_is_load_of_the_system():
    before, after = (
        round_at(at, node_milli=2000, pods={"a": 1000}, others={"x": 400}, all_pods=1400) for at in (10, 20)
    )
    assert use_between(before, after).system_cpu_milli == pytest.approx(1000)


def test_without_the_counter_of_all_pods_the_sum_of_pods_counts():
    before = round_at(10, node_milli=2000, pods=KEPT)
    after = round_at(20, node_milli=2000, pods=KEPT, all_pods=1)
    assert use_between(before, after).system_cpu_milli == pytest.approx(500)


def test_a_counter_of_all_pods_that_was_set_back_counts_as_absent():
    before = round_at(10, node_milli=2000, pods=KEPT, all_pods=1500)
    after = msgspec.structs.replace(round_at(20, node_milli=2000, pods=KEPT), kubepods_cpu_nanos=0)
    assert use_between(before, after).system_cpu_milli == pytest.approx(500)


def test_a_node_whose_times_step_back_has_no_system():
    assert use_between(round_at(10, node_milli=2000), round_at(20, node_milli=1)).system_cpu_milli is None


@pytest.mark.parametrize(
    "after",
    [
        pytest.param(pod(20, millis=5), id="less-than-before"),
        pytest.param(pod(20, millis=90_000, renewed=True), id="created-anew-and-more-than-before"),
    ],
)
def test_a_pod_whose_counter_began_anew_has_no_sample(after):
    before = round_at(10, node_milli=0, pods={"a": 1000})
    assert use_between(before, msgspec.structs.replace(before, pods={"a": after})).pods == {}


def test_pressure_is_a_share_of_time_and_absent_where_the_kernel_tells_none():
    before, after = round_at(10, node_milli=0), round_at(20, node_milli=0)
    before = msgspec.structs.replace(
        before, pods={"a": pod(10, millis=0, pressure=pressure(0)), "b": pod(10, millis=0), "c": pod(10, millis=0)}
    )
    after = msgspec.structs.replace(
        after,
        pods={
            "a": pod(20, millis=0, pressure=pressure(2_500_000)),
            "b": pod(20, millis=0),
            "c": pod(20, millis=0, pressure=pressure(5)),
        },
    )
    pressures = {uid: sample.cpu_pressure_percent for uid, sample in use_between(before, after).pods.items()}
    assert pressures == {"a": pytest.approx(25), "b": None, "c": None}
