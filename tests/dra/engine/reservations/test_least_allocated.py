"""Reservations go to the emptiest node: LeastAllocated of kube-scheduler, with what is held on each node."""

import pytest

from dra.engine.reservations import scoring
from dra.engine.reservations.accounting import ReservationAccounting
from tests.dra.engine.reservations.examples import RESTRICTED, of, pod, reservation_info

NODES = [f"n{number:02}" for number in range(20)]


def accounting_of(*nodes):
    accounting = ReservationAccounting()
    for name in nodes:
        accounting.observe_node(name, of(64, memory="256Gi"))
    return accounting


def best(accounting, wanted, nodes):
    return scoring.best_nodes(accounting.placement_options(wanted, nodes), wanted.allocatable)


def test_as_many_reservations_as_empty_nodes_are_one_a_node():
    """Koordinator 1.6: one a node each time (specs/koordinator-peer.md)."""
    accounting, placed = accounting_of(*NODES), []
    for number in range(len(NODES)):
        new = reservation_info(f"r{number}", 1, memory="1Gi", available=False)
        where = best(accounting, new, NODES)[-1]
        accounting.assume_reservation(new, where)
        placed.append(where)
    assert sorted(placed) == NODES


@pytest.mark.parametrize(
    ("held", "used", "expected"),
    [
        pytest.param({}, {}, ["a", "b", "c"], id="all-alike"),
        pytest.param({"a": 1}, {}, ["b", "c"], id="what-is-held-counts"),
        pytest.param({"a": 2}, {"b": 4, "c": 2}, ["a", "c"], id="as-much-as-what-pods-use"),
    ],
)
def test_the_emptiest_nodes_are_the_best(held, used, expected):
    accounting = accounting_of("a", "b", "c")
    for name, cpu in held.items():
        accounting.assume_reservation(reservation_info(f"r-{name}", cpu, available=False), name)
    for name, cpu in used.items():
        accounting.observe_pod(pod(f"p-{name}", cpu), node=name)
    assert list(best(accounting, reservation_info("new", 1, available=False), ["a", "b", "c"])) == expected


def test_where_running_pods_are_taken_in_comes_last_and_the_fewer_the_better():
    accounting = accounting_of("a", "b", "c")
    for name, pods in (("a", 2), ("b", 1), ("c", 0)):
        for number in range(pods):
            accounting.observe_pod(pod(f"{name}{number}", 60 // pods, app="a"), node=name)
    accounting.observe_pod(pod("z", 50), node="c")
    new = reservation_info(
        "new", 14, policy=RESTRICTED, allows_pre_allocation=True, enable_multiple=True, available=False
    )
    assert best(accounting, new, ["a", "b", "c"]) == ("c",)
    large = reservation_info(
        "new", 60, policy=RESTRICTED, allows_pre_allocation=True, enable_multiple=True, available=False
    )
    assert best(accounting, large, ["a", "b", "c"]) == ("b",)


UNSATISFIABLE = "whenUnsatisfiable"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({}, False, id="nothing"),
        pytest.param({"affinity": {"podAntiAffinity": {PREFERRED: [{"weight": 1}]}}}, True, id="preferred-affinity"),
        pytest.param({"affinity": {"nodeAffinity": {"required": {}}}}, False, id="required-affinity"),
        pytest.param({"topologySpreadConstraints": [{UNSATISFIABLE: "ScheduleAnyway"}]}, True, id="spread-anyway"),
        pytest.param({"topologySpreadConstraints": [{UNSATISFIABLE: "DoNotSchedule"}]}, False, id="spread-strictly"),
        pytest.param({"topologySpreadConstraints": "x", "affinity": {"podAffinity": []}}, False, id="another-form"),
    ],
)
def test_what_a_template_prefers_is_left_to_kube_scheduler(spec, expected):
    assert scoring.has_preferences({"spec": spec}) is expected
