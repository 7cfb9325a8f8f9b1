"""Implements the ``dra-reserve page`` command."""

import asyncio
import ssl
from pathlib import Path

import click

from dra.api.page_configuration import PageConfiguration
from dra.cli import server_process
from dra.cli.cluster_flags import ClusterFlags, cluster_options
from dra.cli.page.application import PageApplication
from dra.cli.server_process import run_until_stopped
from dra.kube import credentials
from dra.kube.codec import raise_recursion_limit
from dra.kube.errors import ApiError
from dra.kube.http import HttpTransport
from dra.telemetry import logs


@click.command()
@cluster_options
@click.option(
    "--config", type=click.Path(exists=True, dir_okay=False, path_type=Path), help=("Path to the configuration file.")
)
def page(*, cluster_flags: ClusterFlags, config: Path | None) -> None:
    """Serve the page to the users of a cluster: each sees what the user's own rights allow, and changes nothing."""
    configuration = server_process.load_configuration(config, PageConfiguration)
    logs.configure(configuration.logging)
    raise_recursion_limit()
    try:
        asyncio.run(run_until_stopped(_serve(configuration, cluster_flags)))
    except (ApiError, OSError, ssl.SSLError, ValueError) as error:
        raise click.ClickException(str(error)) from error


async def _serve(configuration: PageConfiguration, cluster_flags: ClusterFlags) -> None:
    transport = HttpTransport(credentials.find(cluster_flags.kubeconfig, context=cluster_flags.context))
    await PageApplication(configuration, transport).run()
