"""Implements the ``dra-reserve page`` command; the server is imported on use, so help is quick."""

from pathlib import Path

import click

from dra.cli.cluster_flags import ClusterFlags, cluster_options


@click.command()
@cluster_options
@click.option(
    "--config", type=click.Path(exists=True, dir_okay=False, path_type=Path), help=("Path to the configuration file.")
)
def page(*, cluster_flags: ClusterFlags, config: Path | None) -> None:
    """Serve the page to the users of a cluster: each sees what the user's own rights allow, and changes nothing."""
    import asyncio  # noqa: PLC0415 - see the head of the module
    import ssl  # noqa: PLC0415 - as above

    from dra.api.page_configuration import PageConfiguration  # noqa: PLC0415 - as above
    from dra.cli import server_process  # noqa: PLC0415 - as above
    from dra.cli.page.application import PageApplication  # noqa: PLC0415 - as above
    from dra.cli.prometheus import PrometheusError  # noqa: PLC0415 - as above
    from dra.kube.codec import raise_recursion_limit  # noqa: PLC0415 - as above
    from dra.kube.errors import ApiError  # noqa: PLC0415 - as above
    from dra.kube.http import HttpTransport  # noqa: PLC0415 - as above
    from dra.telemetry import logs  # noqa: PLC0415 - as above

    configuration = server_process.load_configuration(config, PageConfiguration)
    logs.configure(configuration.logging)
    raise_recursion_limit()
    try:
        transport = HttpTransport(cluster_flags.find_credentials())
        asyncio.run(server_process.run_until_stopped(PageApplication(configuration, transport).run()))
    except (ApiError, PrometheusError, OSError, ssl.SSLError, ValueError) as error:
        raise click.ClickException(str(error)) from error
