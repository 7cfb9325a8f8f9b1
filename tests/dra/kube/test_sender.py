import asyncio

import pytest

from dra.kube import errors
from dra.kube.rate_limiter import RateLimiter, RequestPriority
from dra.kube.sender import ATTEMPTS, MAX_IN_FLIGHT, Sender
from dra.kube.transport import Request
from tests.dra.kube.scripted import BROKEN, REFUSED, Handling, Scripted, ok, refusal

BUSY = refusal(429, "TooManyRequests", headers={"retry-after": "2"})


def sender_of(transport, clock, *, qps=1000.0, burst=1000.0, observer=None):
    return Sender(
        transport, RateLimiter(qps, burst, clock=clock), clock=clock, observer=observer, late_write_seconds=10.0
    )


async def sent(sender, method="GET", *, within=30.0, priority=RequestPriority.NORMAL):
    request = Request(method=method, path="/api/v1/pods", timeout=within)
    return await sender.send(request, subject="Pod ml/a", label="pods", priority=priority)


@pytest.mark.parametrize(
    ("method", "answers", "outcome"),
    [
        pytest.param("GET", [ok({})], 200, id="success"),
        pytest.param("GET", [REFUSED, ok({})], 200, id="read-that-never-arrived-is-repeated"),
        pytest.param("GET", [BROKEN], errors.Unreachable, id="read-that-may-have-arrived-is-the-callers"),
        pytest.param("PATCH", [REFUSED], errors.Unreachable, id="write-is-never-repeated"),
        pytest.param("PATCH", [BROKEN], errors.Unreachable, id="ambiguous-write-is-never-repeated"),
        pytest.param("PATCH", [BUSY, ok({})], 200, id="write-that-was-turned-away-is-repeated"),
        pytest.param("PATCH", [refusal(500)], errors.ServerError, id="write-that-failed-somehow-is-not"),
        pytest.param("GET", [refusal(500)], errors.ServerError, id="read-that-failed-is-not-either"),
        pytest.param("PATCH", [refusal(429)], errors.TooManyRequests, id="429-without-retry-after-is-final"),
        pytest.param("GET", [REFUSED] * ATTEMPTS, errors.Unreachable, id="read-gives-up-in-the-end"),
        pytest.param("PATCH", [BUSY] * ATTEMPTS, errors.TooManyRequests, id="so-does-a-write-turned-away"),
        pytest.param("PATCH", [refusal(409, "Conflict")], errors.Conflict, id="conflict"),
    ],
)
async def test_what_is_repeated(method, answers, outcome, clock):
    transport = Scripted(*answers)
    sender = sender_of(transport, clock)
    if isinstance(outcome, int):
        assert (await sent(sender, method)).status == outcome
    else:
        with pytest.raises(outcome) as caught:
            await sent(sender, method)
        assert type(caught.value) is outcome
        assert str(caught.value).startswith("Pod ml/a: ")
    assert len(transport.requests) == len(answers)


@pytest.mark.parametrize(
    ("method", "answer", "late"),
    [
        pytest.param("PATCH", BROKEN, True, id="broken-off"),
        pytest.param("PATCH", refusal(504), True, id="given-up-by-the-server"),
        pytest.param("PATCH", REFUSED, False, id="never-arrived"),
        pytest.param("PATCH", refusal(409, "Conflict"), False, id="refused"),
        pytest.param("GET", BROKEN, False, id="a-read"),
    ],
)
async def test_a_write_without_an_answer_may_arrive_for_a_while(method, answer, late, clock):
    sender = sender_of(Scripted(answer), clock)
    with pytest.raises(errors.ApiError):
        await sent(sender, method)
    assert sender.late_writes_until == (10.0 if late else float("-inf"))


async def test_a_write_that_is_cancelled_may_arrive_for_a_while(clock):
    async def silence(_request):
        await asyncio.Event().wait()

    sender = sender_of(Handling(silence), clock)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(sent(sender, "PATCH"), 1.0)
    assert sender.late_writes_until == 11.0


async def test_the_server_sets_the_pace_for_everybody(clock):
    sender = sender_of(Scripted(BUSY, ok({}), ok({})), clock)
    await asyncio.gather(sent(sender), sent(sender))
    assert clock.now() == pytest.approx(2.0)


async def test_even_the_leadership_keeps_the_distance_it_was_told(clock):
    sender = sender_of(Scripted(BUSY, ok({})), clock)
    await sent(sender, "PATCH", priority=RequestPriority.LEADERSHIP)
    assert clock.now() == pytest.approx(2.0)


async def test_no_time_is_spent_waiting_for_what_comes_after_the_deadline(clock):
    sender = sender_of(Scripted(BUSY), clock)
    with pytest.raises(errors.TooManyRequests):
        await sent(sender, within=1.0)
    assert clock.now() == 0.0


