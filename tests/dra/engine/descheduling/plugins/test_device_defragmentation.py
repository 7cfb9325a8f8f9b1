from itertools import combinations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.api.descheduler.device_plugin_args import DeviceDefragmentationArgs
from dra.engine.descheduling.device_room import DeviceRoomSearch, move_cost
from dra.engine.descheduling.plugins.device_defragmentation import (
    JOBS_GRACE_SECONDS,
    SCHEDULING_SECONDS,
    DeviceDefragmentation,
)
from dra.engine.descheduling.round import Limits, Profile, run_round
from tests.dra.engine.descheduling.clusters import NOW, job, node, pod, snapshot
from tests.dra.engine.descheduling.gpu_nodes import CLASSES, cards, gpu_pod
from tests.violations import for_each_case

COST = "scheduling.koordinator.sh/eviction-cost"


class Protecting:
    """A filter that protects pods by name."""

    name = "Protecting"
    Args = DeviceDefragmentationArgs

    def __init__(self, *names):
        self.names = names

    def filter(self, pod, snapshot, args):  # noqa: ARG002 - the signature of filters
        return f"pod {pod.metadata.name}: is protected" if pod.metadata.name in self.names else ""


def holder(name, on, *devices, priority=0, cost=0, **fields):
    """Return a pod of a workload of its own that holds cards, and its claim."""
    metadata = {"annotations": {COST: str(cost)}} if cost else {}
    return gpu_pod(name, on, devices, owner=name, priority=priority, metadata=metadata, **fields)


def waiting(name="train", count=8, **fields):
    """Return a pod that waits for cards, and its claim."""
    return gpu_pod(name, count=count, owner=name, created=-3600, **fields)


def cluster(nodes, pods, *, now=NOW, memory=None, **objects):
    """Return the snapshot of nodes with so many cards each; `pods` are pairs of a pod and its claim."""
    return snapshot(
        [node(name, cpu="64") for name in nodes],
        [each for each, _ in pods],
        claims=[each for _, each in pods],
        slices=[cards(name, count) for name, count in nodes.items() if count],
        device_classes=CLASSES,
        now=now,
        memory=memory,
        **objects,
    )


def balance(seen, *filters, evictor="MigrationController", limits=Limits(), **args):  # noqa: B008 - immutable
    """Run a round with the plugin alone; return what it decided."""
    profile = Profile(
        name="default",
        balance=((DeviceDefragmentation(), DeviceDefragmentationArgs(**args)),),
        filters=tuple((each, DeviceDefragmentationArgs()) for each in filters),
        evictor=evictor,
    )
    result = run_round(seen, (profile,), limits=limits)
    assert not result.faults
    return result


def moved(result):
    return sorted(each.pod.metadata.name for each in result.decisions if each.verdict.accepted)


EIGHT = {"n1": 8, "n2": 8, "n3": 8}


@for_each_case(
    [
        pytest.param(
            {"n1": 8, "n2": 8},
            [holder("a", "n1", 0, 1), holder("b", "n2", 0, 1, 2, 3)],
            ["a"],
            id="a-node-is-freed-whose-pod-has-a-place",
        ),
        pytest.param(
            {"n1": 8, "n2": 8},
            [holder("a", "n1", 0, cost=5), holder("b", "n2", 0, cost=3)],
            ["b"],
            id="the-lower-eviction-cost",
        ),
        pytest.param(
            {"n1": 8, "n2": 8},
            [holder("a", "n1", 0, priority=5), holder("b", "n2", 0, priority=3)],
            ["b"],
            id="the-lower-priority",
        ),
        pytest.param(
            {"n1": 8, "n2": 8},
            [holder("a", "n1", 0, 1), holder("b", "n1", 2), holder("c", "n2", 0, 1, 2)],
            ["c"],
            id="the-fewest-pods",
        ),
        pytest.param(
            {"n1": 8, "n2": 8},
            [holder("a", "n1", *range(5)), holder("b", "n2", *range(5))],
            [],
            id="no-pod-moves-that-fits-nowhere-else",
        ),
        pytest.param(EIGHT, [holder("a", "n1", 0)], [], id="the-pod-fits-on-a-node-already"),
        pytest.param({"n1": 4, "n2": 4}, [holder("a", "n1", 0)], [], id="no-node-has-so-many-cards"),
        pytest.param(
            {"n1": 8, "n2": 8},
            [
                holder("a", "n1", 0, 1, status={"phase": "Failed"}),
                holder("b", "n2", 0, 1),
            ],
            ["b"],
            id="devices-of-a-pod-that-has-ended-come-free-without-help",
        ),
    ]
)
def test_pods_to_move(nodes, pods, chosen):
    assert moved(balance(cluster(nodes, [*pods, waiting()]))) == chosen


