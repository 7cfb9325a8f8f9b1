"""How many bindings are under way on API servers of different speeds, in virtual time."""

import asyncio
import math

import pytest

from controller.extender.binding_limiter import FILTER_WAIT_SHARE, REMAINING_SHARE, BindingLimiter
from dra.engine.scheduling.binding_limit import LIMIT_INITIAL, LIMIT_MAX, LIMIT_MIN
from dra.engine.scheduling.status_updates import WriteRefusedError

SECONDS = 4.0


@pytest.fixture
def turns(clock):
    return BindingLimiter(clock=clock, seconds=SECONDS)


class Server:
    """An API server that answers so many bindings a second, in turn, and none before its latency is over."""

    def __init__(self, *, rate, latency=0.005):
        self.rate, self.latency, self.free_at = rate, latency, 0.0

    async def bind(self):
        now = asyncio.get_running_loop().time()
        self.free_at = max(self.free_at, now) + 1 / self.rate
        await asyncio.sleep(max(self.latency, self.free_at - now))


async def scheduled(turns, server, *, pods, clock):
    """Play kube-scheduler: one filter after the other, each followed by a binding that nobody waits for.

    Return how long each binding took, or None if it was refused.
    """

    async def bind():
        began = clock.now()
        try:
            async with turns.slot(deadline=began + SECONDS):
                await server.bind()
        except WriteRefusedError:
            return None
        return clock.now() - began

    bindings = []
    for _ in range(pods):
        await turns.wait_for_capacity()
        await asyncio.sleep(0.002)
        bindings.append(asyncio.create_task(bind()))
    return await asyncio.gather(*bindings)


@pytest.mark.parametrize(
    "rate",
    [
        pytest.param(400, id="fast"),
        pytest.param(40, id="ten-times-slower"),
        pytest.param(4, id="a-hundred-times-slower"),
        pytest.param(2, id="two-hundred-times-slower"),
    ],
)
async def test_no_binding_is_refused_or_unanswered_however_slow_the_server_is(turns, clock, rate):
    took = await scheduled(turns, Server(rate=rate), pods=300, clock=clock)
    assert None not in took
    assert max(took) <= SECONDS


async def test_a_fast_server_is_kept_busy(turns, clock):
    began = clock.now()
    await scheduled(turns, Server(rate=200), pods=600, clock=clock)
    assert clock.now() - began < 1.1 * 600 / 200


async def test_a_distant_server_gets_more_bindings_at_a_time(turns, clock):
    await scheduled(turns, Server(rate=10_000, latency=0.2), pods=3000, clock=clock)
    assert LIMIT_INITIAL < turns.limit <= LIMIT_MAX


async def test_a_slow_server_gets_fewer_and_more_again_when_it_has_recovered(turns, clock):
    server = Server(rate=2)
    await scheduled(turns, server, pods=60, clock=clock)
    slow = turns.limit
    assert LIMIT_MIN <= slow < LIMIT_INITIAL
    server.rate, server.free_at = 400, 0.0
    await scheduled(turns, server, pods=2000, clock=clock)
    assert turns.limit > slow


async def test_where_nothing_is_answered_filter_waits_a_moment_and_a_binding_is_refused(turns, clock):
    async def held():
        async with turns.slot(deadline=math.inf):
            await asyncio.Event().wait()

    holding = [asyncio.create_task(held()) for _ in range(LIMIT_INITIAL)]
    await asyncio.sleep(0)
    began = clock.now()
    await turns.wait_for_capacity()
    assert clock.now() - began == pytest.approx(FILTER_WAIT_SHARE * SECONDS)
    with pytest.raises(
        WriteRefusedError,
        match=f"nothing was written: {LIMIT_INITIAL} binds are in progress and the API server is slow",
    ):
        async with turns.slot(deadline=clock.now() + 1.0):
            pytest.fail("no turn is free")
    for each in holding:
        each.cancel()
    await asyncio.gather(*holding, return_exceptions=True)
    assert turns.in_flight == 0
    await turns.wait_for_capacity()


async def test_a_binding_that_has_waited_for_half_of_its_time_is_not_begun(turns, clock):
    """Its request would be sent with so little time left that nobody would know what became of it."""

    async def held(seconds):
        async with turns.slot(deadline=clock.now() + SECONDS):
            await asyncio.sleep(seconds)

    holding = [asyncio.create_task(held(REMAINING_SHARE * SECONDS + 0.1)) for _ in range(LIMIT_INITIAL)]
    await asyncio.sleep(0)
    began = clock.now()
    with pytest.raises(WriteRefusedError, match="nothing was written"):
        async with turns.slot(deadline=began + SECONDS):
            pytest.fail("it has its turn too late")
    assert clock.now() - began == pytest.approx(REMAINING_SHARE * SECONDS)
    await asyncio.gather(*holding)


async def test_a_turn_that_is_granted_while_its_binding_is_called_off_is_given_on(turns):
    async with asyncio.TaskGroup() as group:
        first = [group.create_task(_for_ever(turns)) for _ in range(LIMIT_INITIAL)]
        await asyncio.sleep(0)
        second = group.create_task(_for_ever(turns))
        third = group.create_task(_for_ever(turns))
        await asyncio.sleep(0)
        first[0].cancel()
        second.cancel()
        await asyncio.sleep(0.1)
        assert turns.in_flight == LIMIT_INITIAL
        for each in (*first, third):
            each.cancel()
    assert turns.in_flight == 0


async def _for_ever(turns):
    async with turns.slot(deadline=math.inf):
        await asyncio.Event().wait()
