"""``dra-reserve scheduler-extender``."""

import asyncio
import contextlib
import signal
import ssl
from pathlib import Path

import click

from controller.extender.application import Extender
from dra.api.extender import ExtenderConfiguration
from dra.cli import configurations
from dra.kube import credentials
from dra.kube.codec import allow_nesting
from dra.kube.errors import ApiError
from dra.kube.http import HttpTransport
from dra.kube.lease import LeadershipLostError
from dra.kube.store import RewoundError
from dra.telemetry import logs


@click.command()
@click.option(
    "--kubeconfig",
    type=click.Path(exists=True, dir_okay=False),
    help="Else $KUBECONFIG, ~/.kube/config, or the pod's own account.",
)
@click.option("--context", help="Context of the kubeconfig.")
@click.option("--config", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Configuration file.")
def scheduler_extender(kubeconfig: str | None, context: str | None, config: Path | None) -> None:
    """Tell kube-scheduler where reserved capacity is, and bind pods."""
    configuration = configurations.read(config, ExtenderConfiguration)
    logs.configure(configuration.logging)
    allow_nesting()
    try:
        transport = HttpTransport(credentials.find(kubeconfig, context=context))
        asyncio.run(_until_stopped(Extender(configuration, transport)))
    except (ApiError, OSError, ssl.SSLError, ValueError) as error:
        raise click.ClickException(str(error)) from error


async def _until_stopped(extender: Extender) -> None:
    running = asyncio.ensure_future(extender.run())
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, running.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        try:
            await running
        except* (LeadershipLostError, RewoundError) as over:
            raise click.ClickException(configurations.first(over)) from None
