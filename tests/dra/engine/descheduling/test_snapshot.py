import weakref

import msgspec
import pytest

from dra.engine.descheduling.snapshot import WAITING_FOR_ANY_NODE
from dra.engine.migration.pod_index import workload_of
from dra.model.node_metrics import NodeMetric
from dra.model.quantities import NANOS_PER_UNIT
from tests.dra.engine.descheduling.clusters import job, node, pod, reservation, snapshot

CPU = NANOS_PER_UNIT


@pytest.mark.parametrize(
    ("created", "now", "age"),
    [
        pytest.param(0, 600.9, 600, id="whole-seconds-are-rounded-down"),
        pytest.param(60, 0.0, 0, id="a-pod-from-the-future-has-age-0"),
        pytest.param(0, 0.5, 0, id="a-new-pod-has-age-0"),
    ],
)
def test_age_of_a_pod(created, now, age):
    one = pod(created=created)
    noon = snapshot([]).now
    assert snapshot([node()], [one], now=noon + now).age(one) == age


def test_a_pod_without_creation_time_has_age_0():
    one = pod(metadata={"creationTimestamp": ""})
    assert snapshot([node()], [one]).age(one) == 0


def test_a_moved_pod_counts_on_its_new_node_and_is_no_candidate():
    one, other = pod("p1"), pod("p2")
    found = snapshot([node("n1"), node("n2")], [one, other])
    found.move(one, "n2")
    assert [each.metadata.name for each in found.pods()] == ["p2"]
    assert found.moved == {one.metadata.uid: "n2"}
    assert (list(found.nodes["n1"].pods), list(found.nodes["n2"].arriving)) == (
        [other.metadata.uid],
        [one.metadata.uid],
    )
    assert [found.nodes[name].requested["cpu"] for name in ("n1", "n2")] == [CPU, CPU]


def test_a_removed_pod_counts_nowhere():
    one = pod("p1")
    found = snapshot([node()], [one])
    found.move(one, "")
    assert not found.nodes["n1"].pods
    assert not found.nodes["n1"].requested.get("cpu")
    assert found.moved == {one.metadata.uid: WAITING_FOR_ANY_NODE}


def test_a_moved_pod_takes_the_room_that_the_next_one_would_have_had():
    pods = [pod("p1", cpu="600m"), pod("p2", cpu="600m"), pod("p3", cpu="600m")]
    found = snapshot([node("n1"), node("n2", cpu="1")], pods)
    assert found.fitting_node(pods[0]) == "n2"
    found.move(pods[0], "n2")
    assert [found.fitting_node(each) for each in pods[1:]] == ["", ""]


def test_a_pod_that_has_ended_takes_nothing_and_stays_a_candidate():
    ended = pod("p1", status={"phase": "Succeeded"})
    found = snapshot([node()], [ended])
    assert list(found.pods()) == [ended]
    assert found.nodes["n1"].pods == {ended.metadata.uid: ended}
    assert not found.nodes["n1"].requested


def test_pods_of_a_workload_include_those_that_move():
    pods = [pod("p1"), pod("p2"), pod("p3", owner="db"), pod("p4", owner="")]
    found = snapshot([node("n1"), node("n2")], pods)
    found.move(pods[0], "n2")
    workload = workload_of(pods[0])
    assert workload is not None
    assert found.pods_of(workload) == tuple(pods[:2])
    assert found.owner(pods[3]) is None


@pytest.mark.parametrize(
    ("jobs", "reservations", "target"),
    [
        pytest.param([{}], [], "", id="a-job-without-reservation-counts-nowhere"),
        pytest.param([{"uid": "res"}], [{"name": "res", "on": "n2"}], "n2", id="a-reservation-with-a-node"),
        pytest.param([{"uid": "res"}], [{"name": "res", "on": ""}], "", id="a-pending-reservation"),
        pytest.param([{"reservation": "own"}], [{"name": "own", "on": "n2"}], "n2", id="a-reservation-of-the-user"),
        pytest.param([{"node": "n2"}], [], "n2", id="the-node-in-the-status"),
        pytest.param([{"node": "gone"}], [], "", id="a-node-that-is-gone"),
        pytest.param([{"paused": True}], [], "", id="a-job-that-waits-for-approval"),
        pytest.param([{"phase": "Succeeded"}], [], None, id="a-finished-job-moves-nothing"),
        pytest.param([{"name": "a", "node": "n2"}, {"name": "b"}], [], "n2", id="two-jobs-for-one-pod-count-once"),
    ],
)
def test_pods_of_unfinished_jobs_have_left(jobs, reservations, target):
    one = pod("p1")
    found = snapshot(
        [node("n1"), node("n2")],
        [one],
        jobs=[job(one, **each) for each in jobs],
        reservations=[reservation(**each) for each in reservations],
    )
    assert found.moved.get(one.metadata.uid) == target


