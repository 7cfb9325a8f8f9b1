"""RemovePodsHavingTooManyRestarts: restarts of all containers together; the pod with the most goes first."""

import pytest

from dra.engine.descheduling.plugins.too_many_restarts import RemovePodsHavingTooManyRestarts
from dra.engine.descheduling.round import Limits
from tests.dra.engine.descheduling.clusters import at, node, pod
from tests.dra.engine.descheduling.plugins.playing import container, evicted, play, reasons, refused, statuses
from tests.violations import for_each_case

NODES = [node("n1", cpu="32"), node("n2", cpu="32")]
PROTECTED = ("pod-6", "pod-7", "pod-8")
"""A DaemonSet's pod, one with local storage and a mirror pod, which filters protect."""


def crashing(name, *restarts, init=(), on="n1", waiting="", init_waiting="", phase="Running", **more):
    """Return a pod with a container for each number of restarts."""
    states = statuses(
        *(container(restarts=count, waiting=waiting) for count in restarts),
        init=[container(restarts=count, waiting=init_waiting) for count in init],
    )
    return pod(name, on, cpu="100m", status=states | {"phase": phase}, **more)


def ten_pods(**more):
    """Return ten pods of which the n-th has 25 restarts for each n: 5 of an init container, twice 10 of containers."""
    return [crashing(f"pod-{n}", 10 * n, 10 * n, init=[5 * n], **more) for n in range(10)]


def threshold(count, **more):
    return {"podRestartThreshold": count, **more}


INIT = {"includingInitContainers": True}


@for_each_case(
    [
        pytest.param(threshold(10000, **INIT), 0, id="all-below"),
        pytest.param(threshold(1, **INIT), 6, id="nine-above"),
        pytest.param(threshold(25, **INIT), 6, id="the-lowest-equals-the-threshold"),
        pytest.param(threshold(25), 5, id="the-lowest-equals-it-with-init-containers-only"),
        pytest.param(threshold(20, **INIT), 6, id="20-with-init-containers"),
        pytest.param(threshold(20), 6, id="20-without-init-containers"),
        pytest.param(threshold(126, **INIT), 1, id="above-5x25-the-only-one-that-is-not-protected"),
        pytest.param(threshold(101), 1, id="above-5x20-the-only-one-that-is-not-protected"),
    ]
)
def test_pods_with_the_threshold_or_more_go(args, count):
    result = play(RemovePodsHavingTooManyRestarts, args, NODES, ten_pods(), protected=PROTECTED)
    assert len(evicted(result)) == count


@for_each_case(
    [
        pytest.param(crashing("a", 4, 6), threshold(10), True, id="10-of-10"),
        pytest.param(crashing("a", 4, 5), threshold(10), False, id="9-of-10"),
        pytest.param(crashing("a", 6, init=[5]), threshold(10), False, id="6-and-5-of-an-init-container-excluded"),
        pytest.param(
            crashing("a", 6, init=[5]), threshold(10, **INIT), True, id="6-and-5-of-an-init-container-included"
        ),
        pytest.param(crashing("a"), threshold(1), False, id="no-statuses-yet"),
        pytest.param(
            crashing("a", 99, metadata={"deletionTimestamp": at(-5)}), threshold(1), False, id="being-deleted-already"
        ),
        pytest.param(crashing("a", 99, on=""), threshold(1), False, id="without-a-node"),
    ]
)
def test_restarts_of_all_containers_are_added(given, args, goes):
    assert bool(evicted(play(RemovePodsHavingTooManyRestarts, args, NODES, [given]))) is goes


CRASH_LOOP = {"states": ["CrashLoopBackOff"]}


