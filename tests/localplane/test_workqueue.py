import asyncio

import pytest

from dra.kube.errors import Unreachable
from localplane.workqueue import WorkQueue
from tests.dra.kube.virtual import LoopClock

VIRTUAL_TIME = True


class Work:
    """An agenda that is served, and when which key was handled."""

    def __init__(self, handle=None):
        self.clock = LoopClock()
        self.agenda = WorkQueue(self.clock)
        self.handled = []
        self._handle = handle

    async def __aenter__(self):
        self._task = asyncio.create_task(self.agenda.serve(self._one))
        return self

    async def __aexit__(self, *error):
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _one(self, key):
        self.handled.append((round(self.clock.now(), 3), key))
        return await self._handle(key, self) if self._handle else None


async def test_keys_are_handled_in_order_of_time_then_of_arrival():
    async with Work() as work:
        work.agenda.at("late", 5.0)
        work.agenda.touch("b")
        work.agenda.touch("a")
        work.agenda.touch("b")
        await asyncio.sleep(10)
    assert work.handled == [(0.0, "b"), (0.0, "a"), (5.0, "late")]


async def test_an_earlier_time_counts():
    async with Work() as work:
        work.agenda.at("a", 5.0)
        work.agenda.at("a", 2.0)
        work.agenda.at("a", 9.0)
        await asyncio.sleep(10)
    assert work.handled == [(2.0, "a")]


async def test_a_handler_may_ask_for_its_key_again():
    async def twice(_, work):
        return work.clock.now() + 3.0 if len(work.handled) < 2 else None

    async with Work(twice) as work:
        work.agenda.touch("a")
        await asyncio.sleep(10)
    assert work.handled == [(0.0, "a"), (3.0, "a")]
    assert not len(work.agenda)


async def test_a_key_is_handled_once_at_a_time_and_again_if_it_was_touched_meanwhile():
    async def slow(key, work):
        if len(work.handled) == 1:
            work.agenda.touch(key)
            work.agenda.touch(key)
            await asyncio.sleep(2.0)

    async with Work(slow) as work:
        work.agenda.touch("a")
        work.agenda.touch("b")
        await asyncio.sleep(10)
    assert work.handled == [(0.0, "a"), (0.0, "b"), (2.0, "a")]


async def test_what_fails_comes_back_later_and_later():
    async def fail(*_):
        raise Unreachable("x", "away", ambiguous=False)

    async with Work(fail) as work:
        work.agenda.touch("a")
        await asyncio.sleep(100)
    gaps = [later[0] - earlier[0] for earlier, later in zip(work.handled, work.handled[1:], strict=False)]
    assert gaps == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0], abs=0.01)


async def test_an_error_of_ours_ends_the_component():
    async def wrong(key, _):
        raise ValueError(key)

    work = Work(wrong)
    work.agenda.touch("a")
    with pytest.raises(ExceptionGroup) as caught:
        await work.agenda.serve(work._one)
    assert caught.group_contains(ValueError)
