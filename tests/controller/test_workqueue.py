import asyncio

import pytest

from controller.workqueue import CPU_SHARE, DELAY_MAX, DELAY_MIN, WorkQueue
from dra.engine.instants import NEVER

A, B = ("ml", "a"), ("ml", "b")


@pytest.fixture
def queue(clock):
    return WorkQueue(clock)


async def taken(queue, count, clock):
    """Take claims, give each back at once, and tell who came when."""
    found = []
    for _ in range(count):
        key = await queue.take()
        found.append((key[1], pytest.approx(clock.now())))
        queue.done(key)
    return found


async def test_a_thousand_events_are_one_decision(queue, clock):
    for _ in range(1000):
        queue.touch(A)
    queue.touch(B)
    assert len(queue) == 2
    assert await taken(queue, 2, clock) == [("a", DELAY_MIN), ("b", DELAY_MIN)]
    assert len(queue) == 0


async def test_an_event_does_not_put_off_a_decision(queue, clock):
    queue.touch(A)
    await asyncio.sleep(0.04)
    queue.touch(A)
    assert await taken(queue, 1, clock) == [("a", DELAY_MIN)]


async def test_claims_come_when_they_are_due(queue, clock):
    queue.at(A, 5.0)
    queue.at(B, 2.0)
    assert await taken(queue, 2, clock) == [("b", 2.0), ("a", 5.0)]


async def test_the_earliest_instant_counts(queue, clock):
    for when in (5.0, 3.0, 4.0):
        queue.at(A, when)
    queue.at(B, 6.0)
    assert await taken(queue, 2, clock) == [("a", 3.0), ("b", 6.0)]


async def test_who_waits_is_woken_by_something_earlier(queue, clock):
    queue.at(A, 60.0)
    waiting = asyncio.create_task(taken(queue, 2, clock))
    await asyncio.sleep(1.0)
    queue.touch(B)
    assert await waiting == [("b", 1.0 + DELAY_MIN), ("a", 60.0)]


async def test_never_is_no_instant(queue):
    queue.at(A, NEVER)
    assert len(queue) == 0


async def test_a_claim_is_never_decided_twice_at_the_same_time(queue, clock):
    queue.touch(A)
    assert await queue.take() == A
    queue.touch(A)
    second = asyncio.create_task(queue.take())
    await asyncio.sleep(10.0)
    assert not second.done()
    queue.done(A)
    assert await second == A
    assert clock.now() == pytest.approx(DELAY_MIN + 10.0)


async def test_what_happens_during_a_decision_is_not_lost(queue, clock):
    queue.touch(A)
    await queue.take()
    queue.at(A, 30.0)
    queue.at(A, 20.0)
    queue.done(A)
    assert await taken(queue, 1, clock) == [("a", 20.0)]


@pytest.mark.parametrize(
    ("cost", "delay"),
    [
        pytest.param(0.0, DELAY_MIN, id="cheap"),
        pytest.param(DELAY_MIN * CPU_SHARE / 2, DELAY_MIN, id="cheap-enough"),
        pytest.param(0.02, 0.02 / CPU_SHARE, id="a-twentieth-of-a-core"),
        pytest.param(1.0, DELAY_MAX, id="a-second-at-most"),
    ],
)
async def test_what_is_dear_to_decide_is_decided_less_often(queue, clock, cost, delay):
    queue.touch(A)
    queue.done(await queue.take(), cost=cost)
    began = clock.now()
    queue.touch(A)
    await queue.take()
    assert clock.now() - began == pytest.approx(delay)


async def test_a_claim_that_has_become_cheap_is_quick_again(queue, clock):
    for cost in (1.0, 0.0):
        queue.touch(A)
        queue.done(await queue.take(), cost=cost)
    began = clock.now()
    queue.touch(A)
    await queue.take()
    assert clock.now() - began == pytest.approx(DELAY_MIN)


async def test_many_workers_share_the_work(queue, clock):
    async def worker():
        return await queue.take(), clock.now()

    workers = [asyncio.create_task(worker()) for _ in range(8)]
    await asyncio.sleep(0)
    for number in range(8):
        queue.touch(("ml", str(number)))
    assert sorted(await asyncio.gather(*workers)) == [
        (("ml", str(number)), pytest.approx(DELAY_MIN)) for number in range(8)
    ]


async def test_who_serves_gives_back_each_claim_with_its_cost(queue, clock):
    seen = []

    async def turn(key):
        seen.append((key, clock.now()))
        if len(seen) == 1:
            queue.touch(key)  # while it is being decided
        return DELAY_MAX * CPU_SHARE

    queue.touch(A)
    serving = asyncio.create_task(queue.serve(turn, workers=2))
    await asyncio.sleep(10 * DELAY_MAX)
    serving.cancel()
    assert seen == [(A, pytest.approx(DELAY_MIN)), (A, pytest.approx(2 * DELAY_MIN))]
    queue.touch(A)
    assert await queue.take() == A
    assert clock.now() == pytest.approx(11 * DELAY_MAX)


async def test_a_turn_that_fails_ends_the_serving_and_holds_nothing_back(queue):
    async def turn(key):
        raise ValueError(key)

    queue.touch(A)
    with pytest.raises(ExceptionGroup):
        await queue.serve(turn, workers=2)
    queue.touch(A)
    assert await queue.take() == A


async def test_no_claim_is_lost_where_most_instants_are_superseded(queue, clock):
    queue.at(B, 300.0)
    for number in range(500):
        queue.at(A, 1000.0 - number)
    assert len(queue._heap) < 100
    assert await taken(queue, 2, clock) == [("b", 300.0), ("a", 501.0)]
