import pytest

from dra.engine.dirty_keys import DirtyKeys
from dra.engine.instants import NEVER, WALL_SLACK, Moment


def test_keys_are_taken_once_and_in_the_order_in_which_they_were_marked():
    keys = DirtyKeys()
    keys.update(["b", "a", "b"])
    keys.add("c", due=5.0)
    assert (list(keys), len(keys), "c" in keys, "d" in keys) == (["b", "a", "c"], 3, True, False)
    assert list(keys.take().items()) == [("b", -NEVER), ("a", -NEVER), ("c", 5.0)]
    assert keys.take() == {}


@pytest.mark.parametrize(
    ("dues", "due"),
    [
        pytest.param([5.0, 3.0], 3.0, id="the-earliest-counts"),
        pytest.param([3.0, 5.0], 3.0, id="whatever-the-order"),
        pytest.param([3.0, -NEVER], -NEVER, id="at-once-is-the-earliest"),
    ],
)
def test_a_key_is_due_at_the_earliest_time_of_its_marks(dues, due):
    keys = DirtyKeys()
    for time in dues:
        keys.add("a", due=time)
    assert keys.take() == {"a": due}


def test_keys_can_be_unmarked():
    keys = DirtyKeys()
    keys.update(["a", "b", "c"])
    keys.discard("b")
    keys.discard("unknown")
    assert list(keys) == ["a", "c"]
    keys.clear()
    assert len(keys) == 0


@pytest.mark.parametrize(
    ("wall", "instant"),
    [
        pytest.param(1030.0, 130.0 + WALL_SLACK, id="soon"),
        pytest.param(900.0, 100.0 + WALL_SLACK, id="past"),
        pytest.param(9999.0, 700.0, id="far-off-is-checked-again"),
        pytest.param(NEVER, NEVER, id="no-deadline"),
    ],
)
def test_a_deadline_by_the_time_of_day_becomes_an_instant(wall, instant):
    assert Moment(instant=100.0, wall=1000.0).instant_of(wall) == instant


@pytest.mark.parametrize(
    ("change", "ends"),
    [
        pytest.param(lambda dirty: dirty.add("b"), False, id="another-key-at-once"),
        pytest.param(lambda dirty: dirty.add("a", due=5.0), False, id="a-marked-key-again"),
        pytest.param(lambda dirty: dirty.add("b", due=5.0), True, id="another-key-for-later"),
        pytest.param(lambda dirty: dirty.take(), True, id="taken"),
        pytest.param(lambda dirty: dirty.discard("a"), True, id="unmarked"),
        pytest.param(lambda dirty: dirty.clear(), True, id="cleared"),
    ],
)
def test_a_generation_of_marks_ends_when_a_key_may_not_be_due_at_once(change, ends):
    dirty = DirtyKeys()
    dirty.add("a")
    before = dirty.generation
    change(dirty)
    assert (dirty.generation != before) is ends
