"""Implements the ``dra-reserve scheduler-extender`` command."""

import asyncio
import ssl
from pathlib import Path

import click

from controller.extender.application import Extender
from dra.api.extender_configuration import ExtenderConfiguration
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
def scheduler_extender(*, cluster_flags: ClusterFlags, config: Path | None) -> None:
    """Run the scheduler extender for Reservations, which filters nodes and binds pods."""
    configuration = server_process.load_configuration(config, ExtenderConfiguration)
    logs.configure(configuration.logging)
    raise_recursion_limit()
    try:
        transport = HttpTransport(cluster_flags.find_credentials())
        asyncio.run(run_until_stopped(Extender(configuration, transport).run()))
    except (ApiError, OSError, ssl.SSLError, ValueError) as error:
        raise click.ClickException(str(error)) from error
