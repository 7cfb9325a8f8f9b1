"""A client gets every change once, the newest state of each row, or the advice to fetch all rows."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.cli.page import patch_stream
from dra.cli.page.patch_stream import PatchStream, TooManySubscribersError
from dra.cli.page.views import Patch


def change(key, *cells, view="claims"):
    return Patch(view, changed={key: cells})


def gone(key, view="claims"):
    return Patch(view, gone={key})


@pytest.fixture
def stream():
    found = PatchStream("e")
    found.publish([change("a", "1"), change("b", "1")])
    return found


def test_rows_come_with_the_id_from_which_the_stream_continues(stream):
    answer = msgspec.json.decode(stream.rows("claims"))
    assert (answer["id"], answer["rows"]) == ("e-2", [["a", "1"], ["b", "1"]])
    assert answer["columns"][:2] == ["KEY", "NAMESPACE"]


def test_a_client_that_comes_back_gets_what_it_missed(stream):
    assert stream.subscribe({"claims"}, "e-1").take() == (False, [change("b", "1")])


@pytest.mark.parametrize(
    "last",
    [
        pytest.param("", id="a-new-client-without-rows"),
        pytest.param("old-1", id="an-earlier-process"),
        pytest.param("e-9", id="a-number-that-was-never-given"),
        pytest.param("e-x", id="no-number"),
        pytest.param("e", id="no-dash"),
        pytest.param("e-" + 5_000 * "9", id="a-number-too-long-to-be-parsed"),
    ],
)
def test_a_client_whose_place_is_unknown_fetches_all_rows(stream, last):
    assert stream.subscribe({"claims"}, last).take() == (True, [])


def test_a_client_that_is_too_far_behind_fetches_all_rows(stream, monkeypatch):
    monkeypatch.setattr(patch_stream, "LOG_PATCHES_MAX", 3)
    for number in range(4):
        stream.publish([change("a", str(number))])
    assert stream.subscribe({"claims"}, "e-2").take() == (True, [])
    assert stream.subscribe({"claims"}, "e-3").take()[0] is False


def test_a_slow_client_gets_only_the_newest_row_of_each_key(stream):
    slow = stream.subscribe({"claims"}, "e-2")
    stream.publish([change("a", "2"), change("a", "3"), gone("b"), change("c", "1"), gone("c")])
    assert slow.take() == (False, [Patch("claims", changed={"a": ("3",)}, gone={"b", "c"})])


def test_a_client_with_too_many_pending_rows_fetches_all_rows(stream, monkeypatch):
    monkeypatch.setattr(patch_stream, "PENDING_ROWS_MAX", 2)
    slow = stream.subscribe({"claims"}, "e-2")
    stream.publish([change(name, "1") for name in "abc"])
    assert slow.take() == (True, [])
    stream.publish([change("d", "1")])
    assert slow.take() == (False, [change("d", "1")])


def test_a_client_gets_only_the_views_it_asked_for(stream):
    reader = stream.subscribe({"devices"}, "e-2")
    stream.publish([change("a", "2"), change("gpu-0", "Free", view="devices")])
    assert reader.take() == (False, [change("gpu-0", "Free", view="devices")])


def test_after_a_restart_every_client_fetches_all_rows(stream):
    reader = stream.subscribe({"claims"}, "e-2")
    stream.restart("f")
    assert reader.take() == (True, [])
    assert stream.event_id == "f-0"
    assert msgspec.json.decode(stream.rows("claims"))["rows"] == []


@pytest.mark.parametrize("early", [pytest.param(True, id="open-stream"), pytest.param(False, id="stream-opened-later")])
def test_a_client_that_has_fetched_rows_learns_that_they_are_complete(stream, early):
    """The last rows may have come before: then no other patch follows in a quiet cluster."""
    answer = msgspec.json.decode(stream.rows("overview"))
    assert answer["ready"] is False
    subscriber = stream.subscribe({"overview"}, answer["id"]) if early else None
    stream.set_ready()
    subscriber = subscriber or stream.subscribe({"overview"}, answer["id"])
    assert subscriber.changed.is_set()
    assert subscriber.take() == (False, [Patch("overview")])
    assert msgspec.json.decode(stream.rows("overview"))["ready"] is True


def test_the_number_of_clients_has_a_bound(stream, monkeypatch):
    monkeypatch.setattr(patch_stream, "SUBSCRIBERS_MAX", 1)
    first = stream.subscribe({"claims"}, "e-2")
    with pytest.raises(TooManySubscribersError):
        stream.subscribe({"claims"}, "e-2")
    stream.unsubscribe(first)
    stream.subscribe({"claims"}, "e-2")


CHANGES = st.lists(
    st.builds(change, st.sampled_from("abc"), st.sampled_from("123")) | st.builds(gone, st.sampled_from("abc"))
)


@given(before=CHANGES, after=CHANGES, cut=st.integers(0, 20))
def test_a_resumed_stream_ends_with_the_same_rows(before, after, cut):
    stream = PatchStream("e")
    stream.publish(before)
    rows = {key: tuple(cells) for key, *cells in msgspec.json.decode(stream.rows("claims"))["rows"]}
    last = stream.event_id
    for patches in (after[:cut], after[cut:]):  # the connection is cut once in between
        stream.publish(patches)
        must_reset, missed = stream.subscribe({"claims"}, last).take()
        assert not must_reset
        last = stream.event_id
        for patch in missed:
            rows.update(patch.changed)
            for key in patch.gone:
                rows.pop(key, None)
    assert rows == {key: tuple(cells) for key, *cells in msgspec.json.decode(stream.rows("claims"))["rows"]}
