"""`kubectl dra` and kubectl as a person uses them: a command line in, what it printed out."""

from __future__ import annotations

import asyncio
import json
import shlex
from typing import TYPE_CHECKING, Any

from click.testing import CliRunner

from dra.cli.kubectl.main import main
from tests.cluster.kubectl import kubectl

if TYPE_CHECKING:
    from pathlib import Path

Json = dict[str, Any]


async def dra(kubeconfig: Path, *arguments: str) -> tuple[int, str]:
    """Run ``kubectl dra``; return its exit code and what it wrote to stdout."""
    done = await asyncio.to_thread(CliRunner().invoke, main, [*arguments, f"--kubeconfig={kubeconfig}"])
    assert done.exit_code in (0, 1), f"kubectl dra {' '.join(arguments)}: {done.output}{done.exception!r}"
    return done.exit_code, done.stdout


async def explained(kubeconfig: Path, what: str, namespace: str) -> Json:
    """Return what ``kubectl dra explain KIND/NAME`` says, as data."""
    _, text = await dra(kubeconfig, "explain", what, f"--namespace={namespace}", "--output=json")
    found: Json = json.loads(text)
    return found


async def run(kubeconfig: Path, command: str) -> None:
    """Run a command line that a text told one to run."""
    fed, _, rest = command.rpartition(" | ")
    program, *words = shlex.split(rest)
    assert program == "kubectl", command
    if words[0] == "dra":
        code, text = await dra(kubeconfig, *words[1:])
        assert code == 0, f"{command}: {text}"
    else:
        stdin = " ".join(shlex.split(fed)[1:])  # echo
        await asyncio.to_thread(kubectl, *words, kubeconfig=kubeconfig, stdin=stdin)
