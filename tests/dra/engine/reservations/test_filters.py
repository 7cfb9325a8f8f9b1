"""The arithmetic of a node, with the vectors of specs/koordinator.md A.9."""

import pytest
from msgspec.structs import replace

from dra.engine.reservations import filters as filtering
from dra.engine.reservations.node_usage import ReservationUsage
from dra.engine.reservations.pod_info import ReservationAffinity
from dra.engine.reservations.rejections import Rejection, RejectionReason, count_texts, event_message
from dra.model.meta import Uid
from dra.model.quantities import NANOS_PER_UNIT, PODS
from tests.dra.engine.reservations.examples import (
    ALIGNED,
    DEFAULT,
    REQUIRED,
    RESTRICTED,
    node,
    of,
    pod,
    reservation_info,
)
from tests.violations import for_each_case


def check(node_usage, candidate):
    result = filtering.filter_node(node_usage, candidate)
    if result.fits:
        return "inside" if result.reservations else "beside"
    return [rejection.text for rejection in result.rejections]


NODE_INSUFFICIENT = "Insufficient cpu by node"
RESERVATION_INSUFFICIENT = "Reservation(s) Insufficient cpu"


@for_each_case(
    [
        pytest.param(
            node(10, used=4, held=[reservation_info(cpu=4)]),
            pod(cpu=6, app="a"),
            "inside",
            id="reservation-first-rest-of-node",
        ),
        pytest.param(
            node(10, used=4, held=[reservation_info(cpu=4)]),
            pod(cpu=7, app="a"),
            [NODE_INSUFFICIENT],
            id="more-than-both",
        ),
        pytest.param(
            node(10, used=4, held=[reservation_info(cpu=4, policy=ALIGNED)]),
            pod(cpu=6, app="a"),
            "inside",
            id="aligned-spills",
        ),
        pytest.param(
            node(10, used=4, held=[reservation_info(cpu=4, policy=RESTRICTED)]),
            pod(cpu=6, app="a"),
            [NODE_INSUFFICIENT, RESERVATION_INSUFFICIENT],
            id="restricted-does-not-spill",
        ),
        pytest.param(
            node(10, used=4, held=[(reservation_info(cpu=4, policy=RESTRICTED), 3)]),
            pod(cpu=2, app="a"),
            "beside",
            id="restricted-and-full-so-outside",
        ),
        pytest.param(
            node(10, used=4, held=[(reservation_info(cpu=4, policy=RESTRICTED), 3)]),
            pod(cpu=2, app="a", affinity=REQUIRED),
            [RESERVATION_INSUFFICIENT],
            id="restricted-and-full-and-required",
        ),
        *(
            pytest.param(
                node(10, used=4, held=[reservation_info(cpu=4, policy=policy)]),
                pod(cpu=3, app="b"),
                [NODE_INSUFFICIENT],
                id=f"other-{policy}",
            )
            for policy in (DEFAULT, ALIGNED, RESTRICTED)
        ),
        pytest.param(
            node(gpu=100, held=[(reservation_info(gpu=100, policy=RESTRICTED), None)]),
            pod(gpu=80, app="a", affinity=REQUIRED),
            "inside",
            id="gpu-core-80-of-100",
        ),
        pytest.param(
            node(gpu=100, held=[reservation_info(gpu=100, policy=RESTRICTED)]).with_pod(
                Uid("a"), of(gpu=80), into=Uid("uid-r")
            ),
            pod(gpu=50, app="a", affinity=REQUIRED),
            ["Insufficient gpu by node", "Reservation(s) Insufficient gpu"],
            id="gpu-core-another-50",
        ),
        pytest.param(
            node(10, held=[reservation_info("r1", 4), reservation_info("r2", 4)]),
            pod(cpu=9, app="a"),
            [NODE_INSUFFICIENT],
            id="two-reservations-cannot-be-joined",
        ),
        pytest.param(
            node(10, held=[reservation_info("r1", 4), reservation_info("r2", 4)]),
            pod(cpu=6, app="a"),
            "inside",
            id="one-of-two-and-the-node",
        ),
        pytest.param(node(16, held=[reservation_info(cpu=8)]), pod(cpu=12), [NODE_INSUFFICIENT], id="scenario-1-other"),
        pytest.param(node(16, held=[reservation_info(cpu=8)]), pod(cpu=8, app="a"), "inside", id="scenario-1-owner"),
        pytest.param(
            node(16, held=[(reservation_info(cpu=8), 8)]),
            pod(cpu=4, app="a"),
            "inside",
            id="scenario-2-third-spills-to-the-node",
        ),
        pytest.param(
            node(16, held=[(reservation_info(cpu=8, policy=RESTRICTED), 8)]),
            pod(cpu=4, app="a"),
            "beside",
            id="scenario-2-third-takes-the-node",
        ),
        pytest.param(
            node(16),
            pod(cpu=1, affinity=REQUIRED),
            ["node(s) no reservations match reservation affinity"],
            id="scenario-9",
        ),
        pytest.param(node(4), pod(cpu=5), [NODE_INSUFFICIENT], id="no-reservation-at-all"),
        pytest.param(node(4), pod(gpu=1), ["Insufficient gpu by node"], id="what-the-node-does-not-have"),
    ],
)
def test_where_a_pod_fits(node_usage, candidate, answer):
    assert check(node_usage, candidate) == answer


@pytest.mark.parametrize(
    ("consumed", "other", "fits"),
    [
        pytest.param(8, 2, True, id="what-is-left"),
        pytest.param(8, 3, False, id="no-more-than-that"),
        pytest.param(3, 6, True, id="the-reservation-counts-when-it-is-greater"),
        pytest.param(3, 7, False, id="and-no-less"),
    ],
)
def test_others_are_charged_the_greater_of_reservation_and_consumers(consumed, other, fits):
    node_usage = node(10, held=[(reservation_info(cpu=4), consumed)])
    assert filtering.filter_node(node_usage, pod(cpu=other)).fits is fits


