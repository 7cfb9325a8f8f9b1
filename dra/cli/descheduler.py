"""Implements the ``dra-reserve descheduler`` command; the descheduler is imported on use, so help is quick."""

from pathlib import Path
from typing import Any

import click

from dra.cli.cluster_flags import ClusterFlags, cluster_options


def _interval(ctx: click.Context, param: click.Parameter, text: str | None) -> int | None:
    """Return the nanoseconds of a duration."""
    from dra.api.durations import MalformedDurationError, parse_duration  # noqa: PLC0415 - see the head of the module

    if text is None:
        return None
    try:
        nanoseconds = parse_duration(text)
    except MalformedDurationError as error:
        raise click.BadParameter(str(error), ctx=ctx, param=param) from error
    if nanoseconds < 0:
        raise click.BadParameter("must be 0s or more", ctx=ctx, param=param)
    return nanoseconds


@click.command()
@cluster_options
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Path to the configuration: of dra-reserve, a DeschedulerConfiguration (Koordinator), or a DeschedulerPolicy.",
)
@click.option(
    "--descheduling-interval",
    metavar="DURATION",
    callback=_interval,
    help="Time between two rounds, for example 5m; 0s: one round. Default: as configured.",
)
@click.option("--dry-run", is_flag=True, help="Carry rounds out without evictions. Default: as configured.")
def descheduler(
    *, cluster_flags: ClusterFlags, config: Path | None, descheduling_interval: int | None, dry_run: bool
) -> None:
    """Run the descheduler, which migrates pods: capacity is reserved elsewhere before a pod is evicted."""
    import asyncio  # noqa: PLC0415 - see the head of the module
    import logging  # noqa: PLC0415 - as above
    import ssl  # noqa: PLC0415 - as above

    from controller.descheduling.user_plugins import load_user_plugins  # noqa: PLC0415 - as above
    from controller.migration.application import Descheduler  # noqa: PLC0415 - as above
    from dra.cli import descheduler_file, server_process  # noqa: PLC0415 - as above
    from dra.engine.descheduling.plugin_catalog import BUILT_IN_NAMES  # noqa: PLC0415 - as above
    from dra.kube.codec import raise_recursion_limit  # noqa: PLC0415 - as above
    from dra.kube.errors import ApiError  # noqa: PLC0415 - as above
    from dra.kube.http import HttpTransport  # noqa: PLC0415 - as above
    from dra.telemetry import logs  # noqa: PLC0415 - as above

    given: dict[str, Any] = {"dry_run": True} if dry_run else {}
    if descheduling_interval is not None:
        given["descheduling_interval"] = descheduling_interval
    file = descheduler_file.read(config, given=given)
    plugins = load_user_plugins(built_in=BUILT_IN_NAMES, seconds=file.configuration.plugin_seconds)
    configuration = file.compile(plugins.by_name).configuration
    cluster_flags = cluster_flags.with_default_kubeconfig(configuration.kubeconfig)
    logs.configure(configuration.logging)
    for fault in plugins.faults:
        logging.getLogger(__name__).warning("%s", fault)
    raise_recursion_limit()
    try:
        transport = HttpTransport(cluster_flags.find_credentials())
        lease_transport = HttpTransport(cluster_flags.find_credentials())
        application = Descheduler(configuration, transport, lease_transport=lease_transport, plugins=plugins)
        asyncio.run(server_process.run_until_stopped(application.run(), first_lists=application.wait_for_sync()))
    except (ApiError, OSError, ssl.SSLError, ValueError) as error:
        raise click.ClickException(str(error)) from error
