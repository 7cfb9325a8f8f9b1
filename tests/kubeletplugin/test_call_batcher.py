import asyncio

import pytest

from kubeletplugin.call_batcher import CallBatcher

VIRTUAL_TIME = True


class Turns:
    """Answers each wish with the number of its turn, when told to."""

    def __init__(self):
        self.may_begin = asyncio.Event()
        self.may_end = asyncio.Event()
        self.wishes = []
        self.fails = None
        self.gathering = CallBatcher(self)

    async def __call__(self, begin):
        await self.may_begin.wait()
        wishes = begin()
        self.wishes.append(dict(wishes))
        number = len(self.wishes)
        await self.may_end.wait()
        if self.fails is not None:
            raise self.fails
        return dict.fromkeys(wishes, number)

    def ask(self, *uids):
        return asyncio.create_task(self.gathering.ask({uid: uid.upper() for uid in uids}))

    def go(self):
        self.may_begin.set()
        self.may_end.set()


@pytest.fixture
async def turns():
    return Turns()


async def rest():
    for _ in range(5):
        await asyncio.sleep(0)


async def test_who_comes_alone_has_a_turn_at_once(turns):
    turns.go()
    assert await turns.ask("a") == {"a": 1}
    assert await turns.ask("b") == {"b": 2}
    assert turns.wishes == [{"a": "A"}, {"b": "B"}]


async def test_who_comes_before_it_begins_is_in_and_who_comes_later_is_in_the_next(turns):
    calls = [turns.ask("a", "b"), turns.ask("b", "c")]
    await rest()
    turns.may_begin.set()
    await rest()
    calls += [turns.ask("d"), turns.ask("e")]
    await rest()
    turns.may_end.set()
    assert await asyncio.gather(*calls) == [{"a": 1, "b": 1}, {"b": 1, "c": 1}, {"d": 2}, {"e": 2}]


async def test_who_gives_up_before_it_begins_wished_nothing(turns):
    gone, staying = turns.ask("a", "b"), turns.ask("b")
    await rest()
    gone.cancel()
    await rest()
    turns.go()
    assert await staying == {"b": 1}
    assert turns.wishes == [{"b": "B"}]
    with pytest.raises(asyncio.CancelledError):
        await gone


async def test_who_gives_up_later_changes_nothing_and_can_be_waited_for(turns):
    call = turns.ask("a")
    turns.may_begin.set()
    await rest()
    call.cancel()
    settled = asyncio.create_task(turns.gathering.settled())
    await rest()
    assert not settled.done()
    turns.may_end.set()
    await settled
    assert turns.wishes == [{"a": "A"}]
    await turns.gathering.settled()


async def test_a_turn_that_fails_fails_for_all_in_it_and_for_nobody_else(turns):
    calls = [turns.ask("a"), turns.ask("b")]
    turns.fails = ValueError("no")
    turns.go()
    assert [str(e) for e in await asyncio.gather(*calls, return_exceptions=True)] == ["no", "no"]
    turns.fails = None
    assert await turns.ask("c") == {"c": 2}


async def test_a_turn_that_fails_before_it_begins_takes_nobody_else_with_it():
    failing = True

    async def turn(begin):
        if failing:
            raise ValueError("no lock")
        return dict.fromkeys(begin(), "fine")

    gathering = CallBatcher(turn)
    with pytest.raises(ValueError, match="no lock"):
        await gathering.ask({"a": 1})
    failing = False
    assert await gathering.ask({"a": 1}) == {"a": "fine"}


async def test_a_failure_that_nobody_waits_for_is_silent(turns, caplog):
    call = turns.ask("a")
    turns.may_begin.set()
    await rest()
    call.cancel()
    turns.fails = ValueError("no")
    turns.may_end.set()
    await turns.gathering.settled()
    await rest()
    assert not caplog.records
