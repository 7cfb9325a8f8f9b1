import asyncio

import pytest

from dra.kube.informers import STALE_AFTER, Informers
from dra.kube.resources import NODES, PODS

VIRTUAL_TIME = True


class Reflector:
    """One that does what it is told to."""

    def __init__(self, resource, *, synced_after=1.0, fails_after=None):
        self.resource = resource
        self.synced = asyncio.Event()
        self.failure = None
        self.silent = None
        self._synced_after = synced_after
        self._fails_after = fails_after

    def lag(self):
        return self.silent

    async def run(self):
        await asyncio.sleep(self._synced_after)
        self.silent = 0.0
        self.synced.set()
        if self._fails_after is None:
            await asyncio.Event().wait()
        await asyncio.sleep(self._fails_after)
        raise KeyError("a handler's mistake")


async def test_they_are_synced_when_the_slowest_is():
    loop = asyncio.get_running_loop()
    began = loop.time()
    group = Informers(Reflector(NODES, synced_after=1.0), Reflector(PODS, synced_after=3.0))
    running = asyncio.create_task(group.run())
    await group.wait_for_sync()
    assert loop.time() - began == pytest.approx(3.0)
    running.cancel()
    await asyncio.wait([running])
    assert running.cancelled()


async def test_what_a_handler_raises_ends_all():
    group = Informers(Reflector(NODES), Reflector(PODS, fails_after=1.0))
    with pytest.raises(ExceptionGroup) as failed:
        await group.run()
    assert failed.group_contains(KeyError)


@pytest.mark.parametrize(
    ("silent", "failure", "told"),
    [
        pytest.param(None, None, ["pods: not listed yet"], id="not-listed"),
        pytest.param(None, "forbidden", ["pods: not listed yet (forbidden)"], id="may-not-list"),
        pytest.param(1.0, None, [], id="fresh"),
        pytest.param(STALE_AFTER + 1, None, ["pods: no event for 181 s (silent)"], id="silent"),
        pytest.param(STALE_AFTER + 1, "down", ["pods: no event for 181 s (down)"], id="failing"),
    ],
)
async def test_each_says_what_keeps_it_from_knowing_its_kind(silent, failure, told):
    fine, other = Reflector(NODES), Reflector(PODS)
    fine.silent, other.silent, other.failure = 0.0, silent, failure
    assert Informers(fine, other).not_ready_reasons() == told
