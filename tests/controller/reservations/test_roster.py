"""What the controller remembers of pods that it has asked about."""

from hypothesis import example, given
from hypothesis import strategies as st

from controller.reservations.roster import Roster
from dra.engine.instants import NEVER
from dra.model.meta import ObjectMeta, Uid
from dra.model.placement import PlacedPod
from tests.dra.engine.reservations.examples import available

R, P = Uid("uid-r"), Uid("uid-p")
WAITS = PlacedPod(metadata=ObjectMeta(namespace="default", name="p", uid=P))


@given(began=st.floats(min_value=0.0, max_value=1e7))
@example(began=4.1)  # 64.1 - 4.1 is less than 60
def test_a_pod_that_is_asked_about_again_when_it_is_due_is_not_due_again_at_the_same_instant(began):
    """Else time stands still in a simulation, and a core is busy outside (seed 382 of the histories, once)."""
    roster = Roster()
    roster.observe(R, "1", available())
    roster.answer(R, P, WAITS, now=began)
    again, (consumer,) = roster.ask_again(R)
    assert consumer.uid == P
    roster.answer(R, P, WAITS, now=again)
    assert roster.ask_again(R) == (NEVER, ())
