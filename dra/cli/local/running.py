"""Runs a plane in this process until it is told to stop."""

import asyncio
import logging
import os
import signal
from collections.abc import Callable
from contextlib import suppress

import msgspec

from dra.cli.local.controllers import ControllerProcess
from dra.cli.local.folder import SNAPSHOT, Folder, Record
from dra.kube.clock import SYSTEM, second_time
from dra.local.http import serving
from dra.local.plane.options import Options
from dra.local.plane.plane import Plane

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_log = logging.getLogger(__name__)


async def run(
    folder: Folder, options: Options, *, controller: bool, port: int, up: Callable[[Record, int | None], None]
) -> None:
    """Run a plane until a signal comes; the folder is held.

    Calls ``up`` once everything runs, with the number of objects of the saved state that it goes on with. Raises
    ComponentDiedError, OSError for a port that is taken, MalformedSnapshotError.
    """
    task = asyncio.current_task()
    assert task is not None  # noqa: S101 - asyncio.run
    for number in SIGNALS:
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    with suppress(asyncio.CancelledError):
        await _run(folder, options, controller=controller, port=port, up=up)


async def _run(
    folder: Folder, options: Options, *, controller: bool, port: int, up: Callable[[Record, int | None], None]
) -> None:
    plane = Plane(options)
    restored = _restore(plane, folder)
    async with serving(plane.handle, folder=folder.path, name="dra-reserve-local", port=port) as endpoint:
        record = Record(
            pid=os.getpid(),
            url=endpoint.url,
            api=options.api.value,
            nodes=options.nodes,
            devices=options.devices,
            started=second_time(SYSTEM.wall()),
            controller=controller,
        )

        def tell(news: Record) -> None:
            nonlocal record
            record = news
            folder.write(record)

        def started(pid: int | None) -> None:
            tell(msgspec.structs.replace(record, controller_pid=pid))

        if controller:
            plane.add("controller", ControllerProcess(folder, started=started).run)
        tell(record)
        running = asyncio.ensure_future(plane.run())
        ready = asyncio.ensure_future(plane.ready())
        try:
            await asyncio.wait((ready, running), return_when=asyncio.FIRST_COMPLETED)
            if ready.done():
                tell(msgspec.structs.replace(record, ready=True))
                up(record, restored)
            await running
        except BaseExceptionGroup as failures:
            raise _innermost(failures) from failures
        finally:
            for task in (ready, running):
                task.cancel()
            await asyncio.gather(ready, running, return_exceptions=True)


def _restore(plane: Plane, folder: Folder) -> int | None:
    try:
        raw = (folder / SNAPSHOT).read_bytes()
    except FileNotFoundError:
        return None
    return plane.restore(raw).objects


def _innermost(failure: BaseException) -> BaseException:
    """Return the first failure of all: task groups nest."""
    while isinstance(failure, BaseExceptionGroup):
        failure = failure.exceptions[0]
    return failure
