"""Follows a page: runs its blocks of commands one after the other, and compares what they print with what it shows.

Of what is shown, ages, names that are made up, addresses and the like are compared as what they are. A line ``…``
stands for any lines. `DRA_PAGES_SHOW=FILE` appends what is printed to a file, to be put into the pages.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
NOT_RUN = re.compile(r"^.*# not run here: .+$\n?", re.MULTILINE)
_BLOCKS = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Step:
    """Commands, and what the page shows below them, if it does."""

    number: int
    commands: str
    shown: str


def steps(page: Path) -> list[Step]:
    """Return the blocks of a page; a block without a language right after commands is what they print."""
    found: list[Step] = []
    for kind, text in _BLOCKS.findall(page.read_text()):
        if kind == "sh":
            found.append(Step(len(found) + 1, NOT_RUN.sub("", text), ""))
        elif not kind and found and not found[-1].shown:
            found[-1] = Step(found[-1].number, found[-1].commands, text)
    return found


def programs(folder: Path) -> Path:
    """Make our programs, as they are in this tree, and return the folder that PATH needs."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, module in (("dra-reserve", "dra.cli.main"), ("kubectl-dra", "dra.cli.kubectl.main")):
        script = folder / name
        script.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m {module} "$@"\n')
        script.chmod(0o755)
    return folder


def follow(page: Path, environment: dict[str, str], *, replacing: dict[str, str] | None = None) -> Iterator[str]:
    """Run each step in the root of the tree, with the variables of those before; yield what differs."""
    state = Path(environment["STATE"])
    state.write_text("")
    for step in steps(page):
        commands = step.commands
        for old, new in (replacing or {}).items():
            commands = commands.replace(old, new)
        done = _run(commands, state, environment)
        if done.returncode not in _expected(commands):
            yield f"{page.name}, step {step.number}: exit code {done.returncode}\n{commands}\n{done.stdout}"
            return
        if "DRA_PAGES_SHOW" in os.environ:
            with Path(os.environ["DRA_PAGES_SHOW"]).open("a") as seen:
                seen.write(f"--- {page.relative_to(ROOT)} {step.number}\n{done.stdout}")
        if step.shown and not alike(step.shown, done.stdout):
            yield f"{page.name}, step {step.number} shows\n{step.shown}\nand prints\n{done.stdout}"


def _run(commands: str, state: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    keep = f"trap 'declare -p NODE KUBECONFIG 2>/dev/null > {state} || true' EXIT"
    script = f"set -euo pipefail\n. {state}\n{keep}\n{commands}"
    return subprocess.run(
        ["bash", "-c", script],  # noqa: S607
        cwd=ROOT,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=300,
    )


def _expected(commands: str) -> set[int]:
    """Exit codes that are none of a failure: 1 of `explain` says that something is wrong, which may be the point."""
    last = commands.strip().rpartition("\n")[2]
    return {0, 1} if last.startswith("kubectl dra explain") else {0}


def alike(shown: str, printed: str) -> bool:
    """Whether a text is what is shown, but for what changes from run to run."""
    pattern = "".join(
        r"(?:.*\n)*?" if line.strip() == "…" else re.escape(line) + r"\n" for line in normal(shown).splitlines()
    )
    return re.fullmatch(pattern, normal(printed)) is not None


_MADE_UP = "[bcdfghjklmnpqrstvwxz2456789]"
_CHANGING = (
    (re.compile(rf"\breplicaset\.apps/([a-z]+)-{_MADE_UP}{{8,10}} "), r"replicaset.apps/\1-SUFFIX "),
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z"), "TIME"),
    (re.compile(r"\b(?:\d+[dhms])+\b"), "AGE"),
    (re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "UID"),
    (re.compile(r"127\.0\.0\.1:\d+"), "ADDRESS"),
    (re.compile(r"\bpid \d+"), "pid N"),
    (re.compile(r"\bnode-\d+\b"), "NODE"),
    (
        re.compile(r"\b([a-z]+)(?:-[bcdfghjklmnpqrstvwxz2456789]{8,10})?-[bcdfghjklmnpqrstvwxz2456789]{5}\b"),
        r"\1-SUFFIX",
    ),
    (re.compile(r"v1\.\d+\.\d+\S*"), "VERSION"),
    (re.compile(r"[ \t]+"), " "),
    (re.compile(r" $", re.MULTILINE), ""),
)


def normal(text: str) -> str:
    """Return a text without what changes from run to run."""
    for pattern, word in _CHANGING:
        text = pattern.sub(word, text)
    return text.strip("\n") + "\n"
