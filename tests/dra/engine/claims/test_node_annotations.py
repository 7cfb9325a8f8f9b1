import pytest

from dra.engine.claims.node_annotations import (
    CALM,
    PAUSE,
    REFUSED,
    AnnotateNode,
    AnnotationPlan,
    AnnotationWrites,
    NodeAnnotationsView,
    decide,
)
from dra.engine.instants import NEVER

KEY = ("", "n1")
WRITE = AnnotationPlan(actions=(AnnotateNode(node=KEY, version="7", changes={"k": "v"}),))
NOTHING = AnnotationPlan()


def view(**fields):
    missing = AnnotateNode(node=KEY, version="7", changes=fields.pop("changes", {"k": "v"}))
    return NodeAnnotationsView(missing=missing, **{"is_enabled": True, "is_refused": False, "due": -NEVER, **fields})


@pytest.mark.parametrize(
    ("seen", "plan"),
    [
        pytest.param(view(), WRITE, id="what-is-missing-is-written"),
        pytest.param(view(changes={}), NOTHING, id="what-is-right-stays"),
        pytest.param(view(due=11.0), AnnotationPlan(wake_at=11.0), id="a-pause-is-kept"),
        pytest.param(view(is_refused=True), WRITE, id="a-refusal-is-tried-again"),
        pytest.param(view(is_refused=True, is_enabled=False), NOTHING, id="what-is-left-over-is-tried-once"),
        pytest.param(view(is_enabled=False), WRITE, id="what-is-left-over-is-removed"),
    ],
)
def test_plan_for_the_annotations_of_a_node(seen, plan):
    assert decide(seen, now=10.0) == plan


def test_two_writes_are_prompt_and_further_ones_wait_longer_each_time():
    writes, now = AnnotationWrites(), 0.0
    pauses = []
    for _ in range(11):
        due = writes.due("n1", now=now)
        pauses.append(max(due - now, 0.0))
        now = max(due, now)
        writes.succeed("n1", now=now)
    assert pauses == [0.0, 0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0]
    assert pauses[-1] == PAUSE[1]
    assert writes.due("n2", now=now) == -NEVER, "another node is not concerned"
    assert writes.due("n1", now=now + CALM) == -NEVER


def test_while_one_node_is_tried_after_a_refusal_the_others_wait():
    writes = AnnotationWrites()
    assert writes.refuse(now=0.0)
    assert writes.due("n2", now=0.0) == REFUSED[0]
    writes.attempt(now=1.0)
    assert writes.due("n2", now=1.0) == 1.0 + REFUSED[1]
    assert not writes.refuse(now=1.1), "it is known"
    assert writes.due("n2", now=1.1) == 1.1 + 2 * REFUSED[0]
    writes.succeed("n1", now=2.0)
    assert (writes.is_refused, writes.due("n2", now=2.0)) == (False, -NEVER)


def test_a_node_that_comes_back_begins_anew():
    writes = AnnotationWrites()
    for _ in range(3):
        writes.succeed("n1", now=0.0)
    writes.forget("n1")
    assert writes.due("n1", now=0.0) == -NEVER
