"""The use of devices that one process has seen: hours, lines, and what is forgotten first."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.engine.device_usage import recorded
from dra.engine.device_usage.groups import DeviceNumbers, UsageGroup
from dra.engine.device_usage.history import GAP_MAX
from dra.engine.device_usage.recorded import RecordedUse
from dra.engine.device_usage.timelines import SPANS, Span

DAY = SPANS["24h"]
HOUR = 3600.0
BEGIN = 1_000_000.0
TRAIN = UsageGroup("ml", "jobs.batch/train", "gpus")
SERVE = UsageGroup("web", "deployments.apps/serve", "gpus")


def played(*phases, group=TRAIN, every=60.0):
    """Return what is recorded of phases of (hours, held, used), looked at each minute, and when they end."""
    use, now = RecordedUse(), BEGIN
    for hours, held, used in phases:
        until = now + hours * HOUR
        while now < until:
            use.record({group: DeviceNumbers(held, used)} if held else {}, now=now)
            now += every
    return use, now


@pytest.mark.parametrize(
    ("phases", "held_hours", "used_hours", "idle_for"),
    [
        pytest.param([(10, 4, 4)], 40, 40, None, id="used"),
        pytest.param([(10, 8, 8), (5, 8, 0)], 120, 80, 5, id="idle-since-it-was-used-last"),
        pytest.param([(2, 0, 0), (3, 8, 0)], 24, 0, 3, id="idle-since-it-was-taken"),
        pytest.param([(5, 8, 0)], 40, 0, None, id="idle-for-longer-than-this-is-known"),
        pytest.param([(5, 4, 4), (30, 4, 0)], 96, 0, None, id="idle-for-longer-than-the-span"),
        pytest.param([(5, 4, 2), (2, 0, 0)], 20, 10, None, id="released"),
    ],
)
def test_hours_and_idle_since(phases, held_hours, used_hours, idle_for):
    use, now = played(*phases)
    history = use.history(span=DAY, namespaces=None, now=now)[TRAIN]
    assert (history.held_hours, history.used_hours) == pytest.approx((held_hours, used_hours), rel=0.01)
    assert history.idle_since == (None if idle_for is None else pytest.approx(now - idle_for * HOUR, abs=60))


def test_lines_add_up_to_the_hours():
    use, now = played((3.1, 8, 8), (0.7, 0, 0), (5.3, 6, 2))
    line = use.timelines("workload", {TRAIN}, span=DAY, namespaces=None, now=now)["ml/jobs.batch/train"]
    history = use.history(span=DAY, namespaces=None, now=now)[TRAIN]
    assert sum(line.held) * DAY.period / HOUR == pytest.approx(history.held_hours)
    assert sum(line.used) * DAY.period / HOUR == pytest.approx(history.used_hours)
    assert line.held[-1] == 6.0
    assert line.held[0] == 0.0


def test_only_the_lines_that_are_shown_are_drawn():
    use = RecordedUse()
    use.record({TRAIN: DeviceNumbers(2, 0), SERVE: DeviceNumbers(4, 4)}, now=BEGIN)
    assert use.timelines("namespace", {SERVE}, span=DAY, namespaces=None, now=BEGIN + 900).keys() == {"web"}


def test_only_the_namespaces_of_the_user_are_told():
    use = RecordedUse()
    use.record({TRAIN: DeviceNumbers(2, 0), SERVE: DeviceNumbers(4, 4)}, now=BEGIN)
    told = use.history(span=DAY, namespaces={"web"}, now=BEGIN + 60)
    assert told.keys() == {SERVE}
    assert use.timelines("class", {TRAIN, SERVE}, span=DAY, namespaces={"web"}, now=BEGIN + 900)["gpus"].held[-1] == 4.0
    assert use.history(span=DAY, namespaces=set(), now=BEGIN + 60) == {}


def test_a_pause_ends_what_was_so_before():
    use = RecordedUse()
    for at in (0.0, 60.0, 120.0 + GAP_MAX, 180.0 + GAP_MAX):
        use.record({TRAIN: DeviceNumbers(1, 0)}, now=BEGIN + at)
    history = use.history(span=DAY, namespaces=None, now=BEGIN + 180.0 + GAP_MAX)[TRAIN]
    assert history.held_hours * HOUR == 120.0
    assert history.idle_since == BEGIN + 120.0 + GAP_MAX


def test_a_clock_that_goes_back_adds_nothing():
    use = RecordedUse()
    use.record({TRAIN: DeviceNumbers(1, 0)}, now=BEGIN)
    use.record({TRAIN: DeviceNumbers(9, 0)}, now=BEGIN - 60)
    assert use.history(span=DAY, namespaces=None, now=BEGIN + HOUR)[TRAIN].held_hours == pytest.approx(1.0)


def test_the_namespace_that_changes_most_loses_its_own_begin(monkeypatch):
    monkeypatch.setattr(recorded, "CHANGES_MAX", 50)
    use, now = RecordedUse(), BEGIN
    for number in range(200):
        now = BEGIN + 60 * number
        job = UsageGroup("ml", f"jobs.batch/{number}", "gpus")
        use.record({SERVE: DeviceNumbers(4, 4), job: DeviceNumbers(1, 1)}, now=now)
    assert use.known_since({"web"}) == BEGIN
    assert use.known_since({"ml"}) > BEGIN
    assert use.known_since(None) == use.known_since({"ml"})
    histories = use.history(span=DAY, namespaces=None, now=now)
    assert histories[SERVE].held_hours == pytest.approx((now - BEGIN) * 4 / HOUR)
    assert sum(history.held_hours for group, history in histories.items() if group.namespace == "ml") < 1.0


def test_what_is_older_than_the_longest_span_is_forgotten(monkeypatch):
    monkeypatch.setattr(recorded, "KEPT", 2 * HOUR)
    use, now = played((1, 4, 4), (1, 3, 3), (4, 2, 1))
    assert use.history(span=Span(seconds=7200, period=900), namespaces=None, now=now)[
        TRAIN
    ].held_hours == pytest.approx(4.0)
    use, now = played((1, 4, 4), (5, 0, 0))
    assert use.history(span=DAY, namespaces=None, now=now) == {}
    assert use.known_since(None) == BEGIN


def test_before_the_first_look_nothing_is_known():
    assert RecordedUse().known_since(None) is None
    assert RecordedUse().history(span=DAY, namespaces=None, now=BEGIN) == {}


@given(
    looks=st.lists(
        st.tuples(st.integers(1, 900), st.dictionaries(st.sampled_from([TRAIN, SERVE]), st.integers(1, 8))), max_size=30
    )
)
def test_hours_are_those_of_all_looks_summed(looks):
    """A look counts until the next one, unless the next one comes after a pause."""
    use, now = RecordedUse(), BEGIN
    expected = dict.fromkeys([TRAIN, SERVE], 0.0)
    for index, (seconds, held) in enumerate(looks):
        use.record({group: DeviceNumbers(number, 0) for group, number in held.items()}, now=now)
        if seconds <= GAP_MAX and index + 1 < len(looks):
            for group, number in held.items():
                expected[group] += number * seconds / HOUR
        now += seconds if index + 1 < len(looks) else 0
    told = use.history(span=DAY, namespaces=None, now=now)
    assert {group: told[group].held_hours if group in told else 0.0 for group in expected} == pytest.approx(expected)
