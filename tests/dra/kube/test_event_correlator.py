import pytest

from dra.kube.event_correlator import (
    NOTE_MAX,
    SERIES_MAX,
    SERIES_UPDATE_INTERVAL,
    SERIES_WINDOW,
    EventCorrelator,
    EventRecord,
    Regarding,
    truncated_note,
)
from dra.kube.resources import NODES, PODS
from dra.model.event_type import EventType
from dra.model.meta import ObjectMeta


def fact(note="waits", *, uid="u", reason="Waiting", severity=EventType.NORMAL):
    meta = ObjectMeta(name="a", namespace="ml", uid=uid)
    return EventRecord(
        regarding=Regarding.of(PODS, meta), severity=severity, reason=reason, action="Reserve", note=note
    )


def test_a_sentence_is_news_once():
    memory = EventCorrelator()
    assert memory.correlate(fact(), now=0.0) is not None
    assert memory.correlate(fact(), now=SERIES_WINDOW - 1) is None
    assert len(memory) == 1


def test_it_stays_the_same_story_as_long_as_it_is_told():
    memory = EventCorrelator()
    memory.correlate(fact(), now=0.0)
    for number in range(1, 20):
        assert memory.correlate(fact(), now=number * (SERIES_WINDOW - 1)) is None


def test_after_ten_minutes_without_it_it_is_news_again():
    memory = EventCorrelator()
    memory.correlate(fact(), now=0.0)
    assert memory.correlate(fact(), now=SERIES_WINDOW) is not None


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(fact(uid="v"), id="about-another-object"),
        pytest.param(fact(reason="Released"), id="for-another-reason"),
        pytest.param(fact(severity=EventType.WARNING), id="as-a-warning"),
        pytest.param(fact("waits for n1"), id="in-other-words"),
    ],
)
def test_what_makes_two_facts_different(other):
    memory = EventCorrelator()
    memory.correlate(fact(), now=0.0)
    assert memory.correlate(other, now=0.0) is not None


def test_counts_are_due_slowly_and_only_of_what_was_posted():
    memory = EventCorrelator()
    series = memory.correlate(fact(), now=0.0)
    memory.correlate(fact(), now=1.0)
    assert memory.due(now=SERIES_UPDATE_INTERVAL) == []
    series.posted = True
    assert memory.due(now=SERIES_UPDATE_INTERVAL - 1) == []
    assert memory.due(now=SERIES_UPDATE_INTERVAL) == [series]
    assert memory.due(now=1.0, all_series=True) == [series]
    series.written = series.count
    assert memory.due(now=10 * SERIES_UPDATE_INTERVAL, all_series=True) == []


def test_the_memory_is_bounded_and_forgets_the_oldest():
    memory = EventCorrelator()
    for number in range(SERIES_MAX + 10):
        memory.correlate(fact(uid=str(number)), now=1.0)
    assert len(memory) == SERIES_MAX
    assert memory.correlate(fact(uid=str(SERIES_MAX)), now=1.0) is None
    assert memory.correlate(fact(uid="0"), now=1.0) is not None


def test_what_is_still_told_is_not_the_oldest():
    memory = EventCorrelator()
    memory.correlate(fact(uid="old but told"), now=0.0)
    for number in range(SERIES_MAX):
        memory.correlate(fact(uid=str(number)), now=1.0)
        assert memory.correlate(fact(uid="old but told"), now=1.0) is None


def test_what_is_over_is_forgotten():
    memory = EventCorrelator()
    for number in range(100):
        memory.correlate(fact(uid=str(number)), now=0.0)
    memory.correlate(fact(uid="new"), now=SERIES_WINDOW)
    assert len(memory) == 1


def test_what_was_forgotten_on_purpose_is_news():
    memory = EventCorrelator()
    old = memory.correlate(fact(), now=0.0)
    memory.forget(old)
    new = memory.correlate(fact(), now=0.0)
    assert new is not None
    memory.forget(old)  # not the one that is remembered now
    assert len(memory) == 1


@pytest.mark.parametrize(
    ("note", "short"),
    [
        pytest.param("x" * NOTE_MAX, "x" * NOTE_MAX, id="fits"),
        pytest.param("x" * (NOTE_MAX + 1), "x" * (NOTE_MAX - 3) + "…", id="too-long"),
        pytest.param("ö" * 512, "ö" * 512, id="bytes-are-counted-fits"),
        pytest.param("ö" * 513, "ö" * 510 + "…", id="bytes-are-counted"),
    ],
)
def test_notes_have_at_most_1024_bytes(note, short):
    assert truncated_note(note) == short
    assert len(truncated_note(note).encode()) <= NOTE_MAX


def test_events_of_cluster_scoped_objects_are_in_default():
    assert Regarding.of(NODES, ObjectMeta(name="n1")).event_namespace == "default"
    assert fact().regarding.event_namespace == "ml"
