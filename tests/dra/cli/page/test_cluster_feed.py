"""A feed applies changes and answers questions in one worker thread."""

import asyncio
import threading
from functools import partial

from dra.cli.page.cluster_feed import ClusterFeed
from dra.cli.page.patch_stream import PatchStream


async def test_a_question_of_a_client_that_has_left_is_not_answered():
    feed, begun, go_on = ClusterFeed(PatchStream("a")), threading.Event(), threading.Event()
    asked = []

    def work(_):
        begun.set()
        go_on.wait(30)

    busy = asyncio.create_task(feed.ask(work))
    await asyncio.to_thread(begun.wait, 30)
    left = [asyncio.create_task(feed.ask(asked.append)) for _ in range(100)]
    await asyncio.sleep(0)
    for each in left:
        each.cancel()
    await asyncio.wait(left)
    go_on.set()
    await busy
    await feed.ask(lambda _: None)
    feed.close()
    assert asked == []


async def test_a_step_that_outlasts_a_restart_computes_no_row_of_the_new_tables():
    feed, begun, go_on = ClusterFeed(PatchStream("a")), threading.Event(), threading.Event()
    feed.queue(begun.set)
    feed.queue(partial(go_on.wait, 30))
    step = asyncio.create_task(feed.step())
    await asyncio.to_thread(begun.wait, 30)
    step.cancel()
    feed.restart()
    go_on.set()
    rows = await feed.ask(lambda tables: [key for view in tables.views.values() for key in view.by_key])
    feed.close()
    assert rows == []
