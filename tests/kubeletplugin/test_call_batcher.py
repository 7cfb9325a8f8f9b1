import asyncio
import contextlib

import pytest

from kubeletplugin.call_batcher import CallBatcher

VIRTUAL_TIME = True


class Batches:
    """Answers each request with the number of its batch; a test decides when batches begin and end."""

    def __init__(self):
        self.may_begin = asyncio.Event()
        self.may_end = asyncio.Event()
        self.begin_error = None
        self.run_error = None
        self.requests = []
        self.batcher = CallBatcher(self.run, exclusively=self.exclusively)

    @contextlib.asynccontextmanager
    async def exclusively(self):
        await self.may_begin.wait()
        if self.begin_error is not None:
            raise self.begin_error
        yield

    async def run(self, requests):
        self.requests.append(dict(requests))
        number = len(self.requests)
        await self.may_end.wait()
        if self.run_error is not None:
            raise self.run_error
        return dict.fromkeys(requests, number)

    def submit(self, *uids):
        return asyncio.create_task(self.batcher.submit({uid: uid.upper() for uid in uids}))

    def start(self):
        self.may_begin.set()
        self.may_end.set()


@pytest.fixture
async def batches():
    return Batches()


async def let_tasks_run():
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_call_that_arrives_alone_runs_at_once(batches):
    batches.start()
    assert await batches.submit("a") == {"a": 1}
    assert await batches.submit("b") == {"b": 2}
    assert batches.requests == [{"a": "A"}, {"b": "B"}]


async def test_calls_before_the_begin_join_the_batch_and_later_calls_the_next(batches):
    calls = [batches.submit("a", "b"), batches.submit("b", "c")]
    await let_tasks_run()
    batches.may_begin.set()
    await let_tasks_run()
    calls += [batches.submit("d"), batches.submit("e")]
    await let_tasks_run()
    batches.may_end.set()
    assert await asyncio.gather(*calls) == [{"a": 1, "b": 1}, {"b": 1, "c": 1}, {"d": 2}, {"e": 2}]


async def test_a_call_that_is_cancelled_before_the_begin_withdraws_its_requests(batches):
    cancelled, remaining = batches.submit("a", "b"), batches.submit("b")
    await let_tasks_run()
    cancelled.cancel()
    await let_tasks_run()
    batches.start()
    assert await remaining == {"b": 1}
    assert batches.requests == [{"b": "B"}]
    with pytest.raises(asyncio.CancelledError):
        await cancelled


async def test_a_batch_whose_calls_are_all_cancelled_runs_nothing(batches):
    call = batches.submit("a")
    await let_tasks_run()
    call.cancel()
    await let_tasks_run()
    batches.start()
    await batches.batcher.wait_idle()
    assert batches.requests == []


async def test_a_later_cancellation_changes_nothing_and_the_batch_can_be_awaited(batches):
    call = batches.submit("a")
    batches.may_begin.set()
    await let_tasks_run()
    call.cancel()
    idle = asyncio.create_task(batches.batcher.wait_idle())
    await let_tasks_run()
    assert not idle.done()
    batches.may_end.set()
    await idle
    assert batches.requests == [{"a": "A"}]
    await batches.batcher.wait_idle()


async def test_a_batch_that_fails_raises_in_each_of_its_calls_and_in_no_other(batches):
    calls = [batches.submit("a"), batches.submit("b")]
    batches.run_error = ValueError("no")
    batches.start()
    assert [str(e) for e in await asyncio.gather(*calls, return_exceptions=True)] == ["no", "no"]
    batches.run_error = None
    assert await batches.submit("c") == {"c": 2}


async def test_a_batch_that_cannot_begin_does_not_affect_the_next(batches):
    batches.begin_error = ValueError("no lock")
    batches.start()
    with pytest.raises(ValueError, match="no lock"):
        await batches.submit("a")
    batches.begin_error = None
    assert await batches.submit("a") == {"a": 1}


async def test_a_failure_without_a_waiting_caller_is_silent(batches, caplog):
    call = batches.submit("a")
    batches.may_begin.set()
    await let_tasks_run()
    call.cancel()
    batches.run_error = ValueError("no")
    batches.may_end.set()
    await batches.batcher.wait_idle()
    await let_tasks_run()
    assert not caplog.records
