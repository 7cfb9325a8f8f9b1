"""Pods of one priority that began in the same second: kube-scheduler may take them in any order.

The order decides how many pods end and how many budgets are violated, so what `simulate` says is one of several.
"""

import pytest

from tests.dra.engine.diagnosis.cluster_states import node, snapshot
from tests.scenarios import simulated
from tests.scenarios.preempted import difference, orders

FIRST, LATER = "2026-11-20T10:00:00Z", "2026-11-20T10:00:01Z"


def runs(name, cpu, priority, *, on="n1", began=FIRST, app=""):
    return {
        "metadata": {"name": name, "namespace": "ml", "uid": name, "labels": {"app": app} if app else {}},
        "spec": {
            "nodeName": on,
            "priority": priority,
            "containers": [{"resources": {"requests": {"cpu": f"{cpu}m"}}}],
        },
        "status": {"startTime": began, "phase": "Running"},
    }


def coming(cpu):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "new", "namespace": "ml"},
        "spec": {
            "priorityClassName": "high",
            "containers": [{"name": "a", "image": "b", "resources": {"requests": {"cpu": f"{cpu}m"}}}],
        },
    }


def budget(app, allowed):
    return {
        "metadata": {"name": app, "namespace": "ml"},
        "spec": {"selector": {"matchLabels": {"app": app}}},
        "status": {"disruptionsAllowed": allowed},
    }


HIGH = [{"metadata": {"name": "high"}, "value": 1000}]

ONE_OR_TWO = (runs("small", 3200, 100), runs("big", 6400, 100), runs("least", 3200, 10, began=LATER))
"""Let back first, `small` leaves room for `least`, and `big` ends alone; if `big` is first, the two others end."""

BUDGETED = (
    runs("a", 3200, 100, app="x"),
    runs("b", 3200, 100, app="x"),
    runs("c", 3200, 100),
    runs("d", 6400, 10, began=LATER, app="x"),
)
"""One end of x is allowed: it is counted against whichever of `a` and `b` comes first."""


def seen(pods, budgets=()):
    return snapshot(pods=tuple(pods), nodes=[node("n1", cpu="16")], budgets=list(budgets), priorities=HIGH)


def said(found, cpu):
    return simulated.simulate_pod(found, coming(cpu), namespace="ml")


@pytest.mark.parametrize(
    ("pods", "budgets", "cpu", "ended"),
    [
        pytest.param(ONE_OR_TWO, (), 8000, {"big"}, id="one-ends"),
        pytest.param(ONE_OR_TWO, (), 8000, {"small", "least"}, id="two-end-where-one-would-do"),
        pytest.param(BUDGETED, [budget("x", 1)], 12000, {"a", "c", "d"}, id="the-first-of-a-budget"),
        pytest.param(BUDGETED, [budget("x", 1)], 12000, {"b", "c", "d"}, id="the-second-of-a-budget"),
    ],
)
def test_what_another_order_among_equals_ends_is_no_difference(pods, budgets, cpu, ended):
    """One or two of 300 decisions of kube-scheduler were told as differences, for months without a cause."""
    found = seen(pods, budgets)
    assert difference(found, coming(cpu), "ml", said(found, cpu), "n1", ended) is None


@pytest.mark.parametrize(
    "ended", [pytest.param({"small", "big"}, id="more-than-any-order-ends"), pytest.param({"small"}, id="too-few")]
)
def test_what_no_order_ends_is_a_difference(ended):
    found = seen(ONE_OR_TWO)
    assert "could not be" in difference(found, coming(8000), "ml", said(found, 8000), "n1", ended)


def test_a_node_that_is_worse_in_every_order_is_a_difference():
    pods = (runs("one", 8000, 100, on="n1"), runs("two", 8000, 10, on="n2"))
    found = snapshot(pods=pods, nodes=[node("n1"), node("n2")], priorities=HIGH)
    told = difference(found, coming(8000), "ml", said(found, 8000), "n1", {"one"})
    assert "not as good as n2" in told


def test_pods_that_began_in_different_seconds_have_one_order():
    assert len(list(orders(seen(ONE_OR_TWO).pods))) == 2
    apart = (runs("a", 1, 100), runs("b", 1, 100, began=LATER))
    assert len(list(orders(seen(apart).pods))) == 1
