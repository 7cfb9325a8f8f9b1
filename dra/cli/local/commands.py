"""Implements ``dra-reserve local up | down | status | env``.

Exit codes: 0 done, 1 not (the reason is on standard error), 2 a wrong command line; for `status` and `env`, 1 means
that no plane runs.

Only the process that becomes the plane imports it: the import takes most of a second, which the other commands save.
"""

import asyncio
import logging
import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from dra.cli.installed_commands import EXECUTABLES_FOLDER, dra_reserve_command, path_export, require_node_extra
from dra.cli.kubectl.option_values import CONTROLLER_MODES
from dra.cli.local import detached_plane, plugin_processes
from dra.cli.local.controller_process import DEFAULT_MODE, MODE_NOTES
from dra.cli.local.plane_folder import (
    DEFAULT_FOLDER,
    KUBECONFIG_FILE,
    LOG_FILE,
    SNAPSHOT_FILE,
    PlaneFolder,
    PlaneFolderInUseError,
    PlaneRecord,
)
from dra.engine.messages.texts import singularize
from dra.kube.errors import ApiError
from dra.model.releases import NEWEST, Release
from localplane.plane.supervisor import ComponentDiedError
from localplane.schemas.builtin_schemas import Dialect
from localplane.snapshots import MalformedSnapshotError

if TYPE_CHECKING:
    from dra.api.descheduler.configuration import DeschedulerProcessConfiguration

REMOVE_TO_START_ANEW: Final = "Remove the file to start a new plane."


@click.group()
def local() -> None:
    """Run a small Kubernetes on this machine: API server, scheduler, nodes and workloads in one process."""


_folder_option = click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=DEFAULT_FOLDER,
    show_default=True,
    help="Folder with the state of the plane.",
)


