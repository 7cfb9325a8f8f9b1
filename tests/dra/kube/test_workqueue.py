import asyncio

import pytest

from dra.engine.instants import NEVER
from dra.kube.errors import Unreachable
from dra.kube.workqueue import BATCH_DELAY, CPU_SHARE, MAX_BATCH_DELAY, WorkQueue
from tests.dra.kube.virtual import LoopClock

VIRTUAL_TIME = True

A, B = ("ml", "a"), ("ml", "b")


@pytest.fixture
def queue(clock):
    return WorkQueue(clock, batch_delay=BATCH_DELAY)


async def taken(queue, count, clock):
    """Take claims, give each back at once, and tell who came when."""
    found = []
    for _ in range(count):
        key = await queue.get()
        found.append((key[1], pytest.approx(clock.now())))
        queue.done(key)
    return found


async def test_a_thousand_events_are_one_decision(queue, clock):
    for _ in range(1000):
        queue.add(A)
    queue.add(B)
    assert len(queue) == 2
    assert await taken(queue, 2, clock) == [("a", BATCH_DELAY), ("b", BATCH_DELAY)]
    assert len(queue) == 0


async def test_an_event_does_not_put_off_a_decision(queue, clock):
    queue.add(A)
    await asyncio.sleep(0.04)
    queue.add(A)
    assert await taken(queue, 1, clock) == [("a", BATCH_DELAY)]


async def test_claims_come_when_they_are_due(queue, clock):
    queue.add_at(A, 5.0)
    queue.add_at(B, 2.0)
    assert await taken(queue, 2, clock) == [("b", 2.0), ("a", 5.0)]


async def test_the_earliest_instant_counts(queue, clock):
    for when in (5.0, 3.0, 4.0):
        queue.add_at(A, when)
    queue.add_at(B, 6.0)
    assert await taken(queue, 2, clock) == [("a", 3.0), ("b", 6.0)]


async def test_who_waits_is_woken_by_something_earlier(queue, clock):
    queue.add_at(A, 60.0)
    waiting = asyncio.create_task(taken(queue, 2, clock))
    await asyncio.sleep(1.0)
    queue.add(B)
    assert await waiting == [("b", 1.0 + BATCH_DELAY), ("a", 60.0)]


async def test_never_is_no_instant(queue):
    queue.add_at(A, NEVER)
    assert len(queue) == 0


async def test_a_claim_is_never_decided_twice_at_the_same_time(queue, clock):
    queue.add(A)
    assert await queue.get() == A
    queue.add(A)
    second = asyncio.create_task(queue.get())
    await asyncio.sleep(10.0)
    assert not second.done()
    queue.done(A)
    assert await second == A
    assert clock.now() == pytest.approx(BATCH_DELAY + 10.0)


async def test_what_happens_during_a_decision_is_not_lost(queue, clock):
    queue.add(A)
    await queue.get()
    queue.add_at(A, 30.0)
    queue.add_at(A, 20.0)
    queue.done(A)
    assert await taken(queue, 1, clock) == [("a", 20.0)]


@pytest.mark.parametrize(
    ("cost", "delay"),
    [
        pytest.param(0.0, BATCH_DELAY, id="cheap"),
        pytest.param(BATCH_DELAY * CPU_SHARE / 2, BATCH_DELAY, id="cheap-enough"),
        pytest.param(0.02, 0.02 / CPU_SHARE, id="a-twentieth-of-a-core"),
        pytest.param(1.0, MAX_BATCH_DELAY, id="a-second-at-most"),
    ],
)
async def test_what_is_dear_to_decide_is_decided_less_often(queue, clock, cost, delay):
    queue.add(A)
    key = await queue.get()
    queue.set_cost(key, cost)
    queue.done(key)
    began = clock.now()
    queue.add(A)
    await queue.get()
    assert clock.now() - began == pytest.approx(delay)


async def test_a_claim_that_has_become_cheap_is_quick_again(queue, clock):
    for cost in (1.0, 0.0):
        queue.add(A)
        key = await queue.get()
        queue.set_cost(key, cost)
        queue.done(key)
    began = clock.now()
    queue.add(A)
    await queue.get()
    assert clock.now() - began == pytest.approx(BATCH_DELAY)


async def test_many_workers_share_the_work(queue, clock):
    async def worker():
        return await queue.get(), clock.now()

    workers = [asyncio.create_task(worker()) for _ in range(8)]
    await asyncio.sleep(0)
    for number in range(8):
        queue.add(("ml", str(number)))
    assert sorted(await asyncio.gather(*workers)) == [
        (("ml", str(number)), pytest.approx(BATCH_DELAY)) for number in range(8)
    ]


