"""Periodic loops that began at different times wake at the same time."""

import asyncio

import pytest

from kubeletplugin.ticks import until_tick

VIRTUAL_TIME = True


async def test_loops_that_began_at_different_times_wake_together():
    loop = asyncio.get_running_loop()
    woken = []

    async def look(began):
        await asyncio.sleep(began)
        for _ in range(3):
            await asyncio.sleep(until_tick(5.0))
            woken.append(loop.time())

    await asyncio.gather(look(0.3), look(1.7), look(4.9))
    assert woken == pytest.approx([5.0] * 3 + [10.0] * 3 + [15.0] * 3)


async def test_a_tick_that_is_now_is_an_interval_away():
    await asyncio.sleep(2.0)
    assert until_tick(1.0) == pytest.approx(1.0)