def _parse_plugins(_context: click.Context, _parameter: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    """Return the drivers to start plugins for; `OWN_PLUGINS` alone gives an empty tuple."""
    if value is None:
        return None
    names = tuple(dict.fromkeys(name.strip() for name in value.split(",")))
    unknown = [
        name for name in names if name not in (*plugin_processes.SIMULATED_DRIVERS, plugin_processes.OWN_PLUGINS)
    ]
    if unknown:
        there_are = ", ".join((*plugin_processes.SIMULATED_DRIVERS, plugin_processes.OWN_PLUGINS))
        raise click.BadParameter(f"{', '.join(map(repr, unknown))}: there are {there_are}")
    return tuple(name for name in names if name != plugin_processes.OWN_PLUGINS)


@local.command(short_help="Start a plane; Ctrl-C stops the plane.")
@_folder_option
@click.option("--nodes", type=click.IntRange(0, 1000), default=3, show_default=True, help="Number of nodes.")
@click.option(
    "--devices", type=click.IntRange(0, 1000), default=8, show_default=True, help="Number of devices of each node."
)
@click.option(
    "--api",
    type=click.Choice([dialect.value for dialect in Dialect]),
    default=Dialect.STOCK.value,
    show_default=True,
    help="stock: the API of Kubernetes; kep: with spec.reservedFor of KEP-5194.",
)
@click.option(
    "--kubernetes",
    type=click.Choice([release.value for release in Release]),
    default=NEWEST.value,
    show_default=True,
    help="Kubernetes version of the API server, the scheduler and the kubelets.",
)
@click.option(
    "--controller/--no-controller", default=True, show_default=True, help="Run the controller of dra-reserve, too."
)
@click.option(
    "--mode",
    type=click.Choice(CONTROLLER_MODES),
    default=DEFAULT_MODE,
    show_default=True,
    help="Mode of the controller; alongside: the stock claim controller runs as well, as on a managed cluster.",
)
@click.option(
    "--reservations/--no-reservations",
    default=True,
    show_default=True,
    help="Hold what Reservations ask for, and migrate pods: the scheduler calls the scheduler extender.",
)
@click.option(
    "--colocation/--no-colocation",
    default=True,
    show_default=True,
    help=(
        "Let nodes report what they use, and offer to batch pods what others do not use, once the ConfigMap "
        "slo-controller-config enables it."
    ),
)
@click.option(
    "--descheduler",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Configuration of the descheduler, with the profiles that it runs. Default: only people create migrations.",
)
@click.option(
    "--processes", is_flag=True, help="Run the commands of containers as processes on this machine, as your user."
)
@click.option(
    "--plugins",
    "drivers",
    callback=_parse_plugins,
    metavar="gpu|own",
    help="Prepare devices by DRA plugins over sockets: gpu starts a plugin on each node, own waits for yours.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Port of the API server; 0, the default, selects a free port.",
)
@click.option("--detach", is_flag=True, help="Return when the plane runs.")
@click.option("--ui", is_flag=True, help="Serve a live page about the plane and print its link; not with --detach.")
def up(  # noqa: PLR0913 - one for each option
    folder: Path,
    nodes: int,
    devices: int,
    api: str,
    *,
    kubernetes: str,
    controller: bool,
    mode: str,
    reservations: bool,
    colocation: bool,
    descheduler: Path | None,
    processes: bool,
    drivers: tuple[str, ...] | None,
    port: int,
    detach: bool,
    ui: bool,
) -> None:
    """Start a plane in the foreground. Ctrl-C stops the plane and removes its files."""
    if drivers and nodes > plugin_processes.PLUGIN_NODES_MAX:
        raise click.UsageError(
            f"--plugins={','.join(drivers)} starts a process for each node: "
            f"{plugin_processes.PLUGIN_NODES_MAX} nodes at most"
        )
    if drivers is not None:
        require_node_extra("dra-reserve local up --plugins")
    if mode == "alongside" and api == Dialect.KEP.value:
        raise click.UsageError(
            "--mode alongside needs --api stock: the stock claim controller knows no field of the KEP"
        )
    deschedules = _read_descheduler_file(descheduler, is_run=controller and reservations)
    plane_folder = PlaneFolder(folder)
    try:
        if detach:
            arguments = [
                f"--folder={plane_folder.path}",
                f"--nodes={nodes}",
                f"--devices={devices}",
                f"--api={api}",
                f"--kubernetes={kubernetes}",
                f"--port={port}",
                f"--mode={mode}",
                "--controller" if controller else "--no-controller",
                "--reservations" if reservations else "--no-reservations",
                "--colocation" if colocation else "--no-colocation",
                *([f"--descheduler={descheduler.resolve()}"] if descheduler is not None else []),
                *(["--processes"] if processes else []),
                *([f"--plugins={','.join((plugin_processes.OWN_PLUGINS, *drivers))}"] if drivers is not None else []),
            ]
            saved = (plane_folder / SNAPSHOT_FILE).exists()
            record = detached_plane.start_detached(plane_folder, arguments)
            with ignored_broken_pipe():
                if saved:
                    click.echo(f"Restored the objects from {plane_folder / SNAPSHOT_FILE}. {REMOVE_TO_START_ANEW}")
                _print_started(record, plane_folder, detached=True)
            return
        from dra.cli.local import foreground_plane  # noqa: PLC0415 - see above
        from localplane.plane.options import PlaneOptions  # noqa: PLC0415

        logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.WARNING)
        options = PlaneOptions(
            api=Dialect(api),
            release=Release(kubernetes),
            nodes=nodes,
            devices=devices,
            claim_controller=mode == "alongside",
            processes=processes,
        )
        companions = foreground_plane.PlaneCompanions(
            controller=controller,
            mode=mode,
            reservations=reservations,
            colocation=colocation,
            descheduler=deschedules,
            plugins=drivers,
            on_page=_print_page if ui else None,
        )
        with plane_folder.lock():
            asyncio.run(
                foreground_plane.run_plane(
                    plane_folder,
                    options,
                    companions,
                    port=port,
                    on_ready=lambda r, n: _print_resumed(r, plane_folder, restored=n),
                )
            )
    except PlaneFolderInUseError as error:
        raise click.ClickException(f"{error}. Show the plane: {_command_line('status', folder)}") from error
    except MalformedSnapshotError as error:
        message = (
            f"snapshot {plane_folder / SNAPSHOT_FILE}: {error}; no plane was started. Move the file away to start a "
            "new plane"
        )
        raise click.ClickException(message) from error
    except (ComponentDiedError, detached_plane.PlaneStartError) as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"folder {plane_folder.path}: {error}; no plane was started") from error


def _read_descheduler_file(path: Path | None, *, is_run: bool) -> "DeschedulerProcessConfiguration":
    """Return the configuration of the plane's descheduler; ``is_run``: whether the plane has one."""
    from dra.cli import descheduler_file  # noqa: PLC0415 - see above

    if path is not None and not is_run:
        raise click.UsageError("--descheduler needs controller and Reservations, which hold the place of each pod")
    return descheduler_file.load(path).configuration


@local.command()
@_folder_option
@click.option(
    "--save",
    is_flag=True,
    help="Save the objects in the folder; the next plane of the folder starts with these objects.",
)
def down(folder: Path, *, save: bool) -> None:
    """Stop the plane of the folder and remove its files."""
    plane_folder = PlaneFolder(folder)
    try:
        record = detached_plane.stop_plane(plane_folder, save=save)
    except (detached_plane.PlaneStopError, ApiError, OSError) as error:
        raise click.ClickException(f"folder {plane_folder.path}: {error}") from error
    if record is None:
        click.echo(f"No plane runs in {plane_folder.path}.")
        return
    click.echo(f"The plane in {plane_folder.path} (pid {record.pid}) was stopped.")
    if save:
        click.echo(
            f"The objects are saved in {plane_folder / SNAPSHOT_FILE}. Start with the objects: "
            f"{_command_line('up', folder)}"
        )


