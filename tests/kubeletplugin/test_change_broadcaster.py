"""Bells that ring when a driver has something new to say; how it gets to a kubelet is in conformance/test_health.py."""

import asyncio
import contextlib
from itertools import pairwise

import pytest

from kubeletplugin.change_broadcaster import ChangeBroadcaster
from tests.kubeletplugin.driver import SmallDriver

VIRTUAL_TIME = True


@contextlib.asynccontextmanager
async def listening(changes):
    task = asyncio.create_task(changes.run())
    await asyncio.sleep(0.1)
    try:
        yield
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def notified(changed, *, within=1.0):
    try:
        await asyncio.wait_for(changed.wait(), within)
    except TimeoutError:
        return False
    changed.clear()
    return True


async def test_all_who_listen_are_told_and_nobody_else():
    driver = SmallDriver()
    changes = ChangeBroadcaster(driver)
    async with listening(changes):
        with changes.subscribe() as one, changes.subscribe() as other:
            driver.tell()
            assert await notified(one)
            assert await notified(other)
            assert not await notified(one)
        driver.tell()
        await asyncio.sleep(1)
        assert not one.is_set()


async def test_changes_while_a_listener_is_busy_count_as_one():
    driver = SmallDriver()
    changes = ChangeBroadcaster(driver)
    async with listening(changes):
        with changes.subscribe() as changed:
            for _ in range(5):
                driver.tell()
            await asyncio.sleep(1)
            assert await notified(changed)
            assert not await notified(changed)


def test_notify_sets_the_event_of_a_subscriber():
    changes = ChangeBroadcaster(SmallDriver())
    with changes.subscribe() as changed:
        changes.notify()
        assert changed.is_set()


class Failing(SmallDriver):
    """A driver whose stream of changes breaks off, or ends, after each."""

    def __init__(self, failure):
        super().__init__()
        self.failure = failure
        self.asked = []

    async def changes(self):
        self.asked.append(asyncio.get_running_loop().time())
        yield
        if self.failure is not None:
            raise self.failure


@pytest.mark.parametrize("failure", [pytest.param(KeyError("x"), id="it-fails"), pytest.param(None, id="it-ends")])
async def test_a_driver_that_stops_telling_is_asked_again_with_pauses_and_what_was_missed_is_told(failure, caplog):
    driver = Failing(failure)
    changes = ChangeBroadcaster(driver)
    with changes.subscribe() as changed:
        async with listening(changes):
            for _ in range(4):
                assert await notified(changed, within=120)
    assert len(driver.asked) >= 2
    assert all(later - earlier >= 0.5 for earlier, later in pairwise(driver.asked))
    assert ("watching its changes failed; retrying" in caplog.text) is (failure is not None)
