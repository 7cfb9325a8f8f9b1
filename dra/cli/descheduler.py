"""Implements the ``dra-reserve descheduler`` command; the descheduler is imported on use, so help is quick."""

from pathlib import Path

import click

from dra.cli.cluster_flags import ClusterFlags, cluster_options


@click.command()
@cluster_options
@click.option(
    "--config", type=click.Path(exists=True, dir_okay=False, path_type=Path), help=("Path to the configuration file.")
)
def descheduler(*, cluster_flags: ClusterFlags, config: Path | None) -> None:
    """Run the descheduler, which migrates pods: capacity is reserved elsewhere before a pod is evicted."""
    import asyncio  # noqa: PLC0415 - see the head of the module
    import ssl  # noqa: PLC0415 - as above

    from controller.migration.application import Descheduler  # noqa: PLC0415 - as above
    from dra.api.descheduler.configuration import DeschedulerProcessConfiguration  # noqa: PLC0415 - as above
    from dra.cli import server_process  # noqa: PLC0415 - as above
    from dra.kube.codec import raise_recursion_limit  # noqa: PLC0415 - as above
    from dra.kube.errors import ApiError  # noqa: PLC0415 - as above
    from dra.kube.http import HttpTransport  # noqa: PLC0415 - as above
    from dra.telemetry import logs  # noqa: PLC0415 - as above

    configuration = server_process.load_configuration(config, DeschedulerProcessConfiguration)
    logs.configure(configuration.logging)
    raise_recursion_limit()
    try:
        transport = HttpTransport(cluster_flags.find_credentials())
        lease_transport = HttpTransport(cluster_flags.find_credentials())
        application = Descheduler(configuration, transport, lease_transport=lease_transport)
        asyncio.run(server_process.run_until_stopped(application.run()))
    except (ApiError, OSError, ssl.SSLError, ValueError) as error:
        raise click.ClickException(str(error)) from error