def test_the_plan_is_told_beforehand():
    pods = [holder("a", "n1", 0, 1, cost=2), holder("b", "n1", 2), holder("c", "n2", *range(6)), waiting()]
    result = balance(cluster({"n1": 8, "n2": 9}, pods))
    plan = (
        "makes room for pod ns/train, which needs 8 devices of one node: node n1 has 5 free, and moving ns/a, ns/b "
        "costs the least (eviction cost 2, highest priority 0, 2 pods)"
    )
    assert [each.reason for each in result.decisions] == [plan, plan]
    assert result.notes == [
        "profile default: DeviceDefragmentation: pod ns/train: ns/a, ns/b leave node n1 for it",
    ]
    assert all(each.verdict.node == "n2" for each in result.decisions)


def test_all_devices_of_a_node_can_be_asked_for():
    pods = [holder("a", "n1", 0), holder("b", "n2", 0, cost=9), waiting(count=None)]
    assert moved(balance(cluster({"n1": 2, "n2": 2}, pods))) == ["a"]


def test_pods_that_a_filter_protects_stay_and_another_node_is_freed():
    pods = [holder("a", "n1", 0), holder("b", "n2", 0, cost=9), waiting()]
    result = balance(cluster({"n1": 8, "n2": 8}, pods), Protecting("a"))
    assert moved(result) == ["b"]


def test_when_nobody_may_go_nobody_goes_and_the_reason_is_told():
    pods = [holder("a", "n1", 0), holder("b", "n2", 0), waiting()]
    result = balance(cluster({"n1": 8, "n2": 8}, pods), Protecting("a", "b"))
    assert result.decisions == []
    assert "pod ns/train: no room can be made: pod a: is protected; pod b: is protected" in result.notes[0]


def test_no_pod_moves_if_a_later_one_of_the_plan_may_not():
    pods = [holder("a", "n1", 0, 1), holder("b", "n1", 2), holder("c", "n2", *range(6)), waiting()]
    assert moved(balance(cluster({"n1": 8, "n2": 9}, pods), Protecting("b"))) == []


def test_the_places_of_all_pods_are_there_at_the_same_time():
    """Each of the two fits on n2 alone, but not both."""
    pods = [holder("a", "n1", 0), holder("b", "n1", 1), holder("c", "n2", *range(7)), waiting()]
    assert moved(balance(cluster({"n1": 8, "n2": 8}, pods))) == []


@pytest.mark.parametrize(
    ("evictor", "priority", "chosen"),
    [
        pytest.param("MigrationController", 10, ["a"], id="held-first"),
        pytest.param("DefaultEvictor", 10, [], id="an-equal-priority-is-not-certain-to-fit"),
        pytest.param("DefaultEvictor", 9, ["a"], id="a-lower-priority"),
    ],
)
def test_pods_as_important_as_the_waiting_one_go_only_if_their_places_are_held(evictor, priority, chosen):
    pods = [holder("a", "n1", 0, priority=priority), holder("b", "n2", *range(4), cost=9, priority=10)]
    seen = cluster({"n1": 8, "n2": 8}, [*pods, waiting(priority=10)])
    assert moved(balance(seen, evictor=evictor)) == chosen


@pytest.mark.parametrize(
    "unready",
    [
        pytest.param({"count": 1}, id="needs-one-card"),
        pytest.param({"schedulingGates": [{"name": "g"}]}, id="is-gated"),
        pytest.param({"status": {"nominatedNodeName": "n1"}}, id="preempts-others-already"),
        pytest.param({"status": {"conditions": []}}, id="was-not-looked-at-by-the-scheduler"),
        pytest.param({"metadata": {"deletionTimestamp": "2026-11-24T12:00:00Z"}}, id="is-being-deleted"),
    ],
)
def test_waiting_pods_that_are_left_to_the_scheduler(unready):
    pods = [holder("a", "n1", 0), holder("b", "n2", 0), waiting(**unready)]
    result = balance(cluster({"n1": 1 if "count" in unready else 8, "n2": 1 if "count" in unready else 8}, pods))
    assert result.decisions == []


def test_a_young_pod_is_left_to_the_scheduler():
    pods = [holder("a", "n1", 0), holder("b", "n2", 0), waiting()]
    assert moved(balance(cluster({"n1": 8, "n2": 8}, pods), min_pending_seconds=7200)) == []


def test_pods_that_are_leaving_already_are_waited_for():
    leaving = holder("b", "n2", 0)
    gone = msgspec.structs.replace(
        leaving[0], metadata=msgspec.structs.replace(leaving[0].metadata, deletion_timestamp="2026-11-24T12:00:00Z")
    )
    pods = [holder("a", "n1", 0), (gone, leaving[1]), waiting()]
    result = balance(cluster({"n1": 8, "n2": 8}, pods))
    assert result.decisions == []
    assert "fits on node n2 once pods have left that are leaving already" in result.notes[0]


