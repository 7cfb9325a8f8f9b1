import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.kube.rate_limiter import RateLimiter, RequestPriority, TokenBucket


@given(
    qps=st.floats(0.5, 100),
    burst=st.integers(1, 50),
    gaps=st.lists(st.floats(0, 3), min_size=1, max_size=100),
)
def test_a_bucket_never_grants_more_than_burst_and_rate_allow(qps, burst, gaps):
    bucket = TokenBucket(qps, burst)
    now = 0.0
    granted = 0
    for gap in gaps:
        now += gap
        granted += bucket.take(now) == 0.0
        assert granted <= burst + qps * now + 1e-6


@given(qps=st.floats(0.01, 1000), spent=st.integers(1, 20))
def test_after_the_delay_it_returns_a_bucket_grants(qps, spent):
    bucket = TokenBucket(qps, spent)
    for _ in range(spent):
        assert bucket.take(1.0) == 0.0
    delay = bucket.take(1.0)
    assert delay > 0
    assert bucket.take(1.0 + delay) == 0.0


def test_a_pause_holds_back_tokens_that_are_there():
    bucket = TokenBucket(10, 10)
    bucket.pause(5.0)
    bucket.pause(2.0)  # a shorter one does not shorten it
    assert bucket.take(1.0) == 4.0
    assert bucket.take(5.0) == 0.0


def test_time_that_runs_backwards_makes_no_tokens():
    bucket = TokenBucket(1, 1)
    assert bucket.take(10.0) == 0.0
    assert bucket.take(3.0) > 0.0
    assert bucket.take(10.5) > 0.0


@pytest.mark.parametrize(("qps", "burst"), [(0, 1), (-1, 1), (1, 0)])
def test_limits_that_let_nothing_through_are_refused(qps, burst):
    with pytest.raises(ValueError, match=r"^limits: "):
        TokenBucket(qps, burst)


async def order_of(limiter, *priorities):
    """Let one request of each priority come in, in this order; return the order in which they are served."""
    served = []

    async def ask(number, priority):
        await limiter.acquire(priority)
        served.append((number, asyncio.get_running_loop().time()))

    async with asyncio.TaskGroup() as group:
        for number, priority in enumerate(priorities):
            group.create_task(ask(number, priority))
    return served


async def test_the_burst_passes_at_once_and_the_rest_at_the_rate(clock):
    served = await order_of(RateLimiter(2, 3, clock=clock), *[RequestPriority.NORMAL] * 6)
    assert [number for number, _ in served] == [0, 1, 2, 3, 4, 5]
    assert [when for _, when in served] == pytest.approx([0, 0, 0, 0.5, 1.0, 1.5])


async def test_a_token_that_is_there_is_taken_without_a_wait_and_not_before_those_who_wait(clock):
    limiter = RateLimiter(2, 1, clock=clock)
    assert limiter.try_acquire()
    assert not limiter.try_acquire()
    waiting = asyncio.create_task(limiter.acquire())
    await asyncio.sleep(0)
    assert not limiter.try_acquire(RequestPriority.LEADERSHIP)
    await waiting


async def test_the_urgent_go_first_and_equals_in_order_of_arrival(clock):
    limiter = RateLimiter(1, 1, clock=clock)
    await limiter.acquire()
    served = await order_of(
        limiter,
        RequestPriority.BULK,
        RequestPriority.URGENT,
        RequestPriority.REPORT,
        RequestPriority.URGENT,
        RequestPriority.LEADERSHIP,
    )
    assert [number for number, _ in served] == [4, 1, 3, 0, 2]


async def test_one_that_comes_late_but_urgent_overtakes_those_who_wait(clock):
    limiter = RateLimiter(1, 1, clock=clock)
    await limiter.acquire()
    waiting = asyncio.create_task(limiter.acquire(RequestPriority.BULK))
    await asyncio.sleep(0.9)
    await limiter.acquire(RequestPriority.URGENT)
    assert not waiting.done()
    await waiting
    assert clock.now() == pytest.approx(2.0)


async def test_who_gives_up_leaves_no_gap(clock):
    limiter = RateLimiter(1, 1, clock=clock)
    await limiter.acquire()
    first = asyncio.create_task(limiter.acquire())
    second = asyncio.create_task(limiter.acquire())
    await asyncio.sleep(0.5)
    first.cancel()
    await second
    assert clock.now() == pytest.approx(1.0)


async def test_a_grant_that_comes_with_a_cancellation_goes_to_the_next(clock):
    limiter = RateLimiter(1, 1, clock=clock)
    await limiter.acquire()
    loop = asyncio.get_running_loop()
    first = asyncio.create_task(limiter.acquire())
    second = asyncio.create_task(limiter.acquire())
    await asyncio.sleep(0)
    limiter._bucket.give_back()
    loop.call_soon(limiter._serve)
    loop.call_soon(first.cancel)
    await second
    assert first.cancelled()
    assert clock.now() == 0.0


async def test_a_pause_stops_everybody_but_the_leadership(clock):
    limiter = RateLimiter(10, 10, clock=clock)
    limiter.pause(3.0)
    others = asyncio.create_task(limiter.acquire(RequestPriority.URGENT))
    await asyncio.sleep(1.0)
    await limiter.acquire(RequestPriority.LEADERSHIP)
    assert clock.now() == pytest.approx(1.0)
    await others
    assert clock.now() == pytest.approx(3.0)


async def test_how_many_wait_is_known(clock):
    limiter = RateLimiter(1, 1, clock=clock)
    await limiter.acquire()
    task = asyncio.create_task(limiter.acquire())
    await asyncio.sleep(0)
    assert limiter.waiting == 1
    await task
    assert limiter.waiting == 0
