"""An object that cannot be read as a reservation: its condition says why, and nothing else is decided."""

import pytest

from dra.engine.reservations import lifecycle
from dra.engine.reservations.view import UnreadableReservation
from dra.model.event_type import EventType
from dra.model.meta import IncompleteContent
from tests.dra.engine.reservations.examples import at, content, observed

ERROR = "reservation demo: spec.ttl: not a duration"
READABLE = {
    "type": "Readable",
    "status": "False",
    "reason": "Invalid",
    "message": ERROR,
    "lastProbeTime": "2027-01-15T08:00:01Z",
    "lastTransitionTime": "2027-01-15T08:00:01Z",
}
SCHEDULED = {"type": "Scheduled", "status": "True"}
EARLIER = {"lastTransitionTime": "2026-12-24T18:00:00Z"}


@pytest.mark.parametrize(
    ("status", "conditions"),
    [
        pytest.param({}, [READABLE], id="no-condition-yet"),
        pytest.param({"conditions": [SCHEDULED]}, [SCHEDULED, READABLE], id="others-stay"),
        pytest.param(
            {"conditions": [READABLE | EARLIER | {"message": "another"}, SCHEDULED]},
            [SCHEDULED, READABLE | EARLIER],
            id="another-error-is-no-transition",
        ),
        pytest.param({"conditions": ["nonsense", SCHEDULED]}, [SCHEDULED, READABLE], id="no-condition-at-all"),
        pytest.param({"conditions": "nonsense"}, [READABLE], id="conditions-are-no-list"),
        pytest.param("nonsense", [READABLE], id="status-is-no-object"),
    ],
)
def test_the_condition_says_why_an_object_cannot_be_read(status, conditions):
    view = UnreadableReservation(obj=observed(content() | {"status": status}), error=ERROR)
    (patch,) = lifecycle.decide(view, at()).actions
    assert patch.body == {"status": {"conditions": conditions}}
    (event,) = patch.events
    assert (event.reason, event.message, event.type) == ("Invalid", ERROR, EventType.WARNING)


@pytest.mark.parametrize(
    "whole",
    [
        pytest.param(content(status={"conditions": [READABLE | EARLIER]}), id="the-condition-says-the-same"),
        pytest.param(IncompleteContent(content(), fault="larger than 1 MiB"), id="the-object-is-too-large"),
    ],
)
def test_nothing_is_written_where_it_would_say_nothing_new_or_cost_too_much(whole):
    view = UnreadableReservation(obj=observed(whole), error=ERROR)
    assert lifecycle.decide(view, at()).actions == ()
