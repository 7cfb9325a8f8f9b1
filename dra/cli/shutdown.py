"""How the processes of the cluster side end: in order when asked to, with an error when they must not go on."""

import asyncio
import contextlib
import signal
from collections.abc import Coroutine
from typing import Any

import click

from dra.kube.leader_election import LeadershipLostError
from dra.kube.store import ServerRestoredError


async def run_until_stopped(work: Coroutine[Any, Any, None]) -> None:
    """Work until SIGTERM or SIGINT, then stop cleanly; raises click.ClickException for a lost lease, or a lost past."""
    running = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, running.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        try:
            await running
        except* (LeadershipLostError, ServerRestoredError) as over:
            raise click.ClickException(_innermost_message(over)) from None


def _innermost_message(failures: BaseException) -> str:
    """Return the text of the innermost failure: task groups nest."""
    while isinstance(failures, BaseExceptionGroup):
        failures = failures.exceptions[0]
    return str(failures)
