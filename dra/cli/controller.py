"""Implements the ``dra-reserve controller`` command; the controller is imported on use, so help is quick."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dra.cli.cluster_flags import ClusterFlags, cluster_options
from dra.cli.kubectl.option_values import CONTROLLER_MODES

if TYPE_CHECKING:
    from dra.api.configuration import ControllerConfiguration


@click.command()
@cluster_options
@click.option(
    "--config", type=click.Path(exists=True, dir_okay=False, path_type=Path), help=("Path to the configuration file.")
)
@click.option(
    "--mode",
    type=click.Choice(CONTROLLER_MODES),
    help="replace: the stock resourceclaim-controller is disabled; alongside: it runs as well.",
)
def controller(*, cluster_flags: ClusterFlags, config: Path | None, mode: str | None) -> None:
    """Run the ResourceClaim controller."""
    import asyncio  # noqa: PLC0415 - see the head of the module

    from controller.application import Application  # noqa: PLC0415 - as above
    from dra.api.configuration import MalformedConfigurationError  # noqa: PLC0415 - as above
    from dra.cli.server_process import run_until_stopped  # noqa: PLC0415 - as above
    from dra.kube.codec import raise_recursion_limit  # noqa: PLC0415 - as above
    from dra.kube.errors import ApiError  # noqa: PLC0415 - as above
    from dra.kube.http import HttpTransport  # noqa: PLC0415 - as above
    from dra.telemetry import logs  # noqa: PLC0415 - as above

    configuration = read_configuration(config, mode=mode)
    logs.configure(configuration.logging)
    raise_recursion_limit()
    try:
        transport = HttpTransport(cluster_flags.find_credentials())
        lease_transport = HttpTransport(cluster_flags.find_credentials())
        application = Application(configuration, transport, lease_transport=lease_transport)
        asyncio.run(run_until_stopped(application.run(), first_lists=application.wait_for_sync()))
    except (ApiError, MalformedConfigurationError, OSError) as error:  # OSError: a port of the controller is in use
        raise click.ClickException(str(error)) from error


def read_configuration(path: Path | None, *, mode: str | None) -> ControllerConfiguration:
    """Return the configuration of a file, with the mode of the command line; raise click.ClickException."""
    from dra.api.configuration import ControllerConfiguration  # noqa: PLC0415 - as above
    from dra.cli import server_process  # noqa: PLC0415 - as above

    return server_process.load_configuration(path, ControllerConfiguration, **({"mode": mode} if mode else {}))
