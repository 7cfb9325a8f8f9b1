"""Implements the ``dra-reserve colocation-profiles`` command; its process is imported on use, so help is quick."""

from pathlib import Path

import click

from dra.cli.cluster_flags import ClusterFlags, cluster_options


@click.command("colocation-profiles")
@cluster_options
@click.option(
    "--config", type=click.Path(exists=True, dir_okay=False, path_type=Path), help=("Path to the configuration file.")
)
def colocation_profiles(*, cluster_flags: ClusterFlags, config: Path | None) -> None:
    """Run the loop that gives ClusterColocationProfiles to the admission policy, without a right on policies."""
    import asyncio  # noqa: PLC0415 - see the head of the module
    import ssl  # noqa: PLC0415 - as above

    from controller.colocation.profiles_application import ProfilesApplication  # noqa: PLC0415 - as above
    from dra.api.profiles_configuration import ProfilesConfiguration  # noqa: PLC0415 - as above
    from dra.cli import server_process  # noqa: PLC0415 - as above
    from dra.kube.codec import raise_recursion_limit  # noqa: PLC0415 - as above
    from dra.kube.errors import ApiError  # noqa: PLC0415 - as above
    from dra.kube.http import HttpTransport  # noqa: PLC0415 - as above
    from dra.telemetry import logs  # noqa: PLC0415 - as above

    configuration = server_process.load_configuration(config, ProfilesConfiguration)
    logs.configure(configuration.logging)
    raise_recursion_limit()
    try:
        transport = HttpTransport(cluster_flags.find_credentials())
        lease_transport = HttpTransport(cluster_flags.find_credentials())
        application = ProfilesApplication(configuration, transport, lease_transport=lease_transport)
        asyncio.run(server_process.run_until_stopped(application.run()))
    except (ApiError, OSError, ssl.SSLError, ValueError) as error:
        raise click.ClickException(str(error)) from error
