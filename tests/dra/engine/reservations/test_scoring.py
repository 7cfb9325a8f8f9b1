"""Which reservation a pod gets, and which node it prefers: specs/koordinator.md A.10."""

import pytest

from dra.engine.reservations import filters as filtering
from dra.engine.reservations.node_usage import ReservationUsage
from dra.engine.reservations.scoring import (
    NominatedReservation,
    most_allocated,
    node_scores,
    nominate_reservation,
    score_nominated,
)
from tests.dra.engine.reservations.examples import RESTRICTED, node, of, pod, reservation_info
from tests.violations import for_each_case


@for_each_case(
    [
        pytest.param(ReservationUsage(info=reservation_info(cpu=4)), of(4), 100, id="filled"),
        pytest.param(ReservationUsage(info=reservation_info(cpu=4)), of(1), 25, id="a-quarter"),
        pytest.param(
            ReservationUsage(info=reservation_info(cpu=4), allocated=of(2)), of(1), 75, id="with-what-others-have"
        ),
        pytest.param(ReservationUsage(info=reservation_info(cpu=4)), of(5), 0, id="overflowing"),
        pytest.param(
            ReservationUsage(info=reservation_info(cpu=4, memory="8Gi")), of(4, memory="2Gi"), 62, id="mean-in-integers"
        ),
        pytest.param(ReservationUsage(info=reservation_info(cpu=3)), of(1), 33, id="rounded-down"),
        pytest.param(
            ReservationUsage(info=reservation_info(cpu=4, memory=0)), of(1), 25, id="what-is-not-held-does-not-count"
        ),
        pytest.param(ReservationUsage(info=reservation_info()), of(1), 0, id="nothing-held"),
    ]
)
def test_how_full_a_reservation_would_be(held, wanted, score):
    assert most_allocated(held, wanted) == score


@pytest.mark.parametrize(
    ("held", "name"),
    [
        pytest.param([reservation_info("r1", 8), reservation_info("r2", 4)], "r2", id="the-fullest"),
        pytest.param(
            [reservation_info("r1", 8, order=2), reservation_info("r2", 2), reservation_info("r3", 8, order=7)],
            "r1",
            id="the-smallest-order",
        ),
        pytest.param(
            [reservation_info("r1", 8, order=-1), reservation_info("r2", 8, order=1)],
            "r1",
            id="negative-orders-are-smaller",
        ),
        pytest.param(
            [reservation_info("r1", 8, order=1), reservation_info("r2", 8, order=7, for_migration=True)],
            "r2",
            id="room-for-a-migration-before-any-order",
        ),
        pytest.param([reservation_info("r2", 4), reservation_info("r1", 4)], "r1", id="by-name-among-equals"),
        pytest.param(
            [
                reservation_info("r1", 1, order=1, policy=RESTRICTED),
                reservation_info("r2", 8, order=2, policy=RESTRICTED),
            ],
            "r2",
            id="that-fits",
        ),
    ],
)
def test_which_reservation_a_pod_gets(held, name):
    node_usage, candidate = node(20, held=held), pod(cpu=2, app="a")
    chosen = nominate_reservation(node_usage, candidate, filtering.filter_node(node_usage, candidate).reservations)
    assert node_usage.reservations[chosen].info.name == name


def test_a_node_without_a_fitting_reservation_names_none():
    node_usage = node(20)
    assert score_nominated(node_usage, pod(cpu=1), filtering.filter_node(node_usage, pod(cpu=1))) is None


def test_a_pod_with_nothing_but_a_held_claim_prefers_its_node():
    claims = frozenset({("default", "resourceClaimName", "shared")})
    node_usage, bare = node(cpu=4, held=[reservation_info(claims=claims)]), pod(app="a", claims=claims)
    assert score_nominated(node_usage, bare, filtering.filter_node(node_usage, bare)).score == 1


@pytest.mark.parametrize(
    ("nominees", "scores"),
    [
        pytest.param([], {}, id="nobody"),
        pytest.param(
            [NominatedReservation(node="a", score=50), NominatedReservation(node="b", score=25)],
            {"a": 100, "b": 50},
            id="scaled",
        ),
        pytest.param(
            [
                NominatedReservation(node="a", score=90),
                NominatedReservation(node="b", score=20, rank=(True, False, 5)),
                NominatedReservation(node="c", score=50, rank=(True, False, 9)),
            ],
            {"a": 9, "b": 100, "c": 5},
            id="the-smallest-order-of-all-nodes-first",
        ),
        pytest.param(
            [
                NominatedReservation(node="old", score=90, rank=(True, False, 1)),
                NominatedReservation(node="new", score=20, rank=(False, False, 1_800_000_000_000)),
            ],
            {"old": 9, "new": 100},
            id="room-for-a-migration-before-the-smallest-order",
        ),
        pytest.param([NominatedReservation(node="a", score=0)], {"a": 0}, id="nothing-to-scale"),
        pytest.param(
            [
                NominatedReservation(node="b", score=1, rank=(True, False, 1)),
                NominatedReservation(node="a", score=2, rank=(True, False, 1)),
            ],
            {"a": 100, "b": 0},
            id="equal-orders",
        ),
    ],
)
def test_which_node_a_pod_prefers(nominees, scores):
    assert node_scores(nominees) == scores