async def test_who_gets_no_turn_before_the_deadline_has_sent_nothing(clock):
    transport = Scripted(ok({}))
    sender = sender_of(transport, clock, qps=0.1, burst=1)
    await sent(sender)
    with pytest.raises(errors.Unreachable) as caught:
        await sent(sender, "PATCH", within=3.0)
    assert not caught.value.is_outcome_unknown
    assert "raise qps and burst" in str(caught.value)
    assert clock.now() == pytest.approx(3.0)
    assert len(transport.requests) == 1


async def test_a_server_that_does_not_answer_has_a_bounded_number_of_requests_to_answer(clock):
    """Else each second of its silence costs as many connections as requests are sent in a second."""
    under_way, most = 0, 0

    async def silence(_request):
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(60.0)
        under_way -= 1
        return ok({})

    sender = sender_of(Handling(silence), clock, qps=1000, burst=1000)
    asked = [asyncio.create_task(sent(sender, within=100.0)) for _ in range(MAX_IN_FLIGHT * 3)]
    await asyncio.sleep(1.0)
    assert most == MAX_IN_FLIGHT
    with pytest.raises(errors.Unreachable) as caught:
        await sent(sender, "PATCH", within=10.0)
    assert not caught.value.is_outcome_unknown
    assert f"{MAX_IN_FLIGHT} requests are in progress" in str(caught.value)
    renewal = asyncio.create_task(sent(sender, "PATCH", priority=RequestPriority.LEADERSHIP, within=100.0))
    await asyncio.sleep(1.0)
    assert most == MAX_IN_FLIGHT + 1, "the lease is renewed all the same"
    outcomes = await asyncio.gather(*asked, renewal, return_exceptions=True)
    assert sum(isinstance(outcome, errors.Unreachable) for outcome in outcomes) == MAX_IN_FLIGHT
    assert await sent(sender, within=70.0), "a slot is given back, whatever the outcome"


async def test_a_deadline_that_has_passed_sends_nothing(clock):
    transport = Scripted()
    with pytest.raises(errors.Unreachable):
        await sent(sender_of(transport, clock), within=-1.0)
    assert not transport.requests


async def test_the_transport_gets_what_is_left_of_the_time(clock):
    transport = Scripted(ok({}), ok({}))
    sender = sender_of(transport, clock, qps=0.5, burst=1)
    await sent(sender, within=10.0)
    await sent(sender, within=10.0)
    assert [request.timeout for request in transport.requests] == pytest.approx([10.0, 8.0])


async def test_every_request_is_counted_also_the_repeated_and_the_lost(clock):
    seen = []
    sender = sender_of(Scripted(REFUSED, BUSY, ok({})), clock, observer=lambda *what: seen.append(what[:3]))
    await sent(sender)
    assert seen == [("GET", "pods", 0), ("GET", "pods", 429), ("GET", "pods", 200)]


async def test_the_time_of_a_request_does_not_contain_the_wait_for_its_turn(clock):
    async def slow(_request):
        await asyncio.sleep(0.25)
        return ok({})

    seconds = []
    sender = sender_of(Handling(slow), clock, qps=1, burst=1, observer=lambda *what: seconds.append(what[3]))
    await asyncio.gather(sent(sender), sent(sender))
    assert seconds == pytest.approx([0.25, 0.25])


async def opened(sender):
    request = Request(method="GET", path="/api/v1/pods", timeout=30.0)
    async with sender.stream(request, subject="pods", label="pods", priority=RequestPriority.NORMAL) as blocks:
        return [block async for block in blocks]


async def test_a_stream_is_opened_once_and_counted_when_it_begins(clock):
    seen = []
    transport = Scripted(streams=[[b"a\n", 5.0, b"b\n"], BUSY])
    sender = sender_of(transport, clock, observer=lambda *what: seen.append(what))
    assert await opened(sender) == [b"a\n", b"b\n"]
    with pytest.raises(errors.TooManyRequests, match=r"^pods: "):
        await opened(sender)
    assert seen == [("WATCH", "pods", 200, 0.0), ("WATCH", "pods", 429, 0.0)]


async def test_a_stream_that_breaks_names_the_kind(clock):
    sender = sender_of(Scripted(streams=[[b"a\n", BROKEN]]), clock)
    with pytest.raises(errors.Unreachable, match=r"^pods: connection lost$"):
        await opened(sender)


async def test_a_stream_that_is_turned_away_slows_down_everybody(clock):
    sender = sender_of(Scripted(ok({}), streams=[BUSY]), clock)
    with pytest.raises(errors.TooManyRequests):
        await opened(sender)
    await sent(sender)
    assert clock.now() == pytest.approx(2.0)
