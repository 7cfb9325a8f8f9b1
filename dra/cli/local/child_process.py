"""Runs processes beside the plane: commands of dra-reserve, restarted for as long as the plane runs."""

import asyncio
import logging
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

RESTART_DELAY: Final = 1.0
"""Seconds until a process that has ended is started again."""

TERMINATION_GRACE: Final = 5.0
"""Seconds that a process has to end after SIGTERM."""

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildProcess:
    """A command of dra-reserve that is restarted when it ends."""

    name: str
    command: Sequence[str]
    log: Path
    scratch: Path
    """Folder for temporary files, which the process cannot remove when it is killed."""

    on_pid_change: Callable[[int | None], None]
    """Called with each new pid, and with None when there is no process."""

    async def run(self) -> None:
        """Keep the process running until cancelled, then stop it, by force if needed."""
        while True:
            process = await self._spawn()
            self.on_pid_change(process.pid)
            try:
                code = await process.wait()
            finally:
                await asyncio.shield(_stop(process))
                self.on_pid_change(None)
            _log.warning("%s ended with exit code %d and is started again; its log is %s", self.name, code, self.log)
            await asyncio.sleep(RESTART_DELAY)

    async def _spawn(self) -> Process:
        self.scratch.mkdir(mode=0o700, exist_ok=True)
        with self.log.open("ab") as log:
            return await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "dra.cli.local.tethered",
                *self.command,
                env={**os.environ, "TMPDIR": str(self.scratch)},
                stdin=PIPE,  # its end closes when this process ends
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the plane, which then stops the process in order
            )


async def _stop(process: Process) -> None:
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), TERMINATION_GRACE)
        except TimeoutError:
            process.kill()
            await process.wait()
