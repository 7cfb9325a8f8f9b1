"""Everything that one test run leaves on the machine: one short folder in /tmp, its processes and its cgroup."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from tests.cluster import keeper
from tests.cluster.processes import GRACE, Process

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

PARENT: Final = Path("/tmp")  # noqa: S108 not predictable: mkdtemp; $TMPDIR may be long, and socket paths end at 108 bytes

INHERITED: Final = ("PATH", "HOME", "LANG", "TZ", "PYTHONPATH")
"""What a process gets from our environment. Not the proxy variables, nor a KUBECONFIG that points somewhere else.
Without PYTHONPATH, the controller of a worktree's scenarios would be that of the tree which is installed."""

SERVERS_GOGC: Final = "DRA_SERVERS_GOGC"
"""GOGC of the servers: with 400, several clusters on one machine need a fifth less CPU, and more memory."""


class RunFolder:
    """A folder and its processes; `close` ends both, and `keeper` does if we are killed before we can."""

    def __init__(self) -> None:
        self.path: Final = Path(tempfile.mkdtemp(prefix="dr-", dir=PARENT))
        self._processes: list[Process] = []
        self._keeper: Final = subprocess.Popen(
            [sys.executable, keeper.__file__, str(self.path)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def process(
        self,
        name: str,
        command: Sequence[str],
        *,
        ready: Callable[[], bool] = lambda: True,
        grace: float = GRACE,
    ) -> Process:
        """Return a process of this folder, not started yet; its log is NAME.log in the folder."""
        env = {key: os.environ[key] for key in INHERITED if key in os.environ}
        if SERVERS_GOGC in os.environ:
            env["GOGC"] = os.environ[SERVERS_GOGC]
        env[keeper.MARK] = str(self.path)
        log = self.path / f"{name}.log"
        process = Process(name=name, command=command, log=log, env=env, ready=ready, grace=grace)
        self._processes.append(process)
        return process

    def close(self) -> None:
        """Stop the processes, the last one made first, and remove the folder; may be called twice."""
        for process in reversed(self._processes):
            process.stop()
        keeper.clear(self.path)  # children of our processes that outlived them, and containers
        self._keeper.communicate()
