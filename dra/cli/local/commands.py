"""Implements ``dra-reserve local up | down | status``.

Exit codes: 0 done, 1 not (the reason is on standard error), 2 a wrong command line; for `status`, 1 means that no plane
runs.

Only the process that becomes the plane imports it: the import takes most of a second, which the other commands save.
"""

import asyncio
import logging
import shlex
import sys
from pathlib import Path

import click

from dra.cli.installed_commands import dra_reserve_command, path_export
from dra.cli.local import detached_plane, plugin_processes
from dra.cli.local.plane_folder import (
    DEFAULT_FOLDER,
    KUBECONFIG_FILE,
    LOG_FILE,
    SNAPSHOT_FILE,
    PlaneFolder,
    PlaneFolderInUseError,
    PlaneRecord,
)
from dra.kube.errors import ApiError
from localplane.plane.supervisor import ComponentDiedError
from localplane.schemas.builtin_schemas import Dialect
from localplane.schemas.releases import NEWEST, Release
from localplane.snapshots import MalformedSnapshotError


@click.group()
def local() -> None:
    """Run a small Kubernetes on this machine: API server, scheduler, nodes and workloads in one process."""


_folder_option = click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=DEFAULT_FOLDER,
    show_default=True,
    help="Where its state is.",
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


@local.command(short_help="Start a plane; Ctrl-C ends it.")
@_folder_option
@click.option("--nodes", type=click.IntRange(0, 1000), default=3, show_default=True, help="How many nodes it has.")
@click.option("--devices", type=click.IntRange(0, 1000), default=8, show_default=True, help="How many each node has.")
@click.option(
    "--api",
    type=click.Choice([each.value for each in Dialect]),
    default=Dialect.KEP.value,
    show_default=True,
    help="stock: as Kubernetes; kep: with spec.reservedFor of KEP-5194.",
)
@click.option(
    "--kubernetes",
    type=click.Choice([each.value for each in Release]),
    default=NEWEST.value,
    show_default=True,
    help="The version that API server, scheduler and kubelets behave as.",
)
@click.option("--controller/--no-controller", default=True, show_default=True, help="Run our controller beside it.")
@click.option(
    "--reservations/--no-reservations",
    default=True,
    show_default=True,
    help="Have it hold what Reservations ask for, as a kube-scheduler with our extender does.",
)
@click.option("--processes", is_flag=True, help="Execute the commands of containers, on this machine and as you.")
@click.option(
    "--plugins",
    "drivers",
    callback=_parse_plugins,
    metavar="gpu|own",
    help="Have devices prepared by DRA plugins over sockets: gpu starts ours on each node, own waits for yours.",
)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Where it listens; 0, the default, is any.")
@click.option("--detach", is_flag=True, help="Return as soon as it runs.")
def up(  # noqa: PLR0913 - one for each option
    folder: Path,
    nodes: int,
    devices: int,
    api: str,
    *,
    kubernetes: str,
    controller: bool,
    reservations: bool,
    processes: bool,
    drivers: tuple[str, ...] | None,
    port: int,
    detach: bool,
) -> None:
    """Start a plane, in the foreground: Ctrl-C ends it and removes what it has made."""
    if drivers and nodes > plugin_processes.PLUGIN_NODES_MAX:
        raise click.UsageError(
            f"--plugins={','.join(drivers)} starts a process for each node: "
            f"{plugin_processes.PLUGIN_NODES_MAX} nodes at most"
        )
    place = PlaneFolder(folder)
    try:
        if detach:
            shape = [
                f"--folder={place.path}",
                f"--nodes={nodes}",
                f"--devices={devices}",
                f"--api={api}",
                f"--kubernetes={kubernetes}",
                f"--port={port}",
                "--controller" if controller else "--no-controller",
                "--reservations" if reservations else "--no-reservations",
                *(["--processes"] if processes else []),
                *([f"--plugins={','.join((plugin_processes.OWN_PLUGINS, *drivers))}"] if drivers is not None else []),
            ]
            record = detached_plane.start_detached(place, shape)
            _print_started(record, place, detached=True)
            return
        from dra.cli.local import foreground_plane  # noqa: PLC0415 - see above
        from localplane.plane.options import PlaneOptions  # noqa: PLC0415

        logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.WARNING)
        options = PlaneOptions(
            api=Dialect(api), release=Release(kubernetes), nodes=nodes, devices=devices, processes=processes
        )
        company = foreground_plane.PlaneCompanions(controller=controller, reservations=reservations, plugins=drivers)
        with place.held():
            asyncio.run(
                foreground_plane.run_plane(
                    place, options, company, port=port, up=lambda r, n: _print_resumed(r, place, restored=n)
                )
            )
    except PlaneFolderInUseError as error:
        raise click.ClickException(f"{error}; it goes on. Look at it: {_command_line('status', folder)}") from error
    except MalformedSnapshotError as error:
        message = (
            f"{place / SNAPSHOT_FILE}: {error}; nothing was started, the file stays. Without it a new plane starts"
        )
        raise click.ClickException(message) from error
    except (ComponentDiedError, detached_plane.PlaneStartError) as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"folder {place.path}: {error}; nothing runs") from error


