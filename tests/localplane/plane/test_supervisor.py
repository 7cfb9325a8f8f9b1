import asyncio

import pytest

from localplane.plane.supervisor import RESTART_DELAY, ComponentDiedError, Supervisor

VIRTUAL_TIME = True


class Part:
    """A component that notes its starts."""

    def __init__(self):
        self.starts = 0

    async def run(self):
        self.starts += 1
        await asyncio.Event().wait()


@pytest.fixture
async def kept():
    supervisor, part = Supervisor(), Part()
    keeping = asyncio.create_task(supervisor.supervise("part", part.run))
    await asyncio.sleep(0.01)
    yield supervisor, part, keeping
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)


async def test_a_crashed_component_is_started_anew(kept):
    supervisor, part, keeping = kept
    assert supervisor.running == ("part",)
    assert supervisor.crash("part")
    await asyncio.sleep(RESTART_DELAY / 2)
    assert (part.starts, supervisor.running) == (1, ())
    await asyncio.sleep(RESTART_DELAY)
    assert (part.starts, supervisor.running) == (2, ("part",))
    assert supervisor.crashes["part"] == 1
    assert not keeping.done()


async def test_only_what_runs_can_crash(kept):
    supervisor, _, _ = kept
    assert not supervisor.crash("another")
    assert supervisor.crash("part")
    assert not supervisor.crash("part")
    await asyncio.sleep(RESTART_DELAY / 2)
    assert not supervisor.crash("part")


async def test_what_a_component_does_while_it_crashes_is_not_its_death_but_is_told(caplog):
    supervisor, starts = Supervisor(), []

    async def clumsy():
        starts.append(1)
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("on the way out")

    keeping = asyncio.create_task(supervisor.supervise("clumsy", clumsy))
    await asyncio.sleep(0.01)
    supervisor.crash("clumsy")
    await asyncio.sleep(2 * RESTART_DELAY)
    assert len(starts) == 2
    assert "ValueError: on the way out" in caplog.text
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)


async def failing():
    async with asyncio.TaskGroup() as group:
        group.create_task(returning_after(1.0, ValueError("no such thing")))


async def returning_after(seconds, error=None):
    await asyncio.sleep(seconds)
    if error:
        raise error


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        pytest.param(failing, r"part failed \(ValueError: no such thing\)", id="fails"),
        pytest.param(lambda: returning_after(1.0), r"part failed \(it returned\)", id="returns"),
    ],
)
async def test_a_component_that_ends_by_itself_takes_the_plane_down(start, expected):
    with pytest.raises(ComponentDiedError, match=expected):
        await Supervisor().supervise("part", start)


async def test_the_log_has_the_traceback_of_what_a_component_has_died_of(caplog):
    with pytest.raises(ComponentDiedError, match="the log has the traceback"):
        await Supervisor().supervise("part", failing)
    assert "part failed" in caplog.text
    assert "in returning_after" in caplog.text


async def test_a_plane_that_stops_stops_its_components(kept):
    supervisor, _, keeping = kept
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    assert supervisor.running == ()
    assert [task.get_name() for task in asyncio.all_tasks() if task.get_name() == "part"] == []
