import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.api.durations import SECOND, MalformedDurationError, format_duration, parse_duration
from tests.violations import for_each_case

HOUR = 3600 * SECOND


@for_each_case(
    [
        pytest.param("24h", 24 * HOUR, "24h0m0s", id="hours"),
        pytest.param("1h30m", HOUR * 3 // 2, "1h30m0s", id="parts"),
        pytest.param("1.5h", HOUR * 3 // 2, "1h30m0s", id="fraction"),
        pytest.param("90m", HOUR * 3 // 2, "1h30m0s", id="more-than-an-hour"),
        pytest.param("0", 0, "0s", id="bare-nothing"),
        pytest.param("0s", 0, "0s", id="nothing"),
        pytest.param("1s", SECOND, "1s", id="second"),
        pytest.param("1.5s", SECOND * 3 // 2, "1.5s", id="fraction-of-a-second"),
        pytest.param("2m", 120 * SECOND, "2m0s", id="minutes"),
        pytest.param("250ms", SECOND // 4, "250ms", id="milliseconds"),
        pytest.param("1us", 1000, "1µs", id="microsecond"),
        pytest.param("1500ns", 1500, "1.5µs", id="nanoseconds"),
        pytest.param("7ns", 7, "7ns", id="nanosecond"),
        pytest.param("-1h", -HOUR, "-1h0m0s", id="negative"),
        pytest.param("+1h", HOUR, "1h0m0s", id="signed"),
        pytest.param(".5h", HOUR // 2, "30m0s", id="no-digit-before-the-point"),
    ],
)
def test_durations_are_read_and_printed_as_go_does(text, nanoseconds, shown):
    assert (parse_duration(text), format_duration(nanoseconds)) == (nanoseconds, shown)


@for_each_case(["", "1", "h", "1d", "1 h", "1h ", "--1h", "1h-1m", ".h", "٣h", "1e3s", "9999999h"])
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(MalformedDurationError):
        parse_duration(text)


@given(st.integers(min_value=-(2**63) + 1, max_value=2**63 - 1))
def test_what_is_printed_is_read_back(nanoseconds):
    assert parse_duration(format_duration(nanoseconds)) == nanoseconds
