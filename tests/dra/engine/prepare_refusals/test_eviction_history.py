"""How soon the next pod of a controller is evicted from a node."""

from hypothesis import given
from hypothesis import strategies as st

from dra.engine.prepare_refusals.decide import FORGOTTEN_AFTER, MAX_PATIENCE, PATIENCE, EvictionHistory


def test_the_next_replacement_on_the_same_node_is_waited_for_twice_as_long():
    history = EvictionHistory()
    seen = []
    for number in range(7):
        seen.append(history.patience("web", "n1", now=float(number)))
        history.record("web", "n1", now=float(number))
    assert seen == [30.0, 60.0, 120.0, 240.0, 480.0, 600.0, 600.0]
    assert history.patience("web", "n2", now=7.0) == history.patience("other", "n1", now=7.0) == PATIENCE
    assert history.patience("web", "n1", now=7.0 + FORGOTTEN_AFTER) == PATIENCE


@given(
    events=st.lists(
        st.tuples(st.sampled_from("ab"), st.sampled_from(["n1", "n2"]), st.floats(0.0, 2 * FORGOTTEN_AFTER)),
        max_size=60,
    )
)
def test_no_controller_loses_pods_of_one_node_faster_than_the_patience_grows(events):
    history, now, last = EvictionHistory(), 0.0, {}
    for owner, node, pause in events:
        now += pause
        patience = history.patience(owner, node, now=now)
        assert PATIENCE <= patience <= MAX_PATIENCE
        before = last.get((owner, node))
        if before is None or now - before[0] >= FORGOTTEN_AFTER:
            assert patience == PATIENCE
        else:
            assert patience == min(2 * before[1], MAX_PATIENCE)
        history.record(owner, node, now=now)
        last[owner, node] = (now, patience)