@for_each_case(
    [
        pytest.param(ten_pods(waiting="CrashLoopBackOff"), CRASH_LOOP, 3, id="in-a-crash-loop"),
        pytest.param(ten_pods(), CRASH_LOOP, 0, id="not-in-a-crash-loop"),
        pytest.param(ten_pods(), {"states": ["Running"]}, 3, id="running"),
        pytest.param(ten_pods(phase="Pending"), {"states": ["Running"]}, 0, id="pending"),
        pytest.param(ten_pods(init_waiting="CrashLoopBackOff"), CRASH_LOOP | INIT, 3, id="init-container-included"),
        pytest.param(ten_pods(init_waiting="CrashLoopBackOff"), CRASH_LOOP, 0, id="init-container-not-included"),
        pytest.param(
            ten_pods(waiting="CrashLoopBackOff", phase="Pending"),
            {"states": ["Running", "CrashLoopBackOff"]},
            3,
            id="one-of-two-states",
        ),
    ]
)
def test_one_of_the_states_must_be_met(pods, args, count):
    result = play(
        RemovePodsHavingTooManyRestarts,
        threshold(1) | args,
        NODES,
        pods,
        protected=PROTECTED,
        limits=Limits(per_node=3),
    )
    assert len(evicted(result)) == count


@pytest.mark.parametrize(
    ("limits", "goes"),
    [
        pytest.param(Limits(), ["thirty", "twenty", "ten", "other-node"], id="none"),
        pytest.param(Limits(per_node=2), ["thirty", "twenty", "other-node"], id="two-of-each-node"),
        pytest.param(Limits(per_namespace=3), ["thirty", "twenty", "ten"], id="three-of-the-namespace"),
        pytest.param(Limits(total=1), ["thirty"], id="total"),
    ],
)
def test_on_each_node_the_pod_with_the_most_restarts_goes_first(limits, goes):
    pods = [
        crashing("thirty", 30),
        crashing("ten", 10),
        crashing("twenty", 20),
        crashing("other-node", 99, on="n2"),
    ]
    assert evicted(play(RemovePodsHavingTooManyRestarts, threshold(10), NODES, pods, limits=limits)) == goes


@pytest.mark.parametrize(
    ("other", "count"),
    [
        pytest.param(
            node("n2", cpu="32", taints=[{"key": "hardware", "value": "gpu", "effect": "NoSchedule"}]), 0, id="tainted"
        ),
        pytest.param(node("n2", cpu="32", unschedulable=True), 0, id="cordoned"),
        pytest.param(node("n2", cpu="50m"), 0, id="too-small"),
        pytest.param(node("n2", cpu="250m"), 2, id="room-for-two"),
        pytest.param(node("n2", cpu="32"), 3, id="room-for-all"),
    ],
)
def test_pods_stay_where_no_other_node_has_room_for_them(other, count):
    nodes = [node("n1", cpu="32"), other]
    args = threshold(1, **INIT)
    result = play(
        RemovePodsHavingTooManyRestarts, args, nodes, ten_pods(), protected=PROTECTED, limits=Limits(per_node=3)
    )
    assert len(evicted(result)) == count
    if not count:
        assert {refused(result)[name] for name in ("pod-1", "pod-9")} == {"NoPlace"}


def test_a_container_of_which_nothing_is_known_yet_is_in_no_state():
    unknown = {"containerStatuses": [{"name": "c", "restartCount": 9}]}
    pods = [pod("a", status=unknown), pod("b", status=unknown | {"phase": "Pending"})]
    args = threshold(1, states=["Running", "CrashLoopBackOff"])
    assert evicted(play(RemovePodsHavingTooManyRestarts, args, NODES, pods)) == ["a"]


def test_a_failed_pod_needs_no_place():
    given = crashing("a", 99, phase="Failed")
    nodes = [NODES[0], node("n2", unschedulable=True)]
    assert evicted(play(RemovePodsHavingTooManyRestarts, threshold(1), nodes, [given])) == ["a"]


def test_the_reason_has_both_numbers():
    result = play(RemovePodsHavingTooManyRestarts, threshold(10), NODES, [crashing("a", 12)])
    assert reasons(result) == {"a": "12 restarts, podRestartThreshold is 10"}
