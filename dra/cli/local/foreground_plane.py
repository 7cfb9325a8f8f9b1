"""Runs a plane in this process until a signal stops it."""

import asyncio
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

import msgspec

from dra.api.descheduler.configuration import DeschedulerProcessConfiguration
from dra.cli.cluster_flags import ClusterFlags
from dra.cli.kubectl import ui
from dra.cli.kubectl.snapshots.snapshot_source import SnapshotSource
from dra.cli.local import plane_classes, plane_colocation, plane_descheduler, plane_extender, plugin_processes
from dra.cli.local.controller_process import DEFAULT_MODE, ControllerProcess
from dra.cli.local.plane_folder import KUBECONFIG_FILE, SNAPSHOT_FILE, PlaneFolder, PlaneRecord
from dra.cli.server_process import TERMINAL_STOP_SIGNALS, cancel_on_signals, innermost_error
from dra.kube.clock import SYSTEM, rfc3339
from localplane.https_server import serve_https
from localplane.plane.components import emulated_nodes
from localplane.plane.local_plane import LocalPlane
from localplane.plane.options import PlaneOptions
from localplane.plane.process_settings import relax_garbage_collector


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaneCompanions:
    """The processes that run beside a plane."""

    controller: bool = True
    mode: str = DEFAULT_MODE
    """Mode of the controller."""

    reservations: bool = True
    colocation: bool = True
    descheduler: DeschedulerProcessConfiguration = plane_descheduler.DESCHEDULER_CONFIGURATION
    """The configuration of the descheduler, which runs with controller and Reservations."""

    on_page: Callable[[str], object] | None = None
    """Called with the link to the page of the plane; None: no page is served."""

    plugins: Sequence[str] | None = None
    """Drivers that each node gets a plugin for, possibly none; None: the nodes do not look for plugins at all."""


async def run_plane(
    folder: PlaneFolder,
    options: PlaneOptions,
    companions: PlaneCompanions,
    *,
    port: int,
    on_ready: Callable[[PlaneRecord, int | None], None],
) -> None:
    """Run a plane until a signal arrives; the caller holds the folder.

    Calls ``on_ready`` once everything runs, with the number of objects restored from the saved state. Raises
    ComponentDiedError, OSError for a port in use, MalformedSnapshotError.
    """
    relax_garbage_collector()
    task = asyncio.current_task()
    assert task is not None  # noqa: S101 - asyncio.run
    cancel_on_signals(task, TERMINAL_STOP_SIGNALS)
    with suppress(asyncio.CancelledError):
        await _run_until_cancelled(folder, options, companions, port=port, on_ready=on_ready)


async def _run_until_cancelled(
    folder: PlaneFolder,
    options: PlaneOptions,
    companions: PlaneCompanions,
    *,
    port: int,
    on_ready: Callable[[PlaneRecord, int | None], None],
) -> None:
    devices = options.devices
    if companions.plugins is not None:
        options = replace(options, plugins=folder.create_runtime())
        if companions.plugins:  # the plugins publish the devices
            options = replace(options, devices=0)
    plane = LocalPlane(options)
    restored = _restore_snapshot(plane, folder)
    classes = plane_classes.class_names(devices=devices, plugins=companions.plugins) if restored is None else ()
    extender = plane_extender.add_extender(plane) if companions.reservations else None
    if companions.reservations and companions.controller:
        plane_descheduler.add_descheduler(plane, companions.descheduler)
    colocation = plane_colocation.add_colocation(plane) if companions.colocation else None
    async with serve_https(plane.handle, folder=folder.path, name="dra-reserve-local", port=port) as endpoint:
        record_writer = _PlaneRecordWriter(
            folder,
            PlaneRecord(
                pid=os.getpid(),
                url=endpoint.url,
                api=options.api.value,
                kubernetes=options.release.value,
                nodes=options.nodes,
                devices=devices,
                classes=classes,
                started=rfc3339(SYSTEM.wall()),
                controller=companions.controller,
                mode=companions.mode,
                runtime=str(options.plugins) if options.plugins is not None else None,
            ),
            plane.sibling_processes,
        )
        if companions.controller:
            process = ControllerProcess(
                folder,
                mode=companions.mode,
                reservations=companions.reservations,
                colocation=companions.colocation,
                on_pid_change=record_writer.set_controller_pid,
            )
            plane.add_component("controller", process.run)
        _add_page(plane, folder, companions.on_page)
        if options.plugins is not None:
            names = [spec.name for spec in emulated_nodes(options)]
            for node, child in plugin_processes.create_plugins(
                folder,
                companions.plugins or (),
                runtime=options.plugins,
                nodes=names,
                devices=devices,
                on_pid_change=record_writer.set_plugin_pid,
            ):
                plane.add_component(f"plugin-{node}", child.run)
        running = asyncio.ensure_future(plane.run())
        ready = asyncio.ensure_future(_wait_ready(plane, extender, colocation, classes))
        try:
            await asyncio.wait((ready, running), return_when=asyncio.FIRST_COMPLETED)
            if ready.done():
                record_writer.set_ready()
                on_ready(record_writer.record, restored)
            await running
        except BaseExceptionGroup as failures:
            raise innermost_error(failures) from failures
        finally:
            for task in (ready, running):
                task.cancel()
            await asyncio.gather(ready, running, return_exceptions=True)


def _add_page(plane: LocalPlane, folder: PlaneFolder, on_page: Callable[[str], object] | None) -> None:
    if on_page is not None:
        plane.add_component("page", partial(_serve_page, folder, on_page))


async def _serve_page(folder: PlaneFolder, on_page: Callable[[str], object]) -> None:
    """Serve the page of the plane, with the rights of the plane's kubeconfig."""
    flags = ClusterFlags(kubeconfig=str(folder / KUBECONFIG_FILE))
    await ui.serve(SnapshotSource(cluster_flags=flags, all_namespaces=True), port=0, on_url=on_page)


async def _wait_ready(
    plane: LocalPlane,
    extender: plane_extender.PlaneExtender | None,
    colocation: plane_colocation.PlaneColocation | None,
    classes: Sequence[str],
) -> None:
    await plane_classes.create_classes(plane.client("classes"), classes)
    await plane.wait_ready()
    for added in (extender, colocation):
        if added is not None:
            await added.wait_ready()


class _PlaneRecordWriter:
    """Writes the plane's record into its folder, again after each change."""

    def __init__(self, folder: PlaneFolder, record: PlaneRecord, processes: dict[str, int]) -> None:
        """Write the first record; ``processes`` is the plane's own map of processes, which its API serves."""
        self._folder = folder
        self._processes = processes
        self.record = record
        folder.write(record)

    def set_controller_pid(self, pid: int | None) -> None:
        """Record the controller's pid; None if no controller runs."""
        self._processes.pop("controller", None)
        if pid is not None:
            self._processes["controller"] = pid
        self._write(msgspec.structs.replace(self.record, controller_pid=pid))

    def set_plugin_pid(self, node: str, pid: int | None) -> None:
        """Record the pid of a node's plugin; None if it does not run."""
        self._write(msgspec.structs.replace(self.record, plugins={**self.record.plugins, node: pid}))

    def set_ready(self) -> None:
        """Record that the nodes are ready."""
        self._write(msgspec.structs.replace(self.record, ready=True))

    def _write(self, record: PlaneRecord) -> None:
        self.record = record
        self._folder.write(record)


def _restore_snapshot(plane: LocalPlane, folder: PlaneFolder) -> int | None:
    try:
        raw = (folder / SNAPSHOT_FILE).read_bytes()
    except FileNotFoundError:
        return None
    return plane.restore(raw).objects