def test_what_is_kept_within_a_reservation_is_no_owners():
    node_usage = node(10, used=6, held=[reservation_info(cpu=4, reserved=of(1))])
    assert check(node_usage, pod(cpu=3, app="a")) == "inside"
    assert check(node_usage, pod(cpu=4, app="a")) == [NODE_INSUFFICIENT]
    restricted = node(10, held=[reservation_info(cpu=4, reserved=of(1), policy=RESTRICTED)])
    assert check(restricted, pod(cpu=4, app="a", affinity=REQUIRED)) == [RESERVATION_INSUFFICIENT]


def test_an_owner_gets_its_place_on_a_node_that_has_shrunk_below_what_is_promised():
    node_usage = node(10, used=4, held=[reservation_info("r1", 4), reservation_info("r2", 4, app="b")])
    assert node_usage.free("cpu") < 0
    assert check(node_usage, pod(cpu=2, app="a")) == "inside"
    assert check(node_usage, pod(cpu=3, app="a")) == [NODE_INSUFFICIENT]


def test_resources_outside_the_restricted_ones_may_come_from_the_node():
    node_usage = node(
        10,
        memory="10",
        held=[reservation_info(cpu=4, memory="4", policy=RESTRICTED, restricted_resources=frozenset({"cpu"}))],
    )
    assert check(node_usage, pod(cpu=4, memory="8", app="a")) == "inside"
    assert check(node_usage, pod(cpu=5, memory="4", app="a", affinity=REQUIRED)) == [RESERVATION_INSUFFICIENT]


def test_a_pod_that_asks_for_nothing_needs_only_a_place_and_an_owner_has_one():
    crowded = replace(node(10, held=[reservation_info(cpu=4)]), capacity={**of(10), PODS: NANOS_PER_UNIT})
    assert check(crowded, pod()) == ["Too many pods by node"]
    assert check(crowded, pod(cpu=1, app="a")) == "inside"


def test_a_reservation_that_counts_pods_takes_no_more_of_them():
    held = reservation_info(cpu=4, pods=1, policy=RESTRICTED)
    node_usage = node(10, held=[(held, 1)])
    assert check(node_usage, pod(cpu=1, app="a", affinity=REQUIRED)) == ["Reservation(s) Too many pods"]


def test_who_names_the_reservation_gets_the_numbers():
    node_usage = node(10, held=[(reservation_info(cpu=4, policy=RESTRICTED), 3)])
    candidate = pod(cpu=2, app="a", affinity=ReservationAffinity(name="r"))
    assert check(node_usage, candidate) == [
        "Reservation(s) Insufficient cpu, requested: 2000, used: 3000, capacity: 4000"
    ]


def test_what_is_kept_within_is_no_capacity_and_not_used_either():
    """As Koordinator prints it, for 7 CPUs of which 1 is kept within and 1 is used."""
    node_usage = node(10, held=[(reservation_info(cpu=7, reserved=of(1), policy=RESTRICTED), 1)])
    candidate = pod(cpu=6, app="a", affinity=ReservationAffinity(name="r"))
    assert check(node_usage, candidate) == [
        "Reservation(s) Insufficient cpu, requested: 6000, used: 1000, capacity: 6000"
    ]


def test_who_ignores_reservations_gets_all_that_no_pod_uses_and_is_in_none():
    node_usage = node(10, used=4, held=[(reservation_info(cpu=4), 1)])
    result = filtering.filter_node(node_usage, pod(cpu=5, app="a", ignores_reservations=True))
    assert (result.fits, result.reservations) == (True, ())
    assert not filtering.filter_node(node_usage, pod(cpu=6, ignores_reservations=True)).fits


def test_what_is_promised_to_one_is_no_others():
    held = ReservationUsage(info=reservation_info(cpu=4, policy=RESTRICTED), nominated={pod("first").uid: of(3)})
    node_usage = node(4).with_reservation(held)
    assert check(node_usage, pod("second", 2, app="a", affinity=REQUIRED)) == [
        NODE_INSUFFICIENT,
        RESERVATION_INSUFFICIENT,
    ]
    assert check(node_usage, pod("first", 3, app="a", affinity=REQUIRED)) == "inside"
    assert (
        node_usage.with_pod(pod("first").uid, pod("first", 3).amounts, into=held.info.uid)
        .reservations[held.info.uid]
        .nominated
        == {}
    )


def test_a_node_that_nobody_knows_takes_nothing():
    assert check(replace(node(10), is_known=False), pod(cpu=1)) == ["node(s) not found"]


def test_a_refusal_of_all_nodes_is_counted_as_upstream_does():
    rejections = [
        *filtering.filter_node(
            node(10, held=[(reservation_info(cpu=4, policy=RESTRICTED), 3)]), pod(cpu=2, app="a", affinity=REQUIRED)
        ).rejections,
    ] * 2
    assert count_texts(rejections) == ["2 Reservation(s) Insufficient cpu"]
    assert event_message(rejections, owned=2) == "0/2 reservations are available: 2 Reservation(s) Insufficient cpu."
    of_node = [
        Rejection(reason=RejectionReason.UNSCHEDULABLE),
        Rejection(reason=RejectionReason.NODE_INSUFFICIENT, subject="memory"),
    ]
    assert event_message(of_node, owned=2) == (
        "0/2 reservations are available: 1 Reservation(s) for node reason that Insufficient memory by node, "
        "1 Reservation(s) is unschedulable."
    )
    assert event_message((), owned=0) == "0/0 reservations are available."
