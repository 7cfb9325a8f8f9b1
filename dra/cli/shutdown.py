"""Ends the processes of the cluster side: in order on a signal, with an error when they must not continue."""

import asyncio
import contextlib
import signal
from collections.abc import Coroutine
from typing import Any

import click

from dra.kube.leader_election import LeadershipLostError
from dra.kube.store import ServerRestoredError


async def run_until_stopped(work: Coroutine[Any, Any, None]) -> None:
    """Run until SIGTERM or SIGINT, then stop cleanly.

    Raises click.ClickException after a lost lease, or when the API server was restored from a backup.
    """
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
    """Return the text of the innermost failure, because task groups nest."""
    while isinstance(failures, BaseExceptionGroup):
        failures = failures.exceptions[0]
    return str(failures)
