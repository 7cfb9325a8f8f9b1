import asyncio
import os
import signal

import click
import pytest

from dra.cli.server_process import run_until_stopped
from dra.kube.leader_election import LeadershipLostError


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_who_is_asked_to_stop_stops_in_order(number):
    done = []

    async def work():
        os.kill(os.getpid(), number)
        try:
            await asyncio.sleep(60)
        finally:
            done.append("tidied up")

    await run_until_stopped(work())
    assert done == ["tidied up"]


async def test_a_lost_lease_ends_it_with_what_the_innermost_failure_says():
    async def work():
        inner = ExceptionGroup("tasks", [LeadershipLostError("the lease is gone")])
        raise ExceptionGroup("all", [inner])

    with pytest.raises(click.ClickException, match=r"^the lease is gone$"):
        await run_until_stopped(work())


async def test_any_other_failure_is_not_hidden():
    async def work():
        raise ExceptionGroup("all", [ZeroDivisionError("a defect")])

    with pytest.raises(ExceptionGroup, match="all"):
        await run_until_stopped(work())


async def test_the_collector_spares_the_first_lists_once_they_are_there(monkeypatch):
    frozen, listed = asyncio.Event(), asyncio.Event()
    monkeypatch.setattr("gc.freeze", frozen.set)

    async def work():
        await asyncio.sleep(0)
        assert not frozen.is_set()
        listed.set()
        await frozen.wait()

    async def lists():
        await listed.wait()

    await run_until_stopped(work(), first_lists=lists())


async def test_lists_that_never_come_do_not_keep_a_process_from_its_end():
    await run_until_stopped(asyncio.sleep(0), first_lists=asyncio.Event().wait())
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == {asyncio.current_task()}
