"""Objects of our APIs that cannot be read are named."""

import pytest

from dra.api.api_objects import parse_object
from dra.api.migration.model import MalformedPodMigrationJobError, PodMigrationJob
from dra.api.reservations.model import MalformedReservationError, Reservation

NAMED = {"metadata": {"name": "web"}}


@pytest.mark.parametrize(
    ("model", "content", "error_type", "text"),
    [
        pytest.param(
            PodMigrationJob,
            {**NAMED, "spec": {"mode": "Sometimes"}},
            MalformedPodMigrationJobError,
            "podmigrationjob web: spec.mode: ",
            id="a-wrong-field",
        ),
        pytest.param(Reservation, NAMED, MalformedReservationError, "reservation web: spec: ", id="a-missing-field"),
        pytest.param(
            Reservation, {"metadata": "x"}, MalformedReservationError, "reservation ?: metadata: ", id="without-a-name"
        ),
    ],
)
def test_the_error_begins_with_the_object(model, content, error_type, text):
    with pytest.raises(error_type, match=f"^{text.replace('?', '[?]')}"):
        parse_object(model, content, error_type=error_type)
