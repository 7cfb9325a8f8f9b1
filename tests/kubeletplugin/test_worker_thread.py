import asyncio
import threading
import weakref
from queue import SimpleQueue

import pytest

from kubeletplugin.worker_thread import WorkerThread


class Sentinel(BaseException):
    """Neither an error nor a cancellation."""


@pytest.fixture
def worker():
    return WorkerThread(name="files")


async def test_it_returns_and_raises_what_the_work_does_in_one_thread(worker):
    def fail():
        raise Sentinel(threading.current_thread())

    first = await worker.run(threading.current_thread)
    assert first is not threading.current_thread()
    with pytest.raises(Sentinel) as raised:
        await worker.run(fail)
    assert raised.value.args == (first,)
    assert await worker.run(threading.current_thread) is first


async def test_work_that_has_begun_is_finished_though_its_caller_is_cancelled(worker):
    began, may_end, done = SimpleQueue(), SimpleQueue(), []

    def work():
        began.put(None)
        may_end.get(timeout=60)
        done.append("first")

    call = asyncio.create_task(worker.run(work))
    await asyncio.to_thread(began.get, timeout=60)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    may_end.put(None)
    await worker.run(lambda: done.append("second"))
    assert done == ["first", "second"]


async def test_it_keeps_no_work_that_is_done(worker):
    class Batch:
        def write(self):
            """Write files."""

    batch = Batch()
    written = weakref.ref(batch)
    await worker.run(batch.write)
    del batch
    await worker.run(int)  # the thread has let go of the work before
    assert written() is None


async def test_the_thread_ends_with_the_object():
    worker = WorkerThread(name="files")
    thread = await worker.run(threading.current_thread)
    del worker
    await asyncio.to_thread(thread.join, 60)
    assert not thread.is_alive()


def test_work_that_outlives_its_event_loop_disturbs_nobody(worker):
    began, may_end = SimpleQueue(), SimpleQueue()

    async def begin():
        call = asyncio.create_task(worker.run(lambda: began.put(None) or may_end.get(timeout=60)))
        await asyncio.to_thread(began.get, timeout=60)
        call.cancel()

    asyncio.run(begin())
    may_end.put(None)
    assert asyncio.run(worker.run(lambda: "next")) == "next"