def test_one_waiting_pod_at_a_time_the_most_important_first():
    pods = [holder(name, f"n{i}", 0, 1) for i, name in enumerate("abcd", 1)]
    nodes = dict.fromkeys(("n1", "n2", "n3", "n4"), 8)
    both = [waiting("first"), waiting("second", priority=7)]
    result = balance(cluster(nodes, [*pods, *both]))
    assert moved(result) == ["a"]
    assert "makes room for pod ns/second" in result.decisions[0].reason


def test_a_plan_is_followed_over_rounds():
    memory, nodes = {}, {"n1": 8, "n2": 8}
    going, staying, train = holder("a", "n1", 0), holder("b", "n2", 0, 1, cost=3), waiting()
    assert moved(balance(cluster(nodes, [going, staying, train], memory=memory))) == ["a"]

    in_flight = cluster(nodes, [going, staying, train], memory=memory, now=NOW + 30, jobs=[job(going[0])])
    result = balance(in_flight)
    assert (result.decisions, "waits until ns/a have left node n1" in result.notes[0]) == ([], True)

    left = balance(cluster(nodes, [staying, waiting("other"), train], memory=memory, now=NOW + 60))
    assert left.decisions == []

    scheduled = holder("train", "n1", *range(8))
    after = balance(cluster(nodes, [staying, scheduled], memory=memory, now=NOW + 90))
    assert (after.decisions, after.notes) == ([], [])


@pytest.mark.parametrize(
    ("seconds", "tried_again"),
    [
        pytest.param(JOBS_GRACE_SECONDS - 1, False, id="the-jobs-may-still-come"),
        pytest.param(JOBS_GRACE_SECONDS, False, id="the-plan-has-failed"),
        pytest.param(JOBS_GRACE_SECONDS + 599, False, id="not-at-once-again"),
        pytest.param(JOBS_GRACE_SECONDS + 600, True, id="after-retryAfterSeconds"),
    ],
)
def test_a_plan_whose_pods_do_not_leave_is_given_up_for_a_while(seconds, tried_again):
    memory, nodes = {}, {"n1": 8, "n2": 8}
    pods = [holder("a", "n1", 0), holder("b", "n2", 0, 1, cost=3), waiting()]
    balance(cluster(nodes, pods, memory=memory))
    for after in sorted({min(seconds, JOBS_GRACE_SECONDS), seconds}):
        memory.pop("cool down", None)
        result = balance(cluster(nodes, pods, memory=memory, now=NOW + after))
    assert bool(result.decisions) is tried_again


def test_a_pod_that_is_not_scheduled_although_the_others_left_gets_no_room_for_a_while():
    memory, nodes = {}, {"n1": 8, "n2": 8}
    going, staying, train = holder("a", "n1", 0), holder("b", "n2", 0, 1, cost=3), waiting()
    balance(cluster(nodes, [going, staying, train], memory=memory))
    thief = holder("thief", "n1", 5)
    for seconds in (60, 60 + SCHEDULING_SECONDS, 120 + SCHEDULING_SECONDS):
        result = balance(cluster(nodes, [thief, staying, train], memory=memory, now=NOW + seconds))
        assert result.decisions == []


def test_a_cluster_without_waiting_pods_is_left_alone():
    seen = cluster(EIGHT, [holder("a", "n1", 0), (pod("plain", ""), holder("x", "n2", 1)[1])])
    assert (balance(seen).decisions, balance(seen).notes) == ([], [])


@st.composite
def fragmented(draw):
    """Return nodes of four cards with holders, and a pod that waits for some cards."""
    pods, nodes = [], {}
    for number in range(draw(st.integers(2, 3))):
        name, first = f"n{number}", 0
        nodes[name] = 4
        while first < 4:
            size = draw(st.integers(1, 4 - first))
            if draw(st.booleans()):
                devices = range(first, first + size)
                priority, cost = draw(st.integers(0, 2)), draw(st.integers(0, 3))
                pods.append(holder(f"{name}-{first}", name, *devices, priority=priority, cost=cost))
            first += size
    return nodes, pods, waiting(count=draw(st.one_of(st.integers(2, 4), st.none())))


@given(fragmented())
def test_no_choice_is_cheaper_than_the_first(case):
    nodes, pods, train = case
    seen = cluster(nodes, [*pods, train])
    if seen.fitting_node(train[0]):
        return
    search = DeviceRoomSearch(seen, train[0], pods_max=8, only_below=None)
    costs = [
        (move_cost(chosen), name)
        for name in nodes
        for there in [[each for each, _ in pods if each.spec.node_name == name]]
        for size in range(1, len(there) + 1)
        for chosen in combinations(there, size)
        if not seen.unfit_reason(train[0], name, gone=[each.metadata.uid for each in chosen])
    ]
    first = next(search.choices(), None)
    assert (first and (first.cost, first.node)) == min(costs, default=None)
