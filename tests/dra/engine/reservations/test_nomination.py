"""Which reservation a pod gets, and which node it prefers: specs/koordinator.md A.10."""

import pytest

from dra.engine.reservations import filter as filtering
from dra.engine.reservations.nominate import nominate, nominee
from dra.engine.reservations.rooms import Held
from dra.engine.reservations.score import Nominee, most_allocated, of_nodes
from tests.dra.engine.reservations.examples import RESTRICTED, holding, node, of, pod


@pytest.mark.parametrize(
    ("held", "wanted", "score"),
    [
        pytest.param(Held(holding=holding(cpu=4)), of(4), 100, id="filled"),
        pytest.param(Held(holding=holding(cpu=4)), of(1), 25, id="a-quarter"),
        pytest.param(Held(holding=holding(cpu=4), consumed=of(2)), of(1), 75, id="with-what-others-have"),
        pytest.param(Held(holding=holding(cpu=4)), of(5), 0, id="overflowing"),
        pytest.param(Held(holding=holding(cpu=4, memory="8Gi")), of(4, memory="2Gi"), 62, id="mean-in-integers"),
        pytest.param(Held(holding=holding(cpu=3)), of(1), 33, id="rounded-down"),
        pytest.param(Held(holding=holding(cpu=4, memory=0)), of(1), 25, id="what-is-not-held-does-not-count"),
        pytest.param(Held(holding=holding()), of(1), 0, id="nothing-held"),
    ],
)
def test_how_full_a_reservation_would_be(held, wanted, score):
    assert most_allocated(held, wanted) == score


@pytest.mark.parametrize(
    ("held", "name"),
    [
        pytest.param([holding("r1", 8), holding("r2", 4)], "r2", id="the-fullest"),
        pytest.param(
            [holding("r1", 8, order=2), holding("r2", 2), holding("r3", 8, order=7)], "r1", id="the-smallest-order"
        ),
        pytest.param([holding("r1", 8, order=-1), holding("r2", 8, order=1)], "r1", id="negative-orders-are-smaller"),
        pytest.param([holding("r2", 4), holding("r1", 4)], "r1", id="by-name-among-equals"),
        pytest.param(
            [holding("r1", 1, order=1, policy=RESTRICTED), holding("r2", 8, order=2, policy=RESTRICTED)],
            "r2",
            id="that-fits",
        ),
    ],
)
def test_which_reservation_a_pod_gets(held, name):
    room, claimant = node(20, held=held), pod(cpu=2, app="a")
    chosen = nominate(room, claimant, filtering.check(room, claimant).inside)
    assert room.held[chosen].holding.name == name


def test_a_node_without_a_fitting_reservation_names_none():
    room = node(20)
    assert nominee(room, pod(cpu=1), filtering.check(room, pod(cpu=1))) is None


@pytest.mark.parametrize(
    ("nominees", "scores"),
    [
        pytest.param([], {}, id="nobody"),
        pytest.param([Nominee(node="a", score=50), Nominee(node="b", score=25)], {"a": 100, "b": 50}, id="scaled"),
        pytest.param(
            [Nominee(node="a", score=90), Nominee(node="b", score=20, order=5), Nominee(node="c", score=50, order=9)],
            {"a": 9, "b": 100, "c": 5},
            id="the-smallest-order-of-all-nodes-first",
        ),
        pytest.param([Nominee(node="a", score=0)], {"a": 0}, id="nothing-to-scale"),
        pytest.param(
            [Nominee(node="b", score=1, order=1), Nominee(node="a", score=2, order=1)],
            {"a": 100, "b": 0},
            id="equal-orders",
        ),
    ],
)
def test_which_node_a_pod_prefers(nominees, scores):
    assert of_nodes(nominees) == scores
