"""``dra-reserve controller``."""

import asyncio
import contextlib
import signal
from pathlib import Path

import click

from controller.application import Application, MalformedConfigurationError
from dra.api.configuration import Configuration, Mode
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
@click.option(
    "--mode",
    type=click.Choice([mode.value for mode in Mode]),
    help="replace: the stock resourceclaim-controller is off; alongside: it runs as well.",
)
def controller(kubeconfig: str | None, context: str | None, config: Path | None, mode: str | None) -> None:
    """Run the ResourceClaim controller."""
    configuration = read(config, mode=mode)
    logs.configure(configuration.logging)
    allow_nesting()
    try:
        transport = HttpTransport(credentials.find(kubeconfig, context=context))
        application = Application(configuration, transport)
        asyncio.run(_until_stopped(application))
    except (ApiError, MalformedConfigurationError, OSError) as error:  # OSError: a port of ours is taken
        raise click.ClickException(str(error)) from error


def read(path: Path | None, *, mode: str | None) -> Configuration:
    """Return the configuration of a file, with the mode of the command line; raises click.ClickException."""
    return configurations.read(path, Configuration, **({"mode": mode} if mode else {}))


async def _until_stopped(application: Application) -> None:
    """Run until SIGTERM or SIGINT, then stop cleanly; a lost lease, or a lost past, ends the process with an error."""
    running = asyncio.ensure_future(application.run())
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, running.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        try:
            await running
        except* (LeadershipLostError, RewoundError) as over:
            raise click.ClickException(configurations.first(over)) from None
