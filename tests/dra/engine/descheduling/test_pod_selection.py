"""The pods that a plugin looks at, and in which order they go."""

import pytest

from dra.api.descheduler.pod_plugin_args import SelectedPodsArgs
from dra.engine.descheduling import pod_selection
from tests.dra.engine.descheduling.clusters import at, job, node, pod, snapshot
from tests.violations import for_each_case

NODES = [node("n2"), node("n1"), node("lost", ready=False)]


def selected(pods, args=None, *, with_ended=False, **objects):
    given = SelectedPodsArgs.model_validate(args or {}, by_alias=True, by_name=False)
    nodes = pod_selection.selected_pods(snapshot(NODES, pods, **objects), given, with_ended=with_ended)
    return {host.name: [each.metadata.name for each in pod_selection.cheapest_first(there)] for host, there in nodes}


def test_pods_come_by_node_in_the_order_of_names():
    pods = [pod("a", "n2"), pod("b", "n1")]
    assert list(selected(pods).items()) == [("n1", ["b"]), ("n2", ["a"])]


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(pod("a", "lost"), id="on-a-node-that-is-not-ready"),
        pytest.param(pod("a", "gone"), id="on-a-node-that-does-not-exist"),
        pytest.param(pod("a", ""), id="without-a-node"),
        pytest.param(pod("a", metadata={"deletionTimestamp": at(-1)}), id="being-deleted"),
        pytest.param(pod("a", status={"phase": "Succeeded"}), id="ended"),
    ],
)
def test_pods_that_no_plugin_looks_at(given):
    assert selected([given]) == {}


def test_pods_that_have_ended_are_looked_at_on_request():
    assert selected([pod("a", status={"phase": "Succeeded"})], with_ended=True) == {"n1": ["a"]}


def test_pods_of_unfinished_jobs_are_not_looked_at():
    moving = pod("moving")
    assert selected([moving, pod("staying")], jobs=[job(moving, node="n2")]) == {"n1": ["staying"]}


@for_each_case(
    [
        pytest.param({}, ["a", "b", "c"], id="all"),
        pytest.param({"namespaces": {"include": ["x"]}}, ["c"], id="include"),
        pytest.param({"namespaces": {"exclude": ["x"]}}, ["a", "b"], id="exclude"),
        pytest.param({"namespaces": {"include": []}}, ["a", "b", "c"], id="an-empty-list-restricts-nothing"),
        pytest.param({"labelSelector": {"matchLabels": {"tier": "web"}}}, ["a"], id="labels"),
        pytest.param({"labelSelector": {}}, ["a", "b", "c"], id="an-empty-selector-selects-all"),
        pytest.param({"labelSelector": "tier notin (web)"}, ["b", "c"], id="selector-as-a-text"),
        pytest.param(
            {"namespaces": {"include": ["x"]}, "labelSelector": {"matchLabels": {"tier": "web"}}},
            [],
            id="both-must-hold",
        ),
    ]
)
def test_namespaces_and_labels(args, names):
    pods = [pod("a", labels={"tier": "web"}), pod("b"), pod("c", namespace="x")]
    assert [name for there in selected(pods, args).values() for name in there] == names


def test_a_container_of_which_nothing_is_known_yet_has_no_reason_and_no_exit_code():
    given = pod("a", status={"containerStatuses": [{"name": "c"}, {"name": "d", "state": {"running": {}}}]})
    found = list(pod_selection.container_statuses(given, initial=True, ephemeral=True))
    assert (len(found), [*pod_selection.state_reasons(found)], [*pod_selection.exit_codes(found)]) == (2, [], [])


COST = "controller.kubernetes.io/pod-deletion-cost"


@for_each_case(
    [
        pytest.param({"priority": 1}, {"priority": 2}, id="low-priority"),
        pytest.param({"priority": -5}, {}, id="priority-0-is-a-priority"),
        pytest.param({"status": {"qosClass": "BestEffort"}}, {"status": {"qosClass": "Burstable"}}, id="BestEffort"),
        pytest.param({"status": {"qosClass": "Burstable"}}, {"status": {"qosClass": "Guaranteed"}}, id="Burstable"),
        pytest.param({}, {"metadata": {"annotations": {COST: "5"}}}, id="low-deletion-cost"),
        pytest.param({"created": -10}, {"created": -90}, id="young"),
        pytest.param(
            {"priority": 1, "status": {"qosClass": "Guaranteed"}},
            {"priority": 2, "status": {"qosClass": "BestEffort"}},
            id="priority-before-QoS",
        ),
    ]
)
def test_the_pod_that_is_cheaper_to_evict_goes_first(first, second):
    assert selected([pod("a", **second), pod("b", **first)]) == {"n1": ["b", "a"]}


def test_equal_pods_go_in_the_order_of_their_names():
    assert selected([pod("b"), pod("a")]) == {"n1": ["a", "b"]}


@pytest.mark.parametrize(
    ("given", "needs_place"),
    [
        pytest.param(pod("a"), True, id="running"),
        pytest.param(pod("a", status={"phase": "Pending"}), True, id="starting"),
        pytest.param(pod("a", status={"phase": "Failed"}), False, id="failed"),
        pytest.param(pod("a", status={"phase": "Succeeded"}), False, id="succeeded"),
        pytest.param(pod("a", owner=""), False, id="bare"),
    ],
)
def test_a_pod_that_nothing_replaces_needs_no_place(given, needs_place):
    assert pod_selection.removal(given, "why").needs_place is needs_place
