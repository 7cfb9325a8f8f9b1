"""Implements the ``dra-reserve controller`` command."""

import asyncio
from pathlib import Path

import click

from controller.application import Application
from dra.api.configuration import ControllerConfiguration, ControllerMode, MalformedConfigurationError
from dra.cli import server_process
from dra.cli.cluster_flags import ClusterFlags, cluster_options
from dra.cli.server_process import run_until_stopped
from dra.kube.codec import raise_recursion_limit
from dra.kube.errors import ApiError
from dra.kube.http import HttpTransport
from dra.telemetry import logs


@click.command()
@cluster_options
@click.option(
    "--config", type=click.Path(exists=True, dir_okay=False, path_type=Path), help=("Path to the configuration file.")
)
@click.option(
    "--mode",
    type=click.Choice([mode.value for mode in ControllerMode]),
    help="replace: the stock resourceclaim-controller is disabled; alongside: it runs as well.",
)
def controller(*, cluster_flags: ClusterFlags, config: Path | None, mode: str | None) -> None:
    """Run the ResourceClaim controller."""
    configuration = read_configuration(config, mode=mode)
    logs.configure(configuration.logging)
    raise_recursion_limit()
    try:
        transport = HttpTransport(cluster_flags.find_credentials())
        application = Application(configuration, transport)
        asyncio.run(run_until_stopped(application.run()))
    except (ApiError, MalformedConfigurationError, OSError) as error:  # OSError: a port of the controller is in use
        raise click.ClickException(str(error)) from error


def read_configuration(path: Path | None, *, mode: str | None) -> ControllerConfiguration:
    """Return the configuration of a file, with the mode of the command line; raise click.ClickException."""
    return server_process.load_configuration(path, ControllerConfiguration, **({"mode": mode} if mode else {}))
