"""Which connection of a full listener gives way."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.httpserver.connections import (
    ADDRESSES_MAX,
    ClientConnection,
    ConnectionLimits,
    ConnectionState,
    ConnectionTable,
    DropReason,
)
from tests.violations import for_each_case

BOUNDS = ConnectionLimits(max_connections=4, max_opening=3, request_timeout=10.0, idle_timeout=20.0)
OPENING, IDLE, ANSWERING, BUSY = ConnectionState


def connections(*there, bounds=BOUNDS):
    """Return connections, opened one a second, that are in the phases given: (address, phase)."""
    found, made = ConnectionTable(bounds), []
    for second, (address, phase) in enumerate(there):
        connection = ClientConnection(address=address, since=float(second), drop=lambda: None)
        found.add(connection)
        if phase is not OPENING:
            found.set_state(connection, phase, now=float(second))
        made.append(connection)
    return found, made


@for_each_case(
    [
        pytest.param([], None, id="there-is-room"),
        pytest.param([("a", OPENING)] * 3, 0, id="the-oldest-of-one-address"),
        pytest.param([("b", OPENING), ("a", OPENING), ("a", OPENING)], 1, id="of-the-address-that-has-the-most"),
        pytest.param([("a", OPENING), ("b", OPENING), ("c", OPENING)], 0, id="the-oldest-where-all-have-the-same"),
        pytest.param([("a", OPENING), *[("s", BUSY)] * 3], 0, id="one-that-asks-nothing-before-one-that-is-answered"),
        pytest.param([*[("s", IDLE)] * 3, ("a", OPENING)], 3, id="one-that-asks-nothing-before-one-that-has-asked"),
        pytest.param([("s", IDLE), *[("s", BUSY)] * 3], 0, id="an-idle-one-before-one-that-is-answered"),
    ]
)
def test_who_gives_way_to_a_new_connection(there, gives_way):
    found, made = connections(*there)
    victim = found.add(ClientConnection(address="new", since=99.0, drop=lambda: None))
    assert victim is (None if gives_way is None else made[gives_way])


@pytest.mark.parametrize(
    ("there", "gives_way"),
    [
        pytest.param([("a", OPENING), ("s", IDLE), ("s", IDLE), ("s", BUSY)], 1, id="the-oldest-of-the-most"),
        pytest.param([("s", ANSWERING), ("s", OPENING), ("s", IDLE), ("s", BUSY)], 2, id="an-idle-one-first"),
        pytest.param([("s", BUSY), ("s", ANSWERING), ("s", OPENING), ("s", BUSY)], 1, id="or-else-the-oldest"),
        pytest.param([("s", BUSY), ("s", BUSY), ("s", BUSY), ("a", IDLE)], 3, id="never-one-that-is-kept"),
    ],
)
def test_who_gives_way_by_age(there, gives_way):
    found, made = connections(*there, bounds=replace(BOUNDS, drops_by_age=True))
    assert found.add(ClientConnection(address="new", since=99.0, drop=lambda: None)) is made[gives_way]


def test_where_all_are_being_answered_the_new_one_is_refused():
    found, _ = connections(*[("s", BUSY)] * 4)
    assert found.admission_failure("a", now=9.0) is DropReason.FULL
    assert connections(*[("s", BUSY)] * 3)[0].admission_failure("a", now=9.0) is None


def test_an_address_opens_connections_at_its_pace_and_no_other_address_pays_for_it():
    found = ConnectionTable(ConnectionLimits(max_connections=4, max_opening=4, new_connections_per_second=2.0))
    assert [found.admission_failure("a", now=0.0) for _ in range(5)] == [None] * 4 + [DropReason.PACE]
    assert found.admission_failure("b", now=0.0) is None
    assert [found.admission_failure("a", now=1.0) for _ in range(3)] == [None, None, DropReason.PACE]


def test_so_many_addresses_are_remembered_and_no_more():
    found = ConnectionTable(ConnectionLimits(max_connections=4, max_opening=4, new_connections_per_second=1.0))
    for number in range(3 * ADDRESSES_MAX):
        found.admission_failure(str(number), now=0.0)
    assert len(found._rates) == ADDRESSES_MAX


def test_each_phase_has_its_time_and_an_answer_has_none():
    found, (opening, idle, busy) = connections(("a", OPENING), ("s", IDLE), ("s", BUSY))
    assert found.overdue(now=9.9) == []
    assert found.overdue(now=10.0) == [opening]
    assert found.overdue(now=1000.0) == [idle]
    assert len(found) == 1
    found.set_state(busy, IDLE, now=1000.0)
    assert found.overdue(now=1019.9) == []
    assert found.overdue(now=1020.0) == [busy]


@given(
    steps=st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from(["open", "ask", "answer", "leave"]), st.integers(0, 9)),
        max_size=80,
    )
)
def test_never_more_than_the_bounds_and_who_is_being_answered_is_never_dropped(steps):
    found, there = ConnectionTable(BOUNDS), []
    for now, (address, step, which) in enumerate(steps):
        if step == "open":
            if found.admission_failure(address, now=now) is None:
                new = ClientConnection(address=address, since=float(now), drop=lambda: None)
                victim = found.add(new)
                assert victim is None or victim.state is not BUSY
                there = [each for each in there if each is not victim] + [new]
        elif there:
            chosen = there[which % len(there)]
            if step == "leave":
                found.discard(chosen)
                there.remove(chosen)
            else:
                found.set_state(chosen, BUSY if step == "ask" else IDLE, now=float(now))
        assert len(found) == len(there) <= BOUNDS.max_connections
        assert found.count(OPENING) <= BOUNDS.max_opening
