"""Implements the ``dra-reserve scheduler-extender`` command; the extender is imported on use, so help is quick."""

from pathlib import Path

import click

from dra.cli.cluster_flags import ClusterFlags, cluster_options


@click.command()
@cluster_options
@click.option(
    "--config", type=click.Path(exists=True, dir_okay=False, path_type=Path), help=("Path to the configuration file.")
)
def scheduler_extender(*, cluster_flags: ClusterFlags, config: Path | None) -> None:
    """Run the scheduler extender for Reservations, which filters nodes and binds pods."""
    import asyncio  # noqa: PLC0415 - see the head of the module
    import ssl  # noqa: PLC0415 - as above

    from controller.extender.application import Extender  # noqa: PLC0415 - as above
    from dra.api.extender_configuration import ExtenderConfiguration  # noqa: PLC0415 - as above
    from dra.cli import server_process  # noqa: PLC0415 - as above
    from dra.kube.codec import raise_recursion_limit  # noqa: PLC0415 - as above
    from dra.kube.errors import ApiError  # noqa: PLC0415 - as above
    from dra.kube.http import HttpTransport  # noqa: PLC0415 - as above
    from dra.telemetry import logs  # noqa: PLC0415 - as above

    configuration = server_process.load_configuration(config, ExtenderConfiguration)
    logs.configure(configuration.logging)
    raise_recursion_limit()
    try:
        transport = HttpTransport(cluster_flags.find_credentials())
        lease_transport = HttpTransport(cluster_flags.find_credentials())
        application = Extender(configuration, transport, lease_transport=lease_transport)
        asyncio.run(server_process.run_until_stopped(application.run(), first_lists=application.wait_for_sync()))
    except (ApiError, OSError, ssl.SSLError, ValueError) as error:
        raise click.ClickException(str(error)) from error
