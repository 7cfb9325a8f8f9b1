"""Implements the ``dra-reserve descheduler`` command."""

import asyncio
import ssl
from pathlib import Path

import click

from controller.migration.application import Descheduler
from dra.api.descheduler_configuration import DeschedulerConfiguration
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
def descheduler(*, cluster_flags: ClusterFlags, config: Path | None) -> None:
    """Run the descheduler, which migrates pods: capacity is reserved elsewhere before a pod is evicted."""
    configuration = server_process.load_configuration(config, DeschedulerConfiguration)
    logs.configure(configuration.logging)
    raise_recursion_limit()
    try:
        transport = HttpTransport(cluster_flags.find_credentials())
        asyncio.run(run_until_stopped(Descheduler(configuration, transport).run()))
    except (ApiError, OSError, ssl.SSLError, ValueError) as error:
        raise click.ClickException(str(error)) from error
