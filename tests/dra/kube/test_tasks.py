import asyncio
import logging

import pytest

from dra.kube.tasks import BackgroundTasks, background_task

VIRTUAL_TIME = True


async def failing_after(seconds):
    await asyncio.sleep(seconds)
    raise TypeError("start() got an unexpected keyword argument")


async def for_ever():
    await asyncio.Event().wait()


async def test_work_beside_a_block_ends_with_it():
    async with background_task(for_ever(), name="work") as task:
        await asyncio.sleep(1.0)
        assert not task.done()
    assert task.cancelled()


async def test_a_block_ends_with_the_work_beside_it():
    with pytest.raises(TypeError, match="unexpected keyword"):
        async with asyncio.timeout(10.0), background_task(failing_after(1.0), name="work"):
            await for_ever()


async def test_what_a_block_itself_fails_with_stays_as_it_is():
    cause = KeyError("n1")

    async def block():
        async with background_task(for_ever(), name="work"), background_task(for_ever(), name="more work"):
            raise ValueError("no such node") from cause

    with pytest.raises(ValueError, match="no such node") as failed:
        await block()
    assert failed.value.__cause__ is cause


async def test_a_block_and_the_work_beside_it_may_both_fail():
    async def failing_late():
        try:
            await for_ever()
        finally:
            raise TypeError("on the way out")

    async def both():
        async with background_task(failing_late(), name="work"):
            await asyncio.sleep(1.0)
            raise ValueError("no such node")

    with pytest.raises(ExceptionGroup) as failed:
        await both()
    assert failed.group_contains(ValueError)
    assert failed.group_contains(TypeError)


async def test_work_beside_a_block_may_be_over_before_it():
    async with background_task(asyncio.sleep(1.0), name="work") as task:
        await asyncio.sleep(2.0)
        assert task.done()


async def test_a_block_that_is_called_off_ends_the_work_beside_it():
    async def called_off():
        async with background_task(for_ever(), name="work") as task:
            tasks.append(task)
            await for_ever()

    tasks = []
    running = asyncio.create_task(called_off())
    await asyncio.sleep(1.0)
    running.cancel()
    await asyncio.wait([running])
    assert (running.cancelled(), tasks[0].cancelled()) == (True, True)


async def test_what_a_detached_task_fails_with_is_logged_with_its_traceback(caplog):
    detached = BackgroundTasks()
    detached.start(failing_after(1.0), name="container (a, main)")
    await detached.wait_for_all()
    [record] = caplog.records
    assert record.levelno == logging.ERROR
    assert "container (a, main) failed" in record.getMessage()
    assert "in failing_after" in caplog.text


async def test_who_waits_for_the_first_failure_of_detached_tasks_gets_it():
    detached = BackgroundTasks()
    for seconds in (3.0, 2.0):
        detached.start(failing_after(seconds), name="work")
    with pytest.raises(TypeError, match="unexpected keyword"):
        await detached.wait_for_failure()
    await detached.close()


async def test_a_failure_from_before_is_raised_to_who_asks_later():
    detached = BackgroundTasks()
    detached.start(failing_after(1.0), name="work")
    await detached.wait_for_all()
    with pytest.raises(TypeError, match="unexpected keyword"):
        await detached.wait_for_failure()


async def test_a_detached_task_that_is_cancelled_has_not_failed(caplog):
    detached = BackgroundTasks()
    task = detached.start(for_ever(), name="work")
    await asyncio.sleep(0)
    await detached.close()
    assert task.cancelled()
    assert caplog.records == []
