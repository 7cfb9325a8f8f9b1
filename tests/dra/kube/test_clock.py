from datetime import UTC, datetime, timedelta, timezone

from dra.kube.clock import SYSTEM, rfc3339, rfc3339_micro


def test_a_micro_time_has_six_decimals_even_when_they_are_zero():
    assert rfc3339_micro(datetime(2026, 11, 20, 12, 0, tzinfo=UTC)) == "2026-11-20T12:00:00.000000Z"


def test_a_micro_time_is_in_utc():
    there = timezone(timedelta(hours=8))
    assert rfc3339_micro(datetime(2026, 11, 20, 12, 0, 0, 5, tzinfo=there)) == "2026-11-20T04:00:00.000005Z"


def test_a_time_has_whole_seconds_in_utc():
    there = timezone(timedelta(hours=8))
    assert rfc3339(datetime(2026, 11, 20, 12, 0, 0, 999_999, tzinfo=there)) == "2026-11-20T04:00:00Z"


def test_the_system_clock_moves_forward_and_knows_its_zone():
    before = SYSTEM.now()
    assert SYSTEM.now() >= before
    assert SYSTEM.wall().tzinfo is UTC
