"""One program that the tests run beside themselves: started, watched, frozen, stopped by pid."""

from __future__ import annotations

import os
import signal
import subprocess
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.cluster.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

GRACE: Final = 10.0

LOG_TAIL: Final = 30
"""Lines of the log that an error quotes."""


class ProcessDiedError(RuntimeError):
    """A process ended while it was expected to run; the text ends with the last lines of its log."""


@dataclass(kw_only=True)
class Process:
    """A program with its arguments; `command` may be changed between two starts.

    It runs in a session of its own, so that Ctrl-C reaches only the test run, which then stops it in order. Not tied to
    the starting thread by PR_SET_PDEATHSIG: that signal comes when the *thread* ends, and executors end threads.
    """

    name: str
    command: Sequence[str]
    log: Path
    env: Mapping[str, str]
    ready: Callable[[], bool] = field(default=lambda: True)
    grace: float = GRACE
    """Seconds between TERM and KILL."""
    _running: subprocess.Popen[bytes] | None = field(default=None, init=False)
    _frozen: bool = field(default=False, init=False)

    @property
    def pid(self) -> int:
        """The pid of the running process."""
        return self._require().pid

    @property
    def alive(self) -> bool:
        """Whether it was started and has not ended."""
        return self._running is not None and self._running.poll() is None

    @property
    def processor_seconds(self) -> float:
        """Time of a processor that it has used since its last start."""
        user, system = Path(f"/proc/{self.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def start(self, *, within: float = 60) -> None:
        """Start the program and return when it is ready."""
        self.spawn()
        self.wait_ready(within=within)

    def wait_ready(self, *, within: float = 60) -> None:
        """Return when the spawned program is ready; raise `ProcessDiedError` if it ends instead."""
        until(self._ready_or_raise, within=within, saying=f"{self.name} is ready (log: {self.log})")

    def spawn(self) -> None:
        """Start the program and return at once; each start appends to the log."""
        if self.alive:
            raise RuntimeError(f"{self.name} runs already, as pid {self.pid}")
        with self.log.open("ab") as log:
            self._running = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.log.parent,
                env=dict(self.env),
                start_new_session=True,
            )
        self._frozen = False

    def stop(self) -> int | None:
        """End the process, gently as long as its grace lasts; return its exit code, None when it never ran."""
        if self._running is None:
            return None
        if self.alive:
            self.thaw()
            self._running.terminate()
        try:
            return self._running.wait(self.grace)
        except subprocess.TimeoutExpired:
            return self.kill()

    def kill(self) -> int:
        """End the process as a crash would; return its exit code."""
        running = self._require()
        running.kill()
        return running.wait()

    def restart(self, *, within: float = 60) -> None:
        """Stop and start again."""
        self.stop()
        self.start(within=within)

    def freeze(self) -> None:
        """Let the process stand still, connections open: what a long garbage collection or a stolen CPU looks like."""
        os.kill(self.pid, signal.SIGSTOP)
        self._frozen = True

    def thaw(self) -> None:
        """Let a frozen process go on."""
        if self._frozen:
            os.kill(self.pid, signal.SIGCONT)
            self._frozen = False

    def raise_if_dead(self) -> None:
        """Raise `ProcessDiedError` if the process has ended by itself."""
        code = self._require().poll()
        if code is not None:
            raise ProcessDiedError(f"{self.name} ended with exit code {code}; the end of {self.log}:\n{self.tail()}")

    def tail(self) -> str:
        """Return the last lines of the log."""
        with self.log.open(encoding="utf-8", errors="replace") as lines:
            return "".join(deque(lines, maxlen=LOG_TAIL))

    def _ready_or_raise(self) -> bool:
        self.raise_if_dead()
        return self.ready()

    def _require(self) -> subprocess.Popen[bytes]:
        if self._running is None:
            raise RuntimeError(f"{self.name} was never started")
        return self._running
