"""The loop that has kube-scheduler retry rejected pods: at once when they may fit, and asleep while none may."""

import asyncio
import itertools

import pytest

from controller.extender.pod_requeuer import BATCH_PAUSE, PodRequeuer
from dra.engine.scheduling.unschedulable_pods import BATCH_SIZE
from tests.dra.engine.scheduling.examples import pod


class Writer:
    """Remembers when each pod was requeued."""

    def __init__(self):
        self.requeued = []

    async def requeue_pod(self, key, _uid, _mark):
        self.requeued.append((key[1], asyncio.get_running_loop().time()))


@pytest.fixture
async def writer(runtime_of, cache):
    """The writer of a loop that runs, and that has looked once already."""
    writer = Writer()
    task = asyncio.create_task(PodRequeuer(runtime_of(None), cache=cache, writer=writer).run())
    await asyncio.sleep(BATCH_PAUSE)
    yield writer
    task.cancel()


@pytest.mark.usefixtures("writer")
async def test_the_loop_sleeps_while_no_pod_may_fit(cache, monkeypatch):
    looks = []
    monkeypatch.setattr(type(cache.unschedulable), "next_batch", lambda *_, **__: looks.append(1) or [])
    cache.unschedulable.add(pod("waiting", node=""))
    await asyncio.sleep(3600)
    assert looks == []


async def test_a_pod_is_requeued_as_soon_as_it_may_fit(writer, cache):
    cache.unschedulable.add(pod("freed", node=""))
    await asyncio.sleep(100)
    began = asyncio.get_running_loop().time()
    cache.unschedulable.move_all_to_due()
    await asyncio.sleep(1)
    assert [(name, at - began) for name, at in writer.requeued] == [("freed", 0)]


async def test_a_pod_is_requeued_at_its_time(writer, cache, clock):
    began = clock.now()
    for name, seconds in (("first", 20), ("second", 50)):
        cache.unschedulable.add(pod(name, node=""), retry_at=began + seconds)
    await asyncio.sleep(100)
    assert writer.requeued == [("first", began + 20), ("second", began + 50)]


async def test_batches_are_a_pause_apart(writer, cache):
    for number in range(BATCH_SIZE + 1):
        cache.unschedulable.add(pod(f"p{number}", node=""))
    cache.unschedulable.move_all_to_due()
    await asyncio.sleep(10)
    times = sorted({at for _, at in writer.requeued})
    assert len(writer.requeued) == BATCH_SIZE + 1
    assert [later - earlier for earlier, later in itertools.pairwise(times)] == [BATCH_PAUSE]
