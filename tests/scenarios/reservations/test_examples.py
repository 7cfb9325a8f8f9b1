"""The pages of examples/reservations can be followed from top to bottom, and commands print what stands below them."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.scenarios.api import Api
from tests.scenarios.eventually import eventually
from tests.scenarios.reservations.conftest import EXAMPLES, PROGRAM, ROOT
from tests.scenarios.target import Target

STORIES: Final = sorted(path.parent.name for path in EXAMPLES.glob("*/README.md"))

BRIEF: Final = {"by-name", "by-controller"}
"""Those that are played wherever scenarios are; all together take half a minute."""

WITHIN: Final = 20.0
"""Seconds for what a page says to become true."""


class Step(NamedTuple):
    """A block of commands; one that prints something is repeated until that is what the page has."""

    commands: str
    printed: str | None


def steps(page: str) -> list[Step]:
    """Return the blocks of a page, in order."""
    found: list[Step] = []
    for language, text in re.findall(r"^```(\w*)\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        if language == "sh":
            found.append(Step(text, None))
        else:
            found[-1] = found[-1]._replace(printed=text)
    return found


def agrees(printed: str, page: str) -> bool:
    """Whether something is as the page has it, but for the width of columns and what differs."""
    pattern = r"\s+".join(re.escape(word).replace("…", r"\S+?") for word in page.split())
    return re.fullmatch(pattern, " ".join(printed.split())) is not None


@pytest.fixture
def environment(target: Target, tmp_path: Path) -> dict[str, str]:
    """An environment in which kubectl has its plugin."""
    plugin = tmp_path / "kubectl-dra"
    words = " ".join(map(shlex.quote, (*PROGRAM[:2], "dra.cli.kubectl.main")))
    plugin.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    plugin.chmod(0o700)
    path = f"{tmp_path}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "KUBECONFIG": str(target.admin), "PYTHONPATH": str(ROOT)}


@pytest.mark.parametrize(
    "story", [each if each in BRIEF else pytest.param(each, marks=pytest.mark.long) for each in STORIES]
)
async def test_the_page_can_be_followed_from_top_to_bottom(
    emptied: Api, environment: dict[str, str], story: str
) -> None:
    for step in steps((EXAMPLES / story / "README.md").read_text(encoding="utf-8")):

        async def run(commands: str = step.commands) -> str:
            return await asyncio.to_thread(shell, commands, environment)

        if step.printed is None:
            await run()
        else:
            page = step.printed
            await eventually(
                run,
                until=lambda text, page=page: agrees(text, page),
                within=WITHIN,
                saying=f"{step.commands.strip()} prints:\n{page}",
            )
    assert emptied is not None


def shell(commands: str, environment: dict[str, str]) -> str:
    done = subprocess.run(
        ["/bin/bash", "-c", commands],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, f"{commands}: {done.stderr}{done.stdout}"
    return done.stdout


async def test_there_are_six_stories() -> None:
    assert STORIES == ["by-controller", "by-label", "by-name", "deleted", "expiry", "shared"]
