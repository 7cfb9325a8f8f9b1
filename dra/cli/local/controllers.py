"""Our controller as a process beside the plane: the command that users run, kept running."""

import asyncio
import json
import logging
import os
import re
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from dra.cli.local.folder import CONTROLLER, CONTROLLER_LOG, KUBECONFIG, SCRATCH, Folder

PAUSE: Final = 1.0
"""Seconds until a controller that has ended is started again."""

GRACE: Final = 5.0
"""Seconds that it has to end when it is asked to."""

CONFIGURATION: Final[dict[str, Any]] = {
    "mode": "replace",  # the plane has no stock claim controller
    "leaderElection": {"enabled": False},  # there is one, and who is started again need not wait for its own lease
    "probes": {"port": 0},
    "metrics": {"port": 0},
    "logging": {"format": "text"},
}

_log: Final = logging.getLogger(__name__)


class ControllerProcess:
    """A controller that is started again when it ends."""

    def __init__(self, folder: Folder, *, started: Callable[[int | None], None]) -> None:
        """``started`` is told each new pid, and None when there is no process."""
        self._folder = folder
        self._started = started

    async def run(self) -> None:
        """Keep it running until cancelled; then it is stopped, if need be by force."""
        (self._folder / CONTROLLER).write_text(json.dumps(CONFIGURATION), encoding="utf-8")
        while True:
            process = await self._spawn()
            self._started(process.pid)
            try:
                code = await process.wait()
            finally:
                await asyncio.shield(_stop(process))
                self._started(None)
            _log.warning("the controller has ended (%d); it is started again", code)
            await asyncio.sleep(PAUSE)

    async def _spawn(self) -> Process:
        folder = self._folder
        scratch = folder / SCRATCH
        scratch.mkdir(mode=0o700, exist_ok=True)
        with (folder / CONTROLLER_LOG).open("ab") as log:
            return await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "dra.cli.local.tethered",
                "controller",
                f"--kubeconfig={folder / KUBECONFIG}",
                f"--config={folder / CONTROLLER}",
                env={**os.environ, "TMPDIR": str(scratch)},
                stdin=PIPE,  # its tether
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the plane, which then stops it in order
            )


async def _stop(process: Process) -> None:
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), GRACE)
        except TimeoutError:
            process.kill()
            await process.wait()


def probes(log: Path) -> str | None:
    """Return where the controller answers probes, as its log tells."""
    try:
        text = log.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None
    found = re.findall(r"probes on (http://[\d.:]+)", text)
    return found[-1] if found else None
