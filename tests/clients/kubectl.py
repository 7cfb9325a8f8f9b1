"""The real kubectl, in a namespace of its own, against one of two servers."""

import asyncio
import os
import shlex
import shutil
from dataclasses import dataclass, field
from pathlib import Path

from tests.clients import transcript

BINARY = shutil.which("kubectl")
PATIENCE = 60.0
"""Seconds for one command."""


@dataclass
class Kubectl:
    """A session; calling it runs a command and notes down what came of it."""

    kubeconfig: Path
    namespace: str
    notes: list[str] = field(default_factory=list)

    async def __call__(self, command: str, *, stdin: str = "", only: str = "") -> str:
        """Run a command as one would type it; `only` keeps the lines of the output that contain it."""
        out, errors, code = await self.quiet(command, stdin=stdin)
        if only:
            out = "\n".join(line for line in out.splitlines() if only in line)
        self.notes.append(transcript.entry(f"kubectl {command}", out=out, errors=errors, code=code))
        return out

    async def quiet(self, command: str, *, stdin: str = "") -> tuple[str, str, int]:
        """Run a command that is not noted down."""
        process = await self.start(command)
        async with asyncio.timeout(PATIENCE):
            out, errors = await process.communicate(stdin.encode())
        return out.decode(), errors.decode(), process.returncode or 0

    async def start(self, command: str) -> asyncio.subprocess.Process:
        """Start a command."""
        assert BINARY is not None
        environment = {name: value for name, value in os.environ.items() if not name.startswith("KUBE")}
        environment |= {
            "KUBECONFIG": str(self.kubeconfig),
            "KUBECACHEDIR": f"{self.kubeconfig}.cache",
            "KUBECTL_COMMAND_HEADERS": "false",
            "EDITOR": "true",
            "TZ": "UTC",
        }
        return await asyncio.create_subprocess_exec(
            BINARY,
            f"--namespace={self.namespace}",
            *shlex.split(command),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment,
        )

    async def until(self, process: asyncio.subprocess.Process, command: str, *, lines: int) -> None:
        """Read so many lines of a command that goes on, note them down, end it."""
        assert process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            read = [await process.stdout.readline() for _ in range(lines)]
        process.terminate()
        await process.communicate()
        self.notes.append(transcript.entry(f"kubectl {command}", out=b"".join(read).decode(), errors="", code=0))

    @property
    def story(self) -> str:
        """All that was noted down."""
        return "\n\n".join(self.notes) + "\n"
