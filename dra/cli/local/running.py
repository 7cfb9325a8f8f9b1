"""Runs a plane in this process until it is told to stop."""

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import msgspec

from dra.cli.local import plugins, reservations
from dra.cli.local.controllers import ControllerProcess
from dra.cli.local.folder import SNAPSHOT, Folder, Record
from dra.kube.clock import SYSTEM, rfc3339
from localplane.https_server import serve_https
from localplane.plane.components import emulated_nodes
from localplane.plane.local_plane import LocalPlane
from localplane.plane.options import PlaneOptions

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Company:
    """What runs beside a plane."""

    controller: bool = True
    reservations: bool = True
    plugins: Sequence[str] | None = None
    """The drivers of ours that each node has a plugin for, maybe none; None: nobody looks for plugins at all."""


async def run(
    folder: Folder, options: PlaneOptions, company: Company, *, port: int, up: Callable[[Record, int | None], None]
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
        await _run(folder, options, company, port=port, up=up)


async def _run(
    folder: Folder, options: PlaneOptions, company: Company, *, port: int, up: Callable[[Record, int | None], None]
) -> None:
    devices = options.devices
    if company.plugins is not None:
        options = replace(options, plugins=folder.make_runtime())
        if company.plugins:  # devices are theirs
            options = replace(options, devices=0)
    plane = LocalPlane(options)
    restored = _restore(plane, folder)
    extender = reservations.add(plane) if company.reservations else None
    async with serve_https(plane.handle, folder=folder.path, name="dra-reserve-local", port=port) as endpoint:
        telling = _Telling(
            folder,
            Record(
                pid=os.getpid(),
                url=endpoint.url,
                api=options.api.value,
                kubernetes=options.release.value,
                nodes=options.nodes,
                devices=devices,
                started=rfc3339(SYSTEM.wall()),
                controller=company.controller,
                runtime=str(options.plugins) if options.plugins is not None else None,
            ),
            plane.beside,
        )
        if company.controller:
            process = ControllerProcess(folder, reservations=company.reservations, started=telling.controller)
            plane.add("controller", process.run)
        if options.plugins is not None:
            names = [spec.name for spec in emulated_nodes(options)]
            for node, child in plugins.children(
                folder,
                company.plugins or (),
                runtime=options.plugins,
                nodes=names,
                devices=devices,
                started=telling.plugin,
            ):
                plane.add(f"plugin-{node}", child.run)
        running = asyncio.ensure_future(plane.run())
        ready = asyncio.ensure_future(_ready(plane, extender))
        try:
            await asyncio.wait((ready, running), return_when=asyncio.FIRST_COMPLETED)
            if ready.done():
                telling.ready()
                up(telling.record, restored)
            await running
        except BaseExceptionGroup as failures:
            raise _innermost(failures) from failures
        finally:
            for task in (ready, running):
                task.cancel()
            await asyncio.gather(ready, running, return_exceptions=True)


async def _ready(plane: LocalPlane, extender: reservations.PlaneExtender | None) -> None:
    await plane.ready()
    if extender is not None:
        await extender.wait()


class _Telling:
    """What the plane tells about itself in its folder, as that changes."""

    def __init__(self, folder: Folder, record: Record, beside: dict[str, int]) -> None:
        """``beside`` is where the plane itself finds the controller's pid, for whoever asks it."""
        self._folder = folder
        self._beside = beside
        self.record = record
        folder.write(record)

    def controller(self, pid: int | None) -> None:
        """A controller runs, or none."""
        self._beside.pop("controller", None)
        if pid is not None:
            self._beside["controller"] = pid
        self._tell(msgspec.structs.replace(self.record, controller_pid=pid))

    def plugin(self, node: str, pid: int | None) -> None:
        """A plugin of a node runs, or none."""
        self._tell(msgspec.structs.replace(self.record, plugins={**self.record.plugins, node: pid}))

    def ready(self) -> None:
        """The nodes are ready."""
        self._tell(msgspec.structs.replace(self.record, ready=True))

    def _tell(self, record: Record) -> None:
        self.record = record
        self._folder.write(record)


def _restore(plane: LocalPlane, folder: Folder) -> int | None:
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
