"""Follows a page: runs its blocks of commands one after the other, and compares what they print with what it shows.

Of what is shown, ages, names that are made up, addresses and the like are compared as what they are. A line ``…``
stands for any lines, ``…`` in a line for a word. What only reads may be right a
moment later, and is repeated until then.
`DRA_PAGES_SHOW=FILE` appends what is printed to a file, to be put into the pages.
"""

import os
import re
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from tests.pages.reading import Block
from tests.pages.register import NOBODY_ANSWERS, Page

ENVIRONMENT = dict(os.environ)
"""Pages are followed in threads, while pytest writes the name of each test into `os.environ`."""

WITHIN = 20.0
"""Seconds for what a page shows to become true."""

READS = re.compile(
    r"kubectl (get|describe|events|wait|dra (wait|explain|why|audit|get|tree|usage|reservations|simulate|deschedule))\b"
)
MAY_COMPLAIN = re.compile(r"kubectl dra (explain|why|audit|simulate|deschedule|downgrade|colocation why)\b[^|]*")
"""Exit code 1 is an answer of theirs."""

STATE = "kubectl get pods,resourceclaims,events -A || true; tail -n 60 .dra*/*.log || true"
"""Commands that show why a block failed."""


def followed(page: Page, environment: dict[str, str], folder: Path) -> Iterator[str]:
    """Run each block of a page in a folder, with the variables of those before; yield what differs."""
    state = folder / ".variables"
    state.write_text("")
    if page.before:
        _run(page.before, environment, folder)
    for block in page.blocks():
        commands = typed(page, block)
        if not commands:
            continue
        code, printed = _until_right(
            commands, block.shown, lambda commands=commands: _run(commands, environment, folder)
        )
        if code:
            _, seen = _run(STATE, environment, folder)
            yield f"{page.path}, block {block.number}: exit code {code}\n{commands}\n{printed}\n{seen}"
            return
        if "DRA_PAGES_SHOW" in os.environ:
            with Path(os.environ["DRA_PAGES_SHOW"]).open("a") as seen:
                seen.write(f"--- {page.path} {block.number}\n{commands}\n{printed}")
        if block.shown and not alike(block.shown, printed):
            yield f"{page.path}, block {block.number} shows\n{block.shown}\nand prints\n{printed}"


def typed(page: Page, block: Block) -> str:
    """Return what is typed of a block: as it stands, but for what this page says in `replacing`."""
    lines = []
    for line in block.runnable:
        if not any(pattern.search(line) for pattern in NOBODY_ANSWERS):
            for old, new in page.replacing:
                line = re.sub(old, new, line)  # noqa: PLW2901
            lines.append(f"{line} || test $? = 1" if MAY_COMPLAIN.fullmatch(line) else line)
    return "\n".join(filter(None, lines))


def _until_right(commands, shown, run):
    """Run commands; those that only read as often as it takes until they print what is shown."""
    end = time.monotonic() + WITHIN
    reads = all(READS.match(line) for line in commands.splitlines())
    while True:
        code, printed = run()
        if not reads or time.monotonic() > end or (code == 0 and (not shown or alike(shown, printed))):
            return code, printed
        threading.Event().wait(0.5)


def _run(commands: str, environment: dict[str, str], folder: Path) -> tuple[int, str]:
    set_here = re.findall(r"^(?:export )?([A-Z_]+)=", commands, re.MULTILINE)
    names = " ".join([*set_here, *(["KUBECONFIG"] if "dra-reserve local env)" in commands else [])])
    keep = f"trap 'declare -p {names} >> .variables' EXIT\n" if names else ""
    done = subprocess.run(
        ["bash", "-c", f"set -euo pipefail\n. ./.variables\n{keep}{commands}"],  # noqa: S607
        cwd=folder,
        env=ENVIRONMENT | environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=300,
    )
    return done.returncode, done.stdout


def alike(shown: str, printed: str) -> bool:
    """Whether a text is what is shown, but for what changes from run to run."""
    pattern = "".join(
        r"(?:.*\n)*?" if line.strip() == "…" else re.escape(line).replace("…", r"\S+") + r"\n"
        for line in normal(shown).splitlines()
    )
    return re.fullmatch(pattern, normal(printed)) is not None


_MADE_UP = "[bcdfghjklmnpqrstvwxz2456789]"
_CHANGING = (
    (re.compile(rf"\breplicaset\.apps/([a-z]+)-{_MADE_UP}{{8,10}} "), r"replicaset.apps/\1-SUFFIX "),
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z"), "TIME"),
    # Names before ages: a group of a uid may read 194d, the suffix of a generated name 52h9d.
    (re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "UID"),
    (re.compile(rf"\b([a-z]+)(?:-{_MADE_UP}{{8,10}})?-{_MADE_UP}{{5}}\b"), r"\1-SUFFIX"),
    (re.compile(r"\b(?:\d+[dhms])+\b"), "AGE"),
    (re.compile(r"127\.0\.0\.1:\d+"), "ADDRESS"),
    (re.compile(r"\bpid \d+"), "pid N"),
    (re.compile(r"\bnode-\d+\b"), "NODE"),
    (re.compile(r"v1\.\d+\.\d+\S*"), "VERSION"),
    (re.compile(r"[ \t]+"), " "),
    (re.compile(r" $", re.MULTILINE), ""),
)


def normal(text: str) -> str:
    """Return a text without what changes from run to run."""
    for pattern, word in _CHANGING:
        text = pattern.sub(word, text)
    return text.strip("\n") + "\n"