def test_a_job_of_an_earlier_pod_of_the_name_moves_nobody():
    one = pod("p1")
    earlier = pod("p1", metadata={"uid": "other"})
    assert snapshot([node("n1")], [one], jobs=[job(earlier)]).moved == {}


def test_a_pod_in_flight_takes_no_more_than_its_reservation_holds():
    one, other = pod("p1"), pod("p2", on="n1", owner="db", cpu="3")
    found = snapshot(
        [node("n1"), node("n2", cpu="4")],
        [one, other],
        jobs=[job(one, uid="res")],
        reservations=[reservation("res", on="n2", cpu="1", allocateOnce=True)],
    )
    assert found.moved == {one.metadata.uid: "n2"}
    assert found.fitting_node(other) == "n2"


def test_usage_of_a_node_is_what_its_metric_reports():
    metrics = [
        msgspec.convert(
            {
                "metadata": {"name": name},
                "status": {
                    "updateTime": "2026-11-24T12:00:00Z",
                    "nodeMetric": {"systemUsage": {"resources": {"cpu": "1", "memory": "1Gi"}}},
                },
            },
            NodeMetric,
        )
        for name in ("n1", "gone")
    ]
    found = snapshot([node("n1"), node("n2")], node_metrics=metrics)
    assert found.nodes["n1"].usage is not None
    assert found.nodes["n1"].usage.system.cpu == CPU
    assert found.nodes["n2"].usage is None


def test_a_plugin_sees_the_ready_nodes_of_its_profile_and_keeps_its_own_memory():
    memory = {}
    seen = snapshot([node("a"), node("b"), node("c", ready=False)], memory=memory)
    seen.ask_for("one", "Plugin", nodes=frozenset({"b", "c", "gone"}))
    assert [host.name for host in seen.selected_nodes()] == ["b"]
    seen.own_memory["kept"] = 1
    seen.ask_for("two", "Plugin", nodes=None)
    assert [host.name for host in seen.selected_nodes()] == ["a", "b"]
    assert seen.own_memory == {}
    assert (memory["one/Plugin"], memory["two/Plugin"]) == ({"kept": 1}, {})


def test_what_a_node_and_its_reservations_keep_is_told():
    kept = {"node.koordinator.sh/reservation": '{"resources": {"cpu": "1"}}'}
    seen = snapshot(
        [node("a", annotations=kept), node("b")],
        [pod("p", "a", owner="web", metadata={"annotations": {}})],
        reservations=[reservation("r", "a", cpu="2")],
    )
    assert seen.capacity("a")["cpu"] == 3 * 10**9
    assert seen.held("a")["cpu"] == 2 * 10**9
    assert seen.held("b") == {}
    assert seen.capacity("gone") == {}


RESERVATION = "node.koordinator.sh/reservation"


def for_pods(text, *, memory):
    """Return the CPUs that a node of 8 offers to pods, with an annotation."""
    host = node("n1", cpu="8", annotations={RESERVATION: text} if text else {})
    return snapshot([host], memory=memory).nodes["n1"].allocatable_for_pods["cpu"] / 10**9


def test_the_last_valid_node_reservation_counts_while_the_annotation_is_invalid():
    memory = {}
    texts = ['{"resources":{"cpu":"3"}}', "{", '{"resources":{"cpu":"99"}}', "", "{"]
    assert [for_pods(text, memory=memory) for text in texts] == [5, 5, 5, 8, 8]


def test_the_valid_fields_of_an_invalid_node_reservation_count_if_none_is_remembered():
    assert for_pods('{"resources":{"cpu":"3","memory":"x"}}', memory={}) == 5


def test_what_a_node_reserves_has_no_room_for_pods():
    full = node("n2", cpu="8", annotations={RESERVATION: '{"resources":{"cpu":"7500m"}}'})
    assert not snapshot([node("n1"), full], [moving := pod()]).fitting_node(moving)


def test_a_snapshot_whose_parts_are_forgotten_is_in_no_cycle():
    class Part:
        def __init__(self, of):
            self.of = of

    seen = snapshot([node("n1")])
    seen.part(Part)
    seen.forget_parts()
    gone = weakref.ref(seen)
    del seen
    assert gone() is None  # without the cycle collector
