"""Values that write themselves, as Go writes them again; what Go refuses is in the recorded exchanges."""

import pytest

from localplane.schemas import scalars
from localplane.schemas.scalars import ScalarDecodeError
from tests.violations import for_each_case


@pytest.mark.parametrize(
    ("given", "written"),
    [
        pytest.param("2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z", id="as-it-is"),
        pytest.param("2026-01-02T03:04:05.987Z", "2026-01-02T03:04:05Z", id="fraction-is-cut"),
        pytest.param("2026-01-02T03:04:05+02:00", "2026-01-02T01:04:05Z", id="in-utc"),
        pytest.param("2026-01-02T3:04:05Z", "2026-01-02T03:04:05Z", id="one-digit-hour"),
        pytest.param("2026-01-01T00:30:00+01:00", "2025-12-31T23:30:00Z", id="the-year-before"),
    ],
)
def test_times_are_in_utc_and_whole_seconds(given, written):
    assert scalars.decode_time(given) == written


def test_micro_times_keep_microseconds():
    assert scalars.decode_micro_time("2026-01-02T03:04:05.123456+02:00") == "2026-01-02T01:04:05.123456Z"
    assert scalars.decode_micro_time("2026-01-02T01:04:05.123456Z") == "2026-01-02T01:04:05.123456Z"


@pytest.mark.parametrize(
    ("given", "refusal"),
    [
        pytest.param("2026-02-30T03:04:05.123456Z", "day out of range", id="day-of-no-month"),
        pytest.param("2026-02-03T24:00:00.000000Z", "hour out of range", id="hour"),
        pytest.param("2026-02-03T03:04:05Z", 'cannot parse "Z" as ".000000"', id="no-microseconds"),
    ],
)
def test_micro_times_that_do_not_exist_are_refused(given, refusal):
    with pytest.raises(ScalarDecodeError, match=refusal):
        scalars.decode_micro_time(given)


@for_each_case(
    [
        ("1024Mi", "1Gi"),
        ("1500Mi", "1500Mi"),
        ("0.5", "500m"),
        ("1000m", "1"),
        ("2000", "2k"),
        ("1e3", "1e3"),
        ("1000e3", "1e6"),
        ("0.5Gi", "512Mi"),
        ("0.0000000001", "1n"),
        (1.5, "1500m"),
        (0, "0"),
    ]
)
def test_amounts_of_resources_are_canonical(given, written):
    assert scalars.decode_resource_quantity(given) == written


@for_each_case(["", "x", "1 2", "Ki", True, None, [], "1.2.3"])
def test_what_is_no_quantity_is_refused(given):
    with pytest.raises(ScalarDecodeError, match="quantities must match"):
        scalars.decode_quantity(given)
