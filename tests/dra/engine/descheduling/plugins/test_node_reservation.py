"""RemovePodsViolatingNodeReservation: pods go until the rest leave free what their node reserves, and no longer."""

import pytest

from dra.engine.descheduling.plugins.node_reservation import RemovePodsViolatingNodeReservation
from dra.engine.descheduling.round import Limits
from tests.dra.engine.descheduling.clusters import at, job, node, pod, snapshot
from tests.dra.engine.descheduling.plugins.playing import evicted, play, reasons, refused
from tests.violations import for_each_case

ANNOTATION = "node.koordinator.sh/reservation"
FREE = node("free", cpu="32")


def reserving(text, *, cpu="8", **more):
    return node("n1", cpu=cpu, annotations={ANNOTATION: text} if text else {}, **more)


def seven(**more):
    return [pod(f"p{n}", **more) for n in range(1, 8)]


CPU_3 = '{"resources":{"cpu":"3"}}'


@for_each_case(
    [
        pytest.param(CPU_3, 2, id="7-of-8-used-and-3-reserved"),
        pytest.param('{"resources":{"cpu":"1"}}', 0, id="fits-exactly"),
        pytest.param('{"resources":{"cpu":"1500m"}}', 1, id="half-a-cpu-too-much"),
        pytest.param('{"reservedCPUs":"0-2"}', 2, id="by-number"),
        pytest.param('{"reservedCPUs":"0-2","applyPolicy":"ReservedCPUsOnly"}', 0, id="numbers-without-amounts"),
        pytest.param('{"resources":{"cpu":"8"}}', 7, id="everything"),
        pytest.param('{"resources":{"memory":"1Gi"}}', 0, id="another-resource"),
        pytest.param("", 0, id="no-annotation"),
        pytest.param("{", 0, id="invalid-and-none-before"),
        pytest.param('{"resources":{"cpu":"9"}}', 0, id="more-than-the-node-has"),
    ]
)
def test_as_many_pods_go_as_the_reservation_needs(text, count):
    result = play(RemovePodsViolatingNodeReservation, {}, [reserving(text), FREE], seven())
    assert len(evicted(result)) == count


def test_while_the_annotation_is_invalid_the_last_valid_one_counts():
    memory = {}
    snapshot([reserving(CPU_3)], memory=memory)
    cluster = snapshot([reserving('{"resources":{"cpu":"three"}}'), FREE], seven(), memory=memory)
    assert len(evicted(play(RemovePodsViolatingNodeReservation, {}, cluster))) == 2


def test_an_annotation_that_was_never_valid_takes_nothing_from_running_pods():
    other = node("n2", annotations={ANNOTATION: "{"})
    pods = [*seven(), pod("other", "n2")]
    result = play(RemovePodsViolatingNodeReservation, {}, [reserving('{"resources":{"cpu":"9"}}'), other, FREE], pods)
    assert evicted(result) == []
    (note,) = result.notes
    assert "node n1: no pods go: annotation node.koordinator.sh/reservation: resources.cpu: 9 is more than" in note


def test_memory_and_the_number_of_pods_can_be_reserved_as_well():
    pods = [pod(f"p{n}") for n in range(3)]
    crowded = reserving('{"resources":{"pods":"2"}}', pods="4")
    assert len(evicted(play(RemovePodsViolatingNodeReservation, {}, [crowded, FREE], pods))) == 1


def test_the_cheapest_pods_go_first():
    pods = [pod("high", priority=9, created=-90), pod("low", priority=1), pod("middle", priority=5), *seven()[:4]]
    zero = [each.metadata.name for each in seven()[:4]]
    goes = evicted(play(RemovePodsViolatingNodeReservation, {}, [reserving(CPU_3), FREE], pods))
    assert goes == zero[:2]
    few = [pod("high", cpu="3", priority=9), pod("low", cpu="3", priority=1)]
    assert evicted(play(RemovePodsViolatingNodeReservation, {}, [reserving(CPU_3), FREE], few)) == ["low"]


def test_a_pod_that_requests_nothing_of_the_resource_stays():
    pods = [pod("without", cpu="", priority=-1), pod("with", cpu="7")]
    assert evicted(play(RemovePodsViolatingNodeReservation, {}, [reserving(CPU_3), FREE], pods)) == ["with"]


def test_pods_that_are_being_deleted_or_migrated_count_as_gone():
    leaving = pod("leaving", metadata={"deletionTimestamp": at(-5)})
    moving = pod("moving")
    rest = seven()[:5]
    cluster = snapshot([reserving(CPU_3), FREE], [leaving, moving, *rest], jobs=[job(moving, node="free")])
    assert evicted(play(RemovePodsViolatingNodeReservation, {}, cluster)) == []


def test_ended_pods_take_nothing():
    pods = [*seven()[:5], pod("ended", cpu="2", status={"phase": "Succeeded"})]
    assert evicted(play(RemovePodsViolatingNodeReservation, {}, [reserving(CPU_3), FREE], pods)) == []


def test_another_pod_goes_instead_of_a_protected_one():
    result = play(RemovePodsViolatingNodeReservation, {}, [reserving(CPU_3), FREE], seven(), protected=["p1"])
    assert evicted(result) == ["p2", "p3"]


def test_limits_and_room_elsewhere_are_heeded():
    limited = play(RemovePodsViolatingNodeReservation, {}, [reserving(CPU_3), FREE], seven(), limits=Limits(per_node=1))
    assert len(evicted(limited)) == 1
    one_place = play(RemovePodsViolatingNodeReservation, {}, [reserving(CPU_3), node("n2", cpu="1")], seven())
    assert len(evicted(one_place)) == 1
    assert set(refused(one_place).values()) == {"NoPlace"}


def test_the_room_that_other_nodes_reserve_is_not_free():
    other = node("n2", cpu="8", annotations={ANNOTATION: '{"resources":{"cpu":"7500m"}}'})
    result = play(RemovePodsViolatingNodeReservation, {}, [reserving(CPU_3), other], seven())
    assert evicted(result) == []


def test_pods_that_the_arguments_do_not_select_stay():
    args = {"namespaces": {"include": ["batch"]}}
    pods = [*seven()[:6], pod("b", namespace="batch")]
    assert evicted(play(RemovePodsViolatingNodeReservation, args, [reserving(CPU_3), FREE], pods)) == ["b"]


def test_the_reason_has_what_is_requested_and_what_is_left():
    result = play(RemovePodsViolatingNodeReservation, {}, [reserving(CPU_3), FREE], seven())
    assert reasons(result) == {
        "p1": "cpu requested on its node (7) is more than its node reservation leaves (5)",
        "p2": "cpu requested on its node (6) is more than its node reservation leaves (5)",
    }