async def test_who_serves_gives_back_each_claim_with_its_cost(queue, clock):
    seen = []

    async def turn(key):
        seen.append((key, clock.now()))
        if len(seen) == 1:
            queue.add(key)  # while it is being decided
        queue.set_cost(key, MAX_BATCH_DELAY * CPU_SHARE)

    queue.add(A)
    serving = asyncio.create_task(queue.run(turn, workers=2))
    await asyncio.sleep(10 * MAX_BATCH_DELAY)
    serving.cancel()
    assert seen == [(A, pytest.approx(BATCH_DELAY)), (A, pytest.approx(2 * BATCH_DELAY))]
    queue.add(A)
    assert await queue.get() == A
    assert clock.now() == pytest.approx(11 * MAX_BATCH_DELAY)


async def test_a_turn_that_fails_ends_the_serving_and_holds_nothing_back(queue):
    async def turn(key):
        raise ValueError(key)

    queue.add(A)
    with pytest.raises(ExceptionGroup):
        await queue.run(turn, workers=2)
    queue.add(A)
    assert await queue.get() == A


async def test_an_event_does_not_wait_for_all_whose_time_has_come(queue, clock):
    for number in range(1000):
        queue.add_at(("ml", f"due-{number}"), 1.0)
    await asyncio.sleep(2.0)
    queue.add(A)
    queue.add(("ml", "due-999"))
    await asyncio.sleep(BATCH_DELAY)
    names = [name for name, _ in await taken(queue, 6, clock)]
    assert names == ["due-999", "due-0", "a", "due-1", "due-2", "due-3"]
    assert len(queue) == 1000 - 5


async def test_events_do_not_hold_up_what_is_due(queue, clock):
    for number in range(1000):
        queue.add(("ml", f"changed-{number}"))
    queue.add_at(A, BATCH_DELAY)
    await asyncio.sleep(1.0)
    assert "a" in [name for name, _ in await taken(queue, 2, clock)]


async def test_a_key_keeps_its_earlier_time_when_an_event_adds_it(queue, clock):
    queue.add_at(A, 0.02)
    queue.add(A)
    assert await taken(queue, 1, clock) == [("a", 0.02)]
    assert len(queue) == 0


async def test_no_claim_is_lost_where_most_instants_are_superseded(queue, clock):
    queue.add_at(B, 300.0)
    for number in range(500):
        queue.add_at(A, 1000.0 - number)
    assert len(queue._heaps[False]) < 100
    assert await taken(queue, 2, clock) == [("b", 300.0), ("a", 501.0)]


class Work:
    """A queue that runs, and when which key was handled."""

    def __init__(self, handle=None):
        self.clock = LoopClock()
        self.queue = WorkQueue(self.clock)
        self.handled = []
        self._handle = handle

    async def __aenter__(self):
        self._task = asyncio.create_task(self.queue.run(self._one))
        return self

    async def __aexit__(self, *error):
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _one(self, key):
        self.handled.append((round(self.clock.now(), 3), key))
        return await self._handle(key, self) if self._handle else None


async def test_keys_are_handled_in_order_of_time_then_of_arrival():
    async with Work() as work:
        work.queue.add_at("late", 5.0)
        work.queue.add("b")
        work.queue.add("a")
        work.queue.add("b")
        await asyncio.sleep(10)
    assert work.handled == [(0.0, "b"), (0.0, "a"), (5.0, "late")]


async def test_a_handler_may_ask_for_its_key_again():
    async def twice(_, work):
        return work.clock.now() + 3.0 if len(work.handled) < 2 else None

    async with Work(twice) as work:
        work.queue.add("a")
        await asyncio.sleep(10)
    assert work.handled == [(0.0, "a"), (3.0, "a")]
    assert not len(work.queue)


async def test_a_key_is_handled_once_at_a_time_and_again_if_it_was_touched_meanwhile():
    async def slow(key, work):
        if len(work.handled) == 1:
            work.queue.add(key)
            work.queue.add(key)
            await asyncio.sleep(2.0)

    async with Work(slow) as work:
        work.queue.add("a")
        work.queue.add("b")
        await asyncio.sleep(10)
    assert work.handled == [(0.0, "a"), (0.0, "b"), (2.0, "a")]


async def test_what_fails_comes_back_later_and_later():
    async def fail(*_):
        raise Unreachable("x", "away", outcome_unknown=False)

    async with Work(fail) as work:
        work.queue.add("a")
        await asyncio.sleep(100)
    gaps = [later[0] - earlier[0] for earlier, later in zip(work.handled, work.handled[1:], strict=False)]
    assert gaps == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0], abs=0.01)


async def test_an_error_of_ours_ends_the_component():
    async def wrong(key, _):
        raise ValueError(key)

    work = Work(wrong)
    work.queue.add("a")
    with pytest.raises(ExceptionGroup) as caught:
        await work.queue.run(work._one)
    assert caught.group_contains(ValueError)
