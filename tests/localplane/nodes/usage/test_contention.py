"""Who gets the CPU time of a node when more is wanted than there is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localplane.nodes.usage.contention import PodDemand, node_usage, share_cpu_time
from localplane.nodes.usage.demand import Usage

SYSTEM = Usage(cpu=1000, memory=500)


def pod(uid, cpu, *, best_effort=False):
    return PodDemand(uid=uid, demand=Usage(cpu=cpu, memory=10), best_effort=best_effort)


@pytest.mark.parametrize(
    ("pods", "limit", "used"),
    [
        pytest.param([pod("web", 4000), pod("b", 3000, best_effort=True)], None, [4000, 3000], id="enough-for-all"),
        pytest.param(
            [pod("web", 6000), pod("b", 3000, best_effort=True)], None, [6000, 1000], id="batch-gets-the-rest"
        ),
        pytest.param(
            [pod("web", 9000), pod("b", 3000, best_effort=True)], None, [7000, 0], id="nothing-left-for-batch"
        ),
        pytest.param([pod("web", 4000), pod("b", 3000, best_effort=True)], 500, [4000, 500], id="batch-is-limited"),
        pytest.param(
            [pod("web", 0), pod("b", 3000, best_effort=True), pod("c", 3000, best_effort=True)],
            2000,
            [0, 1000, 1000],
            id="batch-pods-share-their-limit",
        ),
    ],
)
def test_batch_pods_use_what_others_leave_within_their_limit(pods, limit, used):
    usage = node_usage(pods, system=SYSTEM, cpus=8000, best_effort_limit=limit)
    assert [usage.pods[each.uid].cpu for each in pods] == used
    assert usage.total == Usage(cpu=1000 + sum(used), memory=500 + 10 * len(pods))


def test_a_system_that_wants_more_than_the_machine_has_gets_the_machine():
    usage = node_usage([pod("web", 500)], system=Usage(cpu=9000), cpus=8000, best_effort_limit=None)
    assert usage.total.cpu == usage.system.cpu == 8000


@pytest.mark.parametrize(
    ("demands", "limit", "granted"),
    [
        pytest.param({"a": 500, "b": 900}, 2000, {"a": 500, "b": 900}, id="enough-for-all"),
        pytest.param({"a": 500, "b": 900}, 1000, {"a": 500, "b": 500}, id="equal-shares"),
        pytest.param({"a": 200, "b": 900, "c": 900}, 1000, {"a": 200, "b": 400, "c": 400}, id="little-is-given-whole"),
        pytest.param({"a": 200}, 0, {"a": 0}, id="nothing"),
        pytest.param({"a": 200}, -5, {"a": 0}, id="less-than-nothing"),
        pytest.param({}, 500, {}, id="nobody"),
    ],
)
def test_cpu_time_is_shared_as_among_groups_of_equal_weight(demands, limit, granted):
    assert share_cpu_time(demands, limit=limit) == granted


@given(
    st.dictionaries(st.text(max_size=3), st.integers(min_value=0, max_value=10_000), max_size=8),
    st.integers(min_value=0, max_value=40_000),
)
def test_no_more_than_the_limit_is_used_and_nothing_is_left_while_somebody_wants_it(demands, limit):
    granted = share_cpu_time(demands, limit=limit)
    assert all(granted[name] <= wanted for name, wanted in demands.items())
    used, wanted = sum(granted.values()), sum(demands.values())
    assert min(limit, wanted) - len(demands) <= used <= min(limit, wanted)  # less than a milli-CPU for each is cut
