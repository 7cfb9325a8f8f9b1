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


async def rings(bell, *, within=1.0):
    try:
        await asyncio.wait_for(bell.wait(), within)
    except TimeoutError:
        return False
    bell.clear()
    return True


async def test_all_who_listen_are_told_and_nobody_else():
    driver = SmallDriver()
    changes = ChangeBroadcaster(driver)
    async with listening(changes):
        with changes.bell() as one, changes.bell() as other:
            driver.tell()
            assert await rings(one)
            assert await rings(other)
            assert not await rings(one)
        driver.tell()
        await asyncio.sleep(1)
        assert not one.is_set()


async def test_many_changes_while_nobody_waits_are_one_ring():
    driver = SmallDriver()
    changes = ChangeBroadcaster(driver)
    async with listening(changes):
        with changes.bell() as bell:
            for _ in range(5):
                driver.tell()
            await asyncio.sleep(1)
            assert await rings(bell)
            assert not await rings(bell)


def test_a_bell_can_be_rung_by_hand():
    changes = ChangeBroadcaster(SmallDriver())
    with changes.bell() as bell:
        changes.ring()
        assert bell.is_set()


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
    with changes.bell() as bell:
        async with listening(changes):
            for _ in range(4):
                assert await rings(bell, within=120)
    assert len(driver.asked) >= 2
    assert all(later - earlier >= 0.5 for earlier, later in pairwise(driver.asked))
    assert ("its changes are not told; asking again" in caplog.text) is (failure is not None)
