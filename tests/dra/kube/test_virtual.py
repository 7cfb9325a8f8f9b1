import asyncio

import pytest

from dra.kube.backoff import Backoff
from tests.dra.kube.virtual import LivelockError, VirtualLoop
from tests.violations import combinations, for_each_case


def run(main):
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(main)
    finally:
        loop.close()


async def until(due, *, after):
    """Wait as an agenda does: for the rest, as often as it takes."""
    loop = asyncio.get_running_loop()
    for _ in range(after):
        await asyncio.sleep(0)
    while (rest := due - loop.time()) > 0.0:
        try:
            async with asyncio.timeout(rest):
                await loop.create_future()
        except TimeoutError:
            continue


@for_each_case(combinations([0.0, 0.1, 1.0, 1e3, 1e6], [1e-15, 5e-10, 1e-9, 0.1]))
def test_two_who_wait_for_less_than_a_nanosecond_do_not_keep_each_other_awake(begin, rest):
    async def both():
        await asyncio.sleep(begin)
        due = asyncio.get_running_loop().time() + rest
        await asyncio.gather(until(due, after=0), until(due, after=1))
        return due, asyncio.get_running_loop().time()

    due, ended = run(both())
    assert ended == due


def test_who_waits_without_waiting_is_named():
    async def spin():
        while True:  # noqa: ASYNC110 - what is tried
            await asyncio.sleep(1e-9)

    with pytest.raises(LivelockError, match=r"50000 turns at .* s; ready: .*spin"):
        run(spin())


def test_delays_that_nobody_gave_chance_are_the_same_in_every_loop():
    async def delays():
        return [Backoff().next() for _ in range(5)]

    assert run(delays()) == run(delays())