@local.command()
@_folder_option
@click.option("--save", is_flag=True, help="Keep the objects in the folder; the next plane there goes on with them.")
def down(folder: Path, *, save: bool) -> None:
    """Stop the plane of the folder and remove what it has made."""
    place = PlaneFolder(folder)
    try:
        record = detached_plane.stop_plane(place, save=save)
    except (detached_plane.PlaneStopError, ApiError, OSError) as error:
        raise click.ClickException(f"folder {place.path}: {error}") from error
    if record is None:
        click.echo(f"No plane runs in {place.path}.")
        return
    click.echo(f"The plane in {place.path} (pid {record.pid}) has ended.")
    if save:
        click.echo(f"Its objects are in {place / SNAPSHOT_FILE}; go on with them: {_command_line('up', folder)}")


@local.command(short_help="Show the plane of the folder, and how to reach it.")
@_folder_option
def status(folder: Path) -> None:
    """Show the plane of the folder: its nodes and pods, and how to reach it."""
    from dra.cli.local.status_report import format_status  # noqa: PLC0415 - see above

    place = PlaneFolder(folder)
    record = place.record if place.taken else None
    if record is None:
        raise click.ClickException(f"no plane runs in {place.path}. Start one: {_command_line('up', folder)}")
    try:
        click.echo(asyncio.run(format_status(place, record)))
    except ApiError as error:
        raise click.ClickException(
            f"folder {place.path}: pid {record.pid} runs and does not answer: {error}"
        ) from error
    click.echo(_how_to_reach(place))


def _print_resumed(record: PlaneRecord, place: PlaneFolder, *, restored: int | None) -> None:
    if restored is not None:
        click.echo(
            f"It goes on with the {restored} objects of {place / SNAPSHOT_FILE}; without that file it would be new."
        )
    _print_started(record, place, detached=False)


def _print_started(record: PlaneRecord, place: PlaneFolder, *, detached: bool) -> None:
    shape = f"Kubernetes {record.kubernetes}, api {record.api}, {record.nodes} nodes with {record.devices} devices each"
    who = "with our controller" if record.controller else "without our controller"
    click.echo(f"A plane runs at {record.url} ({shape}), {who}.")
    if record.runtime is not None:
        click.echo(f"Plugins of a node are found in {record.runtime}/NODE/plugins_registry.")
    click.echo(_how_to_reach(place))
    if detached:
        click.echo(f"Its log is {place / LOG_FILE}. Stop it: {_command_line('down', place.path)}")
    else:
        click.echo("Ctrl-C ends it.")
    sys.stdout.flush()


def _how_to_reach(place: PlaneFolder) -> str:
    lines = (
        f"export KUBECONFIG={shlex.quote(str(place / KUBECONFIG_FILE))}",
        *path_export(),
        "kubectl dra get devices",
    )
    return "\n  ".join(("In another terminal:", *lines))


def _command_line(verb: str, folder: Path) -> str:
    """Return the command for a verb and a folder."""
    there = folder.absolute() != DEFAULT_FOLDER.absolute()
    return f"{dra_reserve_command()} local {verb}" + (f" --folder {shlex.quote(str(folder))}" if there else "")