def _no_plane(folder: Path, command: str) -> click.ClickException:
    """Return the error for a folder without a plane, with the next command; KUBECONFIG may name another folder."""
    path = PlaneFolder(folder).path
    other = Path(os.environ.get("KUBECONFIG", path / KUBECONFIG_FILE)).parent
    if other != path and PlaneFolder(other).is_in_use:
        return click.ClickException(
            f"no plane runs in {path}, but KUBECONFIG names the plane in {other}: {_command_line(command, other)}"
        )
    return click.ClickException(f"no plane runs in {path}. Start one: {_command_line('up', folder)}")


@local.command(short_help="Show the plane of the folder and how to connect.")
@_folder_option
def status(folder: Path) -> None:
    """Show the plane of the folder, its nodes and pods, and how to connect."""
    from dra.cli.local.status_report import format_status  # noqa: PLC0415 - see above

    plane_folder = PlaneFolder(folder)
    record = plane_folder.record if plane_folder.is_in_use else None
    if record is None:
        raise _no_plane(folder, "status")
    try:
        click.echo(asyncio.run(format_status(plane_folder, record)))
    except ApiError as error:
        raise click.ClickException(
            f"folder {plane_folder.path}: the plane (pid {record.pid}) does not answer: {error}"
        ) from error
    click.echo(_how_to_reach(plane_folder))


@local.command(short_help="Print the commands that connect a shell to the plane of the folder.")
@_folder_option
@click.option(
    "--shell",
    type=click.Choice(["sh", "fish"]),
    default="fish" if Path(os.environ.get("SHELL", "")).name == "fish" else "sh",
    help="Syntax to print: sh for bash, zsh and other POSIX shells, or fish. Default: as $SHELL says.",
)
def env(folder: Path, shell: str) -> None:
    """Print the commands that connect a shell to the plane of the folder.

    Evaluate the output: eval "$(dra-reserve local env)", in fish dra-reserve local env | source. The commands set
    KUBECONFIG, and add the folder of kubectl-dra to PATH if it is not there. Without a plane, the command prints an
    error on stderr and nothing that a shell evaluates.
    """
    plane_folder = PlaneFolder(folder)
    if not plane_folder.is_in_use:
        raise _no_plane(folder, "env")
    kubeconfig = shlex.quote(str(plane_folder / KUBECONFIG_FILE))
    lines = [f"export KUBECONFIG={kubeconfig}", *path_export()]
    if shell == "fish":
        lines = [f"set -gx KUBECONFIG {kubeconfig}", *(f"fish_add_path {EXECUTABLES_FOLDER}" for _ in path_export())]
    click.echo("\n".join(lines))


def _print_resumed(record: PlaneRecord, plane_folder: PlaneFolder, *, restored: int | None) -> None:
    with ignored_broken_pipe():
        if restored is not None:
            click.echo(f"Restored {restored} objects from {plane_folder / SNAPSHOT_FILE}. {REMOVE_TO_START_ANEW}")
        _print_started(record, plane_folder, detached=False)


def _print_started(record: PlaneRecord, plane_folder: PlaneFolder, *, detached: bool) -> None:
    nodes = singularize(f"{record.nodes} nodes with {record.devices} devices each")
    shape = f"Kubernetes {record.kubernetes}, api {record.api}, {nodes}"
    who = f"with a controller in mode {record.mode}" if record.controller else "without a controller"
    click.echo(f"A plane runs at {record.url} ({shape}), {who}.")
    if record.controller:
        click.echo(MODE_NOTES.get(record.mode, ""))
    if record.classes:
        noun = "DeviceClass" if len(record.classes) == 1 else "DeviceClasses"
        click.echo(f"Claims request devices by {noun} {', '.join(record.classes)}.")
    if record.runtime is not None:
        click.echo(f"Plugins register in {record.runtime}/NODE/plugins_registry.")
    click.echo(_how_to_reach(plane_folder))
    if detached:
        click.echo(f"The log is {plane_folder / LOG_FILE}. Stop the plane: {_command_line('down', plane_folder.path)}")
    else:
        click.echo("Press Ctrl-C to stop the plane.")
    sys.stdout.flush()


def _print_page(url: str) -> None:
    with ignored_broken_pipe():
        click.echo(f"The page is at {url}")
        sys.stdout.flush()


@contextmanager
def ignored_broken_pipe() -> Iterator[None]:
    """Go on where nobody reads the output any longer, as after ``local up --detach | head -1``: the plane runs."""
    try:
        yield
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _how_to_reach(plane_folder: PlaneFolder) -> str:
    lines = (
        f"export KUBECONFIG={shlex.quote(str(plane_folder / KUBECONFIG_FILE))}",
        *path_export(),
        "kubectl dra get devices",
    )
    shown = "\n  ".join(("In another terminal:", *lines))
    return f'{shown}\nA shell in this folder connects with: eval "$({_command_line("env", plane_folder.path)})"'


def _command_line(verb: str, folder: Path) -> str:
    """Return the command for a verb and a folder."""
    there = folder.absolute() != DEFAULT_FOLDER.absolute()
    return f"{dra_reserve_command()} local {verb}" + (f" --folder {shlex.quote(str(folder))}" if there else "")
