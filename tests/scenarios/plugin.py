"""``kubectl dra`` as a person runs it: a process of its own, with a kubeconfig, an exit code and an output."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from pathlib import Path

PROGRAM: Final = (sys.executable, "-m", "dra.cli.kubectl.main")
"""What kubectl runs for ``kubectl dra``, from the working tree."""

STAND_DOWN: Final = "reserve.dra/stand-down"
"""The annotation on the controllers' lease by which they are told to do nothing."""

LONGEST: Final = 180.0
"""Seconds for any of its commands here."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What became of a command."""

    code: int
    output: str
    messages: str

    @property
    def content(self) -> dict[str, Any]:
        """The output as data; for ``-o json``."""
        found: dict[str, Any] = json.loads(self.output)
        return found

    def left(self) -> dict[str, str]:
        """Return the claims that are not ready: NAME → state."""
        return {each["name"]: each["state"] for each in self.content["claims"]}

    def missing(self) -> list[str]:
        """Return the steps that are left."""
        return [each["check"] for each in self.content["checks"] if each["verdict"] == "missing"]


Run = Callable[..., Awaitable[Answer]]
"""Runs a command with arguments."""


async def start(kubeconfig: Path, *arguments: str) -> Process:
    """Start a command; whoever starts it ends it."""
    return await asyncio.create_subprocess_exec(
        *PROGRAM,
        *arguments,
        f"--kubeconfig={kubeconfig}",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=os.environ | {"NO_COLOR": "1"},
    )


async def run(kubeconfig: Path, *arguments: str) -> Answer:
    """Run a command to its end."""
    process = await start(kubeconfig, *arguments)
    try:
        async with asyncio.timeout(LONGEST):
            output, messages = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode is not None
    return Answer(code=process.returncode, output=output.decode(), messages=messages.decode())
